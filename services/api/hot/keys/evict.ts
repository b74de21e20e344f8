/**
 * When sealed bytes stop being kept hot: `kind | partition (2) | time in ms (8) | slot (2) | incarnation (8)` -> stream key and the offset below which hot copies may go. Written
 * with the references that cover them, gone with the copies.
 */
import type { Incarnation, Offset, StreamKey } from '../../../../shared/protocol/types.js';
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newTimeKey, putU16, putU64, U64_END, type KeyRange } from './layout.js';

const VERSION = 1;

export interface Eviction {
  readonly key: StreamKey;
  readonly upTo: Offset;
}

export const evictRow = {
  kind: KIND.evict,
  key(partition: number, dueMs: number, slot: number, incarnation: Incarnation): Buffer {
    const key = newTimeKey(KIND.evict, partition, dueMs, 10);
    putU16(key, slot, 11);
    putU64(key, incarnation, 13);
    return key;
  },
  /** Those due before `beforeMs`, earliest first. */
  range(partition: number, beforeMs: number = U64_END): KeyRange {
    return { from: newTimeKey(KIND.evict, partition, 0, 0), to: newTimeKey(KIND.evict, partition, beforeMs, 0) };
  },
  decodeKey(key: Buffer): { readonly partition: number; readonly dueMs: number; readonly slot: number; readonly incarnation: Incarnation } {
    const reader = new KeyReader(key, 'eviction', KIND.evict, 20);
    const decoded = { partition: reader.u16(), dueMs: reader.u64(), slot: reader.u16(), incarnation: reader.incarnation() };
    reader.end();
    return decoded;
  },
  encode(eviction: Eviction): Buffer {
    return encodeStored(VERSION, eviction, (writer, value) => {
      writer.string(value.key);
      writer.varint(value.upTo);
    });
  },
  decode(value: Buffer): Eviction {
    return decodeStored(value, 'eviction row', VERSION, (reader) => ({ key: reader.string() as StreamKey, upTo: reader.varint() as Offset }));
  },
};
