/**
 * RocksDB whose next batch fails on demand, before or after it was applied. For tests.
 */
import { openRocksStore } from './rocks-store.js';
import type { HotOp, HotStore } from './store.js';

export class BatchFault {
  /** How the next batch fails; null: it does not. */
  next: 'before' | 'after' | null = null;
  /** Batches that were applied. */
  readonly batches: (readonly HotOp[])[] = [];

  /** As `openStore` of a durable store. */
  readonly open = async (dir: string): Promise<HotStore> => {
    const store = await openRocksStore(dir);
    return {
      get: (key) => store.get(key),
      getMany: (keys) => store.getMany(keys),
      scan: (range) => store.scan(range),
      close: () => store.close(),
      batch: async (ops, sync) => {
        const how = this.next;
        this.next = null;
        if (how === 'before') throw new Error('the disk said no');
        await store.batch(ops, sync);
        this.batches.push(ops);
        if (how === 'after') throw new Error('the disk did not say');
      },
    };
  };
}
