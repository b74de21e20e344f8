/** One entry of a partition's log by its place. */
import { decodeLogEntry } from '../../../shared/storage/records/log-entry.js';
import type { LogEntry } from '../../../shared/storage/records/types.js';
import { logKey } from '../../../shared/storage/keys.js';
import { ObjectDamaged, type ObjectStore } from '../../../shared/storage/object-store.js';

/** Checked to be the entry that its key promises. Throws `BadBytes`, `ObjectMissing`, `ObjectDamaged`. */
export async function readLogEntry(store: ObjectStore, partition: number, session: number, seq: number): Promise<LogEntry> {
  const key = logKey(partition, session, seq);
  const entry = decodeLogEntry(await store.get(key));
  if (entry.partition !== partition || entry.session !== session || entry.seq !== seq) {
    throw new ObjectDamaged(key, `holds entry ${entry.partition}/${entry.session}/${entry.seq}`);
  }
  return entry;
}
