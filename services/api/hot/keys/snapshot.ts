/**
 * A superseded snapshot that can still be read: `kind | slot (2) | incarnation (8) | offset (8)` -> `SnapshotRecord`. The visible one is part of the stream's state.
 */
import type { Incarnation, Offset } from '../../../../shared/protocol/types.js';
import { decodeSnapshotRecord, encodeSnapshotRecord } from '../../../../shared/storage/records/snapshot-record.js';
import type { SnapshotRecord } from '../../../../shared/storage/records/types.js';
import { KIND, KeyReader, newIncarnationKey, newOffsetKey, within, type KeyRange } from './layout.js';

export const snapshotRow = {
  kind: KIND.snapshot,
  key(slot: number, incarnation: Incarnation, offset: Offset): Buffer {
    return newOffsetKey(KIND.snapshot, slot, incarnation, offset);
  },
  range(slot: number, incarnation: Incarnation): KeyRange {
    return within(newIncarnationKey(KIND.snapshot, slot, incarnation, 0));
  },
  decodeKey(key: Buffer): { readonly slot: number; readonly incarnation: Incarnation; readonly offset: Offset } {
    const reader = new KeyReader(key, 'snapshot', KIND.snapshot, 18);
    const decoded = { slot: reader.u16(), incarnation: reader.incarnation(), offset: reader.offset() };
    reader.end();
    return decoded;
  },
  encode(record: SnapshotRecord): Buffer {
    return encodeSnapshotRecord(record);
  },
  decode(value: Buffer): SnapshotRecord {
    return decodeSnapshotRecord(value);
  },
};
