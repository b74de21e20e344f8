/**
 * Streams that cannot be sealed right now (a damaged value, a range that vanished): left out for a while, so that the good ones go on (R123).
 *
 * Owns: who is parked and until when. In memory alone: a restart tries again at once, which costs one failed range.
 */
import type { Incarnation } from '../../../shared/protocol/types.js';
import { PARK_MAX_MS, PARK_MS } from './limits.js';

/** Parked lives remembered; beyond it the oldest is forgotten, and tried again. */
const PARKED_MAX = 65_536;

interface Parked {
  readonly untilMs: number;
  readonly times: number;
  readonly why: string;
}

export class Parking {
  readonly #parked = new Map<Incarnation, Parked>();

  constructor(private readonly now: () => number) {}

  park(incarnation: Incarnation, why: string): void {
    const times = (this.#parked.get(incarnation)?.times ?? 0) + 1;
    const untilMs = this.now() + Math.min(PARK_MS * 2 ** Math.min(times - 1, 30), PARK_MAX_MS);
    this.#parked.delete(incarnation);
    this.#parked.set(incarnation, { untilMs, times, why });
    if (this.#parked.size <= PARKED_MAX) return;
    const oldest = this.#parked.keys().next().value;
    if (oldest !== undefined) this.#parked.delete(oldest);
  }

  isParked(incarnation: Incarnation): boolean {
    const parked = this.#parked.get(incarnation);
    return parked !== undefined && parked.untilMs > this.now();
  }

  /** When the first of those that wait has its turn again, null: none waits. */
  get nextMs(): number | null {
    const now = this.now();
    let next = Infinity;
    for (const { untilMs } of this.#parked.values()) if (untilMs > now && untilMs < next) next = untilMs;
    return next === Infinity ? null : next;
  }

  /** Sealed at last. */
  free(incarnation: Incarnation): void {
    this.#parked.delete(incarnation);
  }

  /** Lives parked now, for reports. */
  list(): readonly { readonly incarnation: Incarnation; readonly why: string }[] {
    return [...this.#parked].filter(([, parked]) => parked.untilMs > this.now()).map(([incarnation, { why }]) => ({ incarnation, why }));
  }

  /** When streams that were left out are looked at again; null: none was. Parked ones have a time of their own; the `restless` among them just moved too fast. */
  retryMs(leftOut: number, restless: number): number | null {
    if (leftOut === 0) return null;
    const soon = this.now() + PARK_MS;
    return restless > 0 ? soon : (this.nextMs ?? soon);
  }
}
