/**
 * Seeded randomness: a run prints its seed, and `FIRN_SEED` replays it.
 */

export class Random {
  #state: number;

  constructor(readonly seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number in [0, 1) (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** A whole number in [from, to). */
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from));
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.int(0, items.length)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  }

  bytes(length: number): Buffer {
    const out = Buffer.allocUnsafe(length);
    for (let i = 0; i < length; i += 1) out[i] = this.int(0, 256);
    return out;
  }

  /** An independent sequence, so that one part's draws do not shift another's. */
  fork(): Random {
    return new Random(Math.floor(this.next() * 4_294_967_296));
  }
}

/** The seed of this run: `FIRN_SEED`, or a fresh one; printed either way. */
export function seeded(label: string): Random {
  const given = process.env['FIRN_SEED'];
  const seed = given === undefined ? Math.floor(Math.random() * 4_294_967_296) : Number(given);
  process.stdout.write(`${label}: FIRN_SEED=${seed}\n`);
  return new Random(seed);
}
