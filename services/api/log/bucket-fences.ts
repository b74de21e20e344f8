/**
 * Buckets that were purged: their ids are fenced for good (BKT-07, BKT-10).
 *
 * Owns: the set in memory over its rows. Fences are few; all of them are kept in memory.
 */
import { bucketFenceRow } from '../hot/keys/index.js';
import type { HotOp, HotReads } from '../hot/store.js';

export class BucketFences {
  readonly #buckets = new Set<string>();

  static async load(store: HotReads): Promise<BucketFences> {
    const fences = new BucketFences();
    for await (const page of store.scan(bucketFenceRow.range())) for (const entry of page) fences.#buckets.add(bucketFenceRow.decodeKey(entry.key).bucket);
    return fences;
  }

  get none(): boolean {
    return this.#buckets.size === 0;
  }

  has(bucket: string): boolean {
    return this.#buckets.has(bucket);
  }

  all(): string[] {
    return [...this.#buckets];
  }

  /** Fences in memory at once; the row goes into the queue with the purge. */
  add(bucket: string, atMs: number): HotOp {
    this.#buckets.add(bucket);
    return { type: 'put', key: bucketFenceRow.key(bucket), value: bucketFenceRow.encode({ atMs }) };
  }
}
