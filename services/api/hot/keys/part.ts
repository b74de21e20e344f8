/**
 * A part of a snapshot that waits to be committed: `kind | slot (2) | incarnation (8) | part id` -> key of its stream, length and sum, when it was staged. Its bytes are a file in `staging/`, which is
 * synced before the row is written and removed after it.
 */
import type { Incarnation, StreamKey } from '../../../../shared/protocol/types.js';
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newIncarnationKey, putText, SLOTS_END, textBytes, withinSlots, type KeyRange } from './layout.js';

const VERSION = 1;

export interface Part {
  readonly key: StreamKey;
  readonly bytes: number;
  /** CRC32C. */
  readonly crc: number;
  readonly stagedAtMs: number;
}

export const partRow = {
  kind: KIND.part,
  key(slot: number, incarnation: Incarnation, id: string): Buffer {
    return putText(newIncarnationKey(KIND.part, slot, incarnation, textBytes(id)), id, 11);
  },
  range(): KeyRange {
    return withinSlots(KIND.part, 0, SLOTS_END);
  },
  decodeKey(key: Buffer): { readonly slot: number; readonly incarnation: Incarnation; readonly id: string } {
    const reader = new KeyReader(key, 'part', KIND.part, 10);
    return { slot: reader.u16(), incarnation: reader.incarnation(), id: reader.text() };
  },
  encode(part: Part): Buffer {
    return encodeStored(VERSION, part, (writer, value) => {
      writer.string(value.key);
      writer.varint(value.bytes);
      writer.u32(value.crc);
      writer.varint(value.stagedAtMs);
    });
  },
  decode(value: Buffer): Part {
    return decodeStored(value, 'part row', VERSION, (reader) => ({ key: reader.string() as StreamKey, bytes: reader.varint(), crc: reader.u32(), stagedAtMs: reader.varint() }));
  },
};
