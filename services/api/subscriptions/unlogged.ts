/**
 * What of one subscription the log in the object store does not hold yet.
 *
 * Owns: marks in memory, one bit a link of a pattern. Promises: whatever this process has not written whole is written whole, so that an increment never rests on what an earlier process may have left out.
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import { EXPLICIT_LINKS_MAX } from './limits.js';

/** Marked links from which everything is written instead. */
const LINKS_MAX = 2 * EXPLICIT_LINKS_MAX;
/** Cursors to streams that are gone may be left in the log up to so many, */
const GONE_MIN = 1_024;

export interface TakenMarks {
  readonly whole: boolean;
  /** Places whose cursors moved, ascending; of no meaning when `whole`. */
  readonly places: readonly number[];
  readonly links: ReadonlySet<StreamKey>;
}

export class UnloggedMarks {
  #dirty = false;
  #whole = true;
  #places = new Uint8Array(0);
  #links = new Set<StreamKey>();
  #gone = 0;

  /** Something waits for the log. */
  get dirty(): boolean {
    return this.#dirty;
  }

  all(): void {
    this.#dirty = true;
    this.#whole = true;
    this.#links.clear();
    this.#places = new Uint8Array(0);
  }

  link(key: StreamKey): void {
    this.#dirty = true;
    if (this.#whole) return;
    this.#links.add(key);
    if (this.#links.size > LINKS_MAX) this.all();
  }

  place(place: number): void {
    this.#dirty = true;
    if (this.#whole) return;
    const at = place >> 3;
    if (at >= this.#places.length) {
      const larger = new Uint8Array(Math.max(64, 2 * (at + 1)));
      larger.set(this.#places);
      this.#places = larger;
    }
    this.#places[at]! |= 1 << (place & 7);
  }

  /** A stream with a cursor is gone, which leaves a cursor in the log that means nothing: some day all is written anew. `count`: links that there are. */
  gone(count: number): void {
    this.#gone++;
    // ... or half of all.
    if (this.#gone < Math.max(GONE_MIN, count / 2)) return;
    this.#gone = 0;
    this.#whole = true;
  }

  /** What waits; nothing waits any more. */
  take(): TakenMarks {
    const places: number[] = [];
    for (const [at, bits] of this.#places.entries()) for (let bit = 0; bits >> bit !== 0; bit++) if ((bits >> bit) & 1) places.push(at * 8 + bit);
    const taken = { whole: this.#whole, places, links: this.#links };
    this.#dirty = false;
    this.#whole = false;
    this.#places = new Uint8Array(0);
    this.#links = new Set();
    return taken;
  }
}
