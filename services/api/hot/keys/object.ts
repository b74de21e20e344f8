/**
 * A data object that the log named: `kind | partition (2) | session (4) | plan (8) | attempt (4) | part (4) | kind of object (1)` -> its size, sum, how many references name it, and how much of it. Written when a
 * log record is applied, gone after the object's deletion.
 */
import { BadBytes, decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import type { ObjectId } from '../../../../shared/storage/records/types.js';
import { KIND, KeyReader, newKey, putU16, putU32, putU64, within, type KeyRange } from './layout.js';

/** Version 1 did not say how much is named. */
const VERSION = 2;
/** The number of a kind of object is its place here: append only. */
const OBJECT_KINDS = ['segment', 'snapshot', 'merged'] as const satisfies readonly ObjectId['kind'][];

export interface ObjectUse {
  readonly bytes: number;
  /** CRC32C of the whole object. */
  readonly crc: number;
  /** References in the hot store that name it. */
  readonly refs: number;
  /** Raw bytes of what they name, and the most that was ever named: the rest is garbage. Both 0: not known. */
  readonly live: number;
  readonly total: number;
}

export const objectRow = {
  kind: KIND.object,
  key(id: ObjectId): Buffer {
    const key = newKey(KIND.object, 23);
    putU16(key, id.partition, 1);
    putU32(key, id.session, 3);
    putU64(key, id.plan, 7);
    putU32(key, id.attempt, 15);
    putU32(key, id.part, 19);
    key[23] = OBJECT_KINDS.indexOf(id.kind);
    return key;
  },
  range(partition: number): KeyRange {
    const prefix = newKey(KIND.object, 2);
    putU16(prefix, partition, 1);
    return within(prefix);
  },
  decodeKey(key: Buffer): ObjectId {
    const reader = new KeyReader(key, 'object', KIND.object, 23);
    const numbers = { partition: reader.u16(), session: reader.u32(), plan: reader.u64(), attempt: reader.u32(), part: reader.u32() };
    const kind = OBJECT_KINDS[reader.u8()];
    reader.end();
    if (kind === undefined) throw new BadBytes('object key', 'unknown kind of object');
    return { kind, ...numbers };
  },
  encode(use: ObjectUse): Buffer {
    return encodeStored(VERSION, use, (writer, value) => {
      writer.varint(value.bytes);
      writer.u32(value.crc);
      writer.varint(value.refs);
      writer.varint(value.live);
      writer.varint(value.total);
    });
  },
  decode(value: Buffer): ObjectUse {
    if (value[0] === 1) return decodeStored(value, 'object row', 1, (reader) => ({ bytes: reader.varint(), crc: reader.u32(), refs: reader.varint(), live: 0, total: 0 }));
    return decodeStored(value, 'object row', VERSION, (reader) => ({ bytes: reader.varint(), crc: reader.u32(), refs: reader.varint(), live: reader.varint(), total: reader.varint() }));
  },
};
