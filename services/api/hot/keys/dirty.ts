/**
 * A stream with changes that the log does not hold: `kind | partition (2) | slot (2) | incarnation (8)` -> which, since when, and whether it was deleted. Written with the first
 * change, gone once the log holds the newest one.
 */
import type { Incarnation, StreamKey } from '../../../../shared/protocol/types.js';
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putU16, putU64, within, type KeyRange } from './layout.js';

const VERSION = 1;

export interface Dirty {
  readonly key: StreamKey;
  readonly sinceMs: number;
  readonly deleted: boolean;
}

export const dirtyRow = {
  kind: KIND.dirty,
  key(partition: number, slot: number, incarnation: Incarnation): Buffer {
    const key = newKey(KIND.dirty, 12);
    putU16(key, partition, 1);
    putU16(key, slot, 3);
    putU64(key, incarnation, 5);
    return key;
  },
  range(partition: number): KeyRange {
    const prefix = newKey(KIND.dirty, 2);
    putU16(prefix, partition, 1);
    return within(prefix);
  },
  decodeKey(key: Buffer): { readonly partition: number; readonly slot: number; readonly incarnation: Incarnation } {
    const reader = new KeyReader(key, 'dirty', KIND.dirty, 12);
    const decoded = { partition: reader.u16(), slot: reader.u16(), incarnation: reader.incarnation() };
    reader.end();
    return decoded;
  },
  encode(dirty: Dirty): Buffer {
    return encodeStored(VERSION, dirty, (writer, value) => {
      writer.string(value.key);
      writer.varint(value.sinceMs);
      writer.bool(value.deleted);
    });
  },
  decode(value: Buffer): Dirty {
    return decodeStored(value, 'dirty row', VERSION, (reader) => ({ key: reader.string() as StreamKey, sinceMs: reader.varint(), deleted: reader.bool() }));
  },
};
