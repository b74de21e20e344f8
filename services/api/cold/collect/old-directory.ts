/**
 * A data directory that stands in a part of the log that was collected: an old copy that was put back.
 *
 * Owns: its refusal. Promises: a directory is never taken on over a hole in the log, and claims nothing before that is known; the refusal says what can be done (I9).
 */
import { readLogEntry } from '../../../../shared/storage/history/log-entries.js';
import { newestCheckpoints } from '../../../../shared/storage/history/checkpoints.js';
import { comparePositions, type LogPosition } from '../../../../shared/storage/history/log-reader.js';
import { logKey } from '../../../../shared/storage/keys.js';
import type { ObjectStore } from '../../../../shared/storage/object-store.js';
import { StartRefused } from '../start-refused.js';

/** Throws `StartRefused` when a log record behind a position lies before the older of the newest two checkpoints and is not there any more. */
export async function refuseCollected(store: ObjectStore, partition: number, after: LogPosition): Promise<void> {
  const { older } = await newestCheckpoints(store, partition);
  if (older === null || comparePositions(after, older) >= 0) return;
  for (let session = Math.max(1, after.session); session <= older.session; session++) {
    const seq = session === after.session ? after.seq + 1 : 1;
    if ((await store.size(logKey(partition, session, seq))) === null) {
      throw new StartRefused(
        `the directory stands at ${after.session}/${after.seq} of the log of partition ${partition}, and the log up to ${older.session}/${older.seq} was collected in ${store.describe}: ` +
        'it is an old copy; move it away and rebuild it with `firn restore`',
      );
    }
    // The log goes oldest first, so behind a record that is there nothing is missing; the end of a session is there in any case.
    if ((await readLogEntry(store, partition, session, seq)).kind === 'record') return;
  }
}
