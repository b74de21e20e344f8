/**
 * Whether every batch is there: the chain of commit markers, judged when the store opens (architecture section 5, "What RocksDB does not tell").
 *
 * Owns: reading the ring of markers and the verdict. Promises: a batch that was acknowledged and is missing is named, as long as fewer batches than the
 * ring has places came after it; batches beyond the acknowledged one are no fault (a crash between the sync and the note of it).
 */
import type { Acked } from './acked-file.js';
import { HotStoreCorrupt } from './errors.js';
import { markerRow } from './keys/marker.js';
import type { HotReads } from './store.js';

/** Ranges of missing batches and faults that are listed: the first ones. */
const LISTED_MAX = 100;

/** Up to which batch an earlier open found the chain whole, and that batch's chain sum. Everything up to there lies in checksummed tables. */
export type Verified = Acked;

export interface MissingBatches {
  readonly from: number;
  readonly to: number;
}

export interface ChainVerdict {
  /** The newest batch in the store and its chain sum: the next one continues from here. */
  readonly highest: number;
  readonly crc: number;
  /** First batch whose marker was looked at. */
  readonly checkedFrom: number;
  readonly missing: readonly MissingBatches[];
  /** Batches that are there but not the ones they should be. */
  readonly faults: readonly string[];
}

/** Markers by their place in the ring; number 0: the place is free. */
export class MarkerRing {
  private readonly n: Float64Array;
  private readonly crc: Uint32Array;
  private readonly before: Uint32Array;
  highest = 0;

  constructor(readonly places: number) {
    this.n = new Float64Array(places);
    this.crc = new Uint32Array(places);
    this.before = new Uint32Array(places);
  }

  /**
   * Reads the markers from batch `verified` on in the order of their numbers. Throws `BadBytes` for a damaged one, `HotStoreCorrupt` for one in a wrong place.
   *
   * Where the chain ends at the acknowledged batch or one above, nothing else can be there: the file `acked` is at most one commit behind when a process dies. In any other case (a hole, a file that is missing or
   * lags after a loss of power) the whole ring is read, 2 seconds for 2^20.
   */
  static async read(store: HotReads, places: number, verified: number, acked: number | null): Promise<MarkerRing> {
    const ring = new MarkerRing(places);
    const first = Math.max(1, verified);
    const split = markerRow.key(first, places);
    const { from, to } = markerRow.range();
    let next = first;
    for (const range of [{ from: split, to }, { from, to: split }]) {
      for await (const page of store.scan(range)) {
        for (const { key, value } of page) {
          const { n, crc, before } = markerRow.decode(value);
          if (n === next) next++;
          else if (acked !== null && next > verified && next > acked && next <= acked + 2) return ring;
          ring.add(markerRow.decodeKey(key).position, n, crc, before);
        }
      }
    }
    return ring;
  }

  /** Throws `HotStoreCorrupt` when the marker does not belong to the place. */
  add(position: number, n: number, crc: number, before: number): void {
    if (position >= this.places || n % this.places !== position || n === 0) throw new HotStoreCorrupt(`the marker of batch ${n} at place ${position} of ${this.places}`);
    this.n[position] = n;
    this.crc[position] = crc;
    this.before[position] = before;
    if (n > this.highest) this.highest = n;
  }

  has(n: number): boolean {
    return n > 0 && this.n[n % this.places] === n;
  }

  crcOf(n: number): number {
    return this.crc[n % this.places] as number;
  }

  beforeOf(n: number): number {
    return this.before[n % this.places] as number;
  }
}

/** Pure. `acked` null: not known. */
export function judgeChain(ring: MarkerRing, verified: Verified, acked: Acked | null): ChainVerdict {
  const { highest } = ring;
  const checkedFrom = Math.max(1, verified.n, highest - ring.places + 1);
  const until = Math.max(highest, verified.n, acked?.n ?? 0);
  const missing: { from: number; to: number }[] = [];
  const faults: string[] = [];
  for (let n = checkedFrom; n <= until; n++) {
    if (!ring.has(n)) {
      const open = missing.at(-1);
      if (open !== undefined && open.to === n - 1) open.to = n;
      else if (missing.length < LISTED_MAX) missing.push({ from: n, to: n });
      continue;
    }
    const before = n === 1 ? 0 : n - 1 === verified.n ? verified.crc : n > checkedFrom && ring.has(n - 1) ? ring.crcOf(n - 1) : null;
    if (before !== null && ring.beforeOf(n) !== before) faults.push(`batch ${n} continues another batch ${n - 1}`);
  }
  for (const [name, known] of [['verified', verified], ['acknowledged', acked]] as const) {
    if (known !== null && ring.has(known.n) && ring.crcOf(known.n) !== known.crc) faults.push(`batch ${known.n} is not the one that was ${name}`);
  }
  return { highest, crc: highest === 0 ? 0 : ring.crcOf(highest), checkedFrom, missing, faults: faults.slice(0, LISTED_MAX) };
}
