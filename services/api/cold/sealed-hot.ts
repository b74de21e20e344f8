/** What counts as hot although it is cold too: the bytes that eviction can give back (I3). */
import { heldFrom } from '../../../shared/storage/records/stream-record.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';

/** Logical bytes of a stream that are hot although a cold copy stands behind them. */
export function sealedHotOf(record: StreamRecord | null): number {
  return record === null ? 0 : Math.max(0, Math.min(record.sealed, record.tail) - Math.max(record.hotStart, heldFrom(record)));
}
