/** State of a stream: `kind | slot (2) | stream key` -> `StreamRecord`. Replaced by every change, gone with the stream. */
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { decodeStreamRecord, encodeStreamRecord } from '../../../../shared/storage/records/stream-record.js';
import type { StreamRecord } from '../../../../shared/storage/records/types.js';
import { KIND, KeyReader, newKey, putText, putU16, SLOTS_END, textBytes, withinSlots, type KeyRange } from './layout.js';

export const streamRow = {
  kind: KIND.stream,
  key(slot: number, key: StreamKey): Buffer {
    const row = newKey(KIND.stream, 2 + textBytes(key));
    putU16(row, slot, 1);
    return putText(row, key, 3);
  },
  /** All streams of the slots [from, to), `to` up to 65536. */
  range(from = 0, to = SLOTS_END): KeyRange {
    return withinSlots(KIND.stream, from, to);
  },
  decodeKey(row: Buffer): { readonly slot: number; readonly key: StreamKey } {
    const reader = new KeyReader(row, 'stream', KIND.stream, 3);
    return { slot: reader.u16(), key: reader.streamKey() };
  },
  encode(record: StreamRecord): Buffer {
    return encodeStreamRecord(record);
  },
  decode(value: Buffer): StreamRecord {
    return decodeStreamRecord(value);
  },
};
