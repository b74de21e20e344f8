/**
 * The hot store with what RocksDB does not tell made visible (architecture section 5): numbered commit markers, the `acked`
 * side file, the check at open, and poison on the first failed batch.
 *
 * Owns: the interface. Implementation: `durable-store`.
 */
import type { HotOp, HotReads } from './store.js';

export interface DurableStore extends HotReads {
  /** The number that the next commit will carry: rises by one a commit, from 1, over the life of the directory. */
  readonly nextBatch: number;
  /** Table files in which a checksum failed when the directory was opened: reads of what lies there throw `HotStoreCorrupt`, all others work. Health is degraded while there are any. */
  readonly damagedFiles: readonly string[];
  /** Not null once a batch failed: every commit is refused until `reopen` succeeded. */
  readonly poisoned: Error | null;
  /**
   * Writes `ops` and the commit marker as one synced batch. One at a time: a second call before the first settled is a programmer
   * error. Rejects with the store's error, and the store is poisoned from then on: whether the batch is there is not known before `reopen`.
   */
  commit(ops: readonly HotOp[]): Promise<void>;
  /** Closes and opens the store again, runs the check of an open, and lifts the poison. `nextBatch` may have moved (the failed batch may be there). */
  reopen(): Promise<void>;
  close(): Promise<void>;
}

/** The directory lost acknowledged batches: the node must not serve writes or claim completeness (I9). */
export class HotStoreDamaged extends Error {
  constructor(readonly missingBatches: readonly { readonly from: number; readonly to: number }[], readonly streamsWithGaps: readonly string[], detail: string, options?: ErrorOptions) {
    super(detail, options);
    this.name = 'HotStoreDamaged';
  }
}
