/**
 * Work on many subscriptions, a bounded number at a time (I11).
 *
 * Owns: one queue a lane (the origin of webhooks, or the node's own wake events), the count of what runs, in all and in each lane, and how fast work is started. Promises: a subscription waits at most once;
 * lanes take turns, so a receiver that hangs holds up nobody else before all of DELIVERIES_MAX hang; a thousand subscriptions of one stream take the event loop from nobody, since little is started while it
 * is busy.
 */
import { BUSY_SHARE, DELIVERIES_MAX, DELIVERIES_PER_ORIGIN, PACE_MS, STARTS_MAX, STARTS_WHEN_BUSY } from './limits.js';

class Lane<T> {
  readonly waiting = new Set<T>();
  running = 0;
}

export interface LanesOptions<T> {
  /** Never rejects. */
  readonly run: (item: T) => Promise<void>;
  /** Share of the time since the last call for which the event loop was busy, 0 .. 1. */
  readonly busyShare: () => number;
}

export class Lanes<T> {
  readonly #options: LanesOptions<T>;
  readonly #lanes = new Map<string, Lane<T>>();
  #running = 0;
  #stopped = false;
  #idle: (() => void)[] = [];
  /** Starts that are left until the next look at the event loop. */
  #starts = STARTS_MAX;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: LanesOptions<T>) {
    this.#options = options;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    let count = 0;
    for (const lane of this.#lanes.values()) count += lane.waiting.size;
    return count;
  }

  add(name: string, item: T): void {
    if (this.#stopped) return;
    let lane = this.#lanes.get(name);
    if (lane === undefined) this.#lanes.set(name, (lane = new Lane()));
    lane.waiting.add(item);
    this.#advance(name, lane);
  }

  remove(name: string, item: T): void {
    const lane = this.#lanes.get(name);
    if (lane === undefined) return;
    lane.waiting.delete(item);
    this.#dropUnused(name, lane);
  }

  /** Starts nothing more; resolves when nothing runs. */
  stop(): Promise<void> {
    this.#stopped = true;
    this.#lanes.clear();
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Starts the oldest of a lane, if it may. */
  #advance(name: string, lane: Lane<T>): boolean {
    const [item] = lane.waiting;
    if (item === undefined || this.#stopped || this.#running >= DELIVERIES_MAX || lane.running >= DELIVERIES_PER_ORIGIN) return false;
    if (this.#starts === 0) return false;
    this.#starts--;
    this.#keepPace();
    lane.waiting.delete(item);
    lane.running++;
    this.#running++;
    void this.#options.run(item).finally(() => this.#over(name, lane));
    return true;
  }

  #over(name: string, lane: Lane<T>): void {
    lane.running--;
    this.#running--;
    if (this.#running === 0) for (const wake of this.#idle.splice(0)) wake();
    this.#dropUnused(name, lane);
    this.#round();
  }

  /** One of each lane after the other, as long as something may start. Whoever had a turn goes behind the others. */
  #round(): void {
    for (let started = true; started && this.#starts > 0 && this.#running < DELIVERIES_MAX; ) {
      started = false;
      for (const [name, lane] of Array.from(this.#lanes)) {
        if (!this.#advance(name, lane)) continue;
        started = true;
        if (this.#lanes.delete(name)) this.#lanes.set(name, lane);
      }
    }
  }

  /** New starts from time to time, as long as the last ones were used. */
  #keepPace(): void {
    if (this.#timer !== null) return;
    this.#options.busyShare();
    this.#timer = setTimeout(() => {
      this.#timer = null;
      const usedUp = this.#starts < STARTS_MAX;
      this.#starts = this.#options.busyShare() < BUSY_SHARE ? STARTS_MAX : STARTS_WHEN_BUSY;
      if (usedUp && this.#starts < STARTS_MAX) this.#keepPace();
      this.#round();
    }, PACE_MS);
    this.#timer.unref();
  }

  #dropUnused(name: string, lane: Lane<T>): void {
    if (lane.waiting.size === 0 && lane.running === 0 && this.#lanes.get(name) === lane) this.#lanes.delete(name);
  }
}
