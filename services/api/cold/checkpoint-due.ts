/**
 * When the next checkpoint of a partition is due (architecture section 6).
 *
 * Owns: the count of log records, bytes and changes since the newest checkpoint, which bounds how long a restore takes and how much memory.
 */
import { logKey, logPrefix, parseLogKey } from '../../../shared/storage/keys.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { CHANGE_BYTES_ABOUT, CHECKPOINT_CHANGES, CHECKPOINT_LOG_BYTES, CHECKPOINT_RECORDS } from './limits.js';
import { newestCheckpoint } from '../../../shared/storage/history/checkpoints.js';
import { LOG_START } from '../../../shared/storage/history/log-reader.js';

export class CheckpointDue {
  #records = 0;
  #bytes = 0;
  #changes = 0;

  /** Counts what lies in the log behind the newest checkpoint; fences count like records. */
  async load(store: ObjectStore, partition: number): Promise<void> {
    const { session, seq } = (await newestCheckpoint(store, partition)) ?? LOG_START;
    this.reset();
    const after = session === 0 ? undefined : logKey(partition, session, seq);
    for await (const { key, bytes } of store.list(logPrefix(partition), after)) if (parseLogKey(key) !== null) this.note(bytes, Math.ceil(bytes / CHANGE_BYTES_ABOUT));
  }

  /** A record of so many stored bytes with so many changes. */
  note(bytes: number, changes: number): void {
    this.#records++;
    this.#bytes += bytes;
    this.#changes += changes;
  }

  get due(): boolean {
    return this.#records >= CHECKPOINT_RECORDS || this.#bytes >= CHECKPOINT_LOG_BYTES || this.#changes >= CHECKPOINT_CHANGES;
  }

  /** A checkpoint was handed over: what comes from now on counts for the next one. */
  reset(): void {
    this.#records = 0;
    this.#bytes = 0;
    this.#changes = 0;
  }
}
