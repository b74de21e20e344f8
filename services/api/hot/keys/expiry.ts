/** When a stream may expire: `kind | partition (2) | time in ms (8) | slot (2) | stream key` -> nothing. A hint: the stream's state decides. */
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { BadBytes } from '../../../../shared/storage/codec.js';
import { EMPTY, KIND, KeyReader, newTimeKey, putText, putU16, textBytes, U64_END, type KeyRange } from './layout.js';

export const expiryRow = {
  kind: KIND.expiry,
  /** Times before 1970 count as 1970. */
  key(partition: number, atMs: number, slot: number, key: StreamKey): Buffer {
    const row = newTimeKey(KIND.expiry, partition, atMs, 2 + textBytes(key));
    putU16(row, slot, 11);
    return putText(row, key, 13);
  },
  /** Those due before `beforeMs`, earliest first. */
  range(partition: number, beforeMs: number = U64_END): KeyRange {
    return { from: newTimeKey(KIND.expiry, partition, 0, 0), to: newTimeKey(KIND.expiry, partition, beforeMs, 0) };
  },
  decodeKey(row: Buffer): { readonly partition: number; readonly atMs: number; readonly slot: number; readonly key: StreamKey } {
    const reader = new KeyReader(row, 'expiry', KIND.expiry, 13);
    return { partition: reader.u16(), atMs: reader.u64(), slot: reader.u16(), key: reader.streamKey() };
  },
  encode(): Buffer {
    return EMPTY;
  },
  decode(value: Buffer): void {
    if (value.length !== 0) throw new BadBytes('expiry row', 'has a value');
  },
};
