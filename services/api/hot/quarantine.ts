/**
 * Keeps iterators away from table blocks that are known to be damaged.
 *
 * Owns: the refusal. Promises: a scan that could load such a block throws `HotStoreCorrupt` before it starts; everything else goes on (R007). `get` proves blocks itself and is not restricted.
 */
import { HotStoreCorrupt } from './errors.js';
import type { HotEntry, HotStore, ScanRange } from './store.js';
import type { DamagedRange } from './table-check.js';

/** The store itself when nothing is damaged. */
export function quarantined(store: HotStore, damaged: readonly DamagedRange[]): HotStore {
  if (damaged.length === 0) return store;
  return {
    get: (key) => store.get(key),
    getMany: (keys) => store.getMany(keys),
    batch: (ops, sync) => store.batch(ops, sync),
    close: () => store.close(),
    scan: (range) => guardedScan(store, damaged, range),
  };
}

async function* guardedScan(store: HotStore, damaged: readonly DamagedRange[], range: ScanRange): AsyncGenerator<readonly HotEntry[], void, void> {
  const hit = damaged.find(({ from, to }) => (from === null || Buffer.compare(range.to, from) >= 0) && (to === null || Buffer.compare(range.from, to) <= 0));
  if (hit !== undefined) throw new HotStoreCorrupt(`the hot store is damaged: the block at ${hit.at} of ${hit.file}, within the range of this scan`);
  yield* store.scan(range);
}
