/** One entry of a partition's log by its place. */
import { decodeLogEntry } from '../records/log-entry.js';
import type { LogEntry } from '../records/types.js';
import { logKey } from '../keys.js';
import { ObjectDamaged, type ObjectStore } from '../object-store.js';

/** Throws `BadBytes`, `ObjectMissing`, `ObjectDamaged`. */
export async function readLogEntry(store: ObjectStore, partition: number, session: number, seq: number): Promise<LogEntry> {
  return logEntryOf(await store.get(logKey(partition, session, seq)), partition, session, seq);
}

/** Checked to be the entry that its key promises. Throws `BadBytes`, `ObjectDamaged`. */
export function logEntryOf(stored: Buffer, partition: number, session: number, seq: number): LogEntry {
  const entry = decodeLogEntry(stored);
  if (entry.partition !== partition || entry.session !== session || entry.seq !== seq) {
    throw new ObjectDamaged(logKey(partition, session, seq), `holds entry ${entry.partition}/${entry.session}/${entry.seq}`);
  }
  return entry;
}
