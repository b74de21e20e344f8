/**
 * Since when this node knows that an object may go: the first of the two steps of a collection (I8).
 *
 * Owns: the times, in memory alone: after a restart every grace begins anew, so it is never shorter than it should be. Promises: bounded (I11); a clock that is set back
 * makes a grace longer, never shorter; an object that a whole round did not find again is forgotten.
 */
import { COLLECT_MARKED_MAX } from '../limits.js';

interface Mark {
  sinceMs: number;
  round: number;
}

export class Marks {
  readonly #marks = new Map<string, Mark>();
  #round = 0;

  constructor(private readonly now: () => number, private readonly graceMs: number) {}

  get size(): number {
    return this.#marks.size;
  }

  /** A round begins: what is not marked again until its end is forgotten then. */
  begin(): void {
    this.#round++;
  }

  end(): void {
    for (const [key, mark] of this.#marks) if (mark.round < this.#round) this.#marks.delete(key);
  }

  /** How long the grace of an object still lasts, ms: 0 when it is over. Begins it when this is the first time. */
  leftMs(key: string): number {
    const now = this.now();
    let mark = this.#marks.get(key);
    if (mark === undefined) {
      if (this.#marks.size >= COLLECT_MARKED_MAX) return this.graceMs;
      this.#marks.set(key, (mark = { sinceMs: now, round: this.#round }));
    }
    mark.round = this.#round;
    if (mark.sinceMs > now) mark.sinceMs = now;
    return Math.max(0, mark.sinceMs + this.graceMs - now);
  }

  forget(key: string): void {
    this.#marks.delete(key);
  }
}
