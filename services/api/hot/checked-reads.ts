/**
 * Reads of the hot store that notice damage.
 *
 * Owns: the checks between the embedded store and everything above. Promises: `get` and `getMany` give what was stored under the key or nothing because nothing
 * was; a scan gives altered rows never, and rows that a damaged table block hides only when no neighbour in that block is in its range.
 *
 * The last needs a word: an iterator does not prove a block's checksum, and a damaged entry may become invisible. `get` does prove it. So for every stretch of about half a block
 * a scan also gets one of the keys it found. Data rows need no such probe: their readers prove that the ranges touch.
 */
import { KIND } from './keys/layout.js';
import { TABLE_BLOCK_BYTES } from './rocks-store.js';
import { entryWithoutSum, withoutSum } from './row-check.js';
import type { HotEntry, HotReads, ScanRange } from './store.js';

/** Raw bytes of rows per probed key: a block holds at least two of these whatever its compression. */
const PROBE_STRIDE_BYTES = Math.floor(TABLE_BLOCK_BYTES * 0.4);

export async function checkedGet(store: HotReads, key: Buffer): Promise<Buffer | undefined> {
  const stored = await store.get(key);
  return stored === undefined ? undefined : withoutSum(key, stored);
}

export async function checkedGetMany(store: HotReads, keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
  const values = await store.getMany(keys);
  for (const [index, stored] of values.entries()) {
    if (stored !== undefined) values[index] = withoutSum(keys[index] as Buffer, stored);
  }
  return values;
}

export async function* checkedScan(store: HotReads, range: ScanRange): AsyncGenerator<readonly HotEntry[], void, void> {
  if (range.values === false || isDataRange(range)) {
    yield* store.scan(range);
    return;
  }
  for await (const page of store.scan(range)) {
    const entries = page.map(entryWithoutSum);
    await store.getMany(probesOf(page));
    yield entries;
  }
}

function isDataRange(range: ScanRange): boolean {
  return range.from[0] === KIND.data && range.to[0] === KIND.data;
}

/** The first key, then one after each stride. */
export function probesOf(page: readonly HotEntry[]): Buffer[] {
  const probes: Buffer[] = [];
  let bytes = PROBE_STRIDE_BYTES;
  for (const { key, value } of page) {
    bytes += key.length + value.length;
    if (bytes < PROBE_STRIDE_BYTES) continue;
    probes.push(key);
    bytes = 0;
  }
  return probes;
}
