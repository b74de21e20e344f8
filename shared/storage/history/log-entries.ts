/** One entry of a partition's log by its place. */
import { decodeLogEntry } from '../records/log-entry.js';
import type { LogEntry } from '../records/types.js';
import { logKey } from '../keys.js';
import { ObjectDamaged, type ObjectStore } from '../object-store.js';

/** Checked to be the entry that its key promises. Throws `BadBytes`, `ObjectMissing`, `ObjectDamaged`. */
export async function readLogEntry(store: ObjectStore, partition: number, session: number, seq: number): Promise<LogEntry> {
  const key = logKey(partition, session, seq);
  const entry = decodeLogEntry(await store.get(key));
  if (entry.partition !== partition || entry.session !== session || entry.seq !== seq) {
    throw new ObjectDamaged(key, `holds entry ${entry.partition}/${entry.session}/${entry.seq}`);
  }
  return entry;
}
