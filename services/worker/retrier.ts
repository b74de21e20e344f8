/**
 * How long a worker waits for a node that is away, and for its turn at one that is busy.
 *
 * Owns: the waits between tries, and when to give up.
 */
import { pause } from '../../shared/time/pause.js';

/** Wait before the next try, ms: first and longest. */
const RETRY_MS = 100;
const RETRY_MS_MAX = 3_000;
/** A node that is away for so long without progress ends a job, ms. */
const AWAY_MS_MAX = 45_000;
/** Wait before the next try at a node that serves as many as it can, ms: always the same, so that who waits longest has the best chance. */
const TURN_MS = 500;
/** A turn that does not come for so long ends a job, ms: longer than a node lets somebody hold a place who takes nothing (180 s), or a whole upload of a segment takes over a slow line. */
const TURN_MS_MAX = 900_000;

/** What a failure asks for: `again` when the node may be back soon, `turn` when it is there and busy, `never`. */
export type Retry = 'again' | 'turn' | 'never';

export class Retrier {
  #nextMs = RETRY_MS;
  /** Since when the node is away, or busy, ms; null: it is not. */
  #awaySinceMs: number | null = null;
  #busySinceMs: number | null = null;

  constructor(private readonly retryOf: (error: unknown) => Retry, private readonly signal?: AbortSignal, private readonly awayMsMax: number = AWAY_MS_MAX) {}

  /** Something came: the time begins anew. */
  progress(): void {
    this.#awaySinceMs = null;
    this.#busySinceMs = null;
    this.#nextMs = RETRY_MS;
  }

  /** Waits before the next try. Throws the failure itself when it stays or lasts too long, the signal's reason when that fired. */
  async wait(error: unknown): Promise<void> {
    this.signal?.throwIfAborted();
    const retry = this.retryOf(error);
    if (retry === 'never') throw error;
    const now = performance.now();
    if (retry === 'turn') {
      // A node that says so is not away.
      this.#awaySinceMs = null;
      this.#nextMs = RETRY_MS;
      this.#busySinceMs ??= now;
      if (now - this.#busySinceMs >= TURN_MS_MAX) throw error;
      return pause(TURN_MS, this.signal);
    }
    this.#awaySinceMs ??= now;
    if (now - this.#awaySinceMs >= this.awayMsMax) throw error;
    await pause(this.#nextMs, this.signal);
    this.#nextMs = Math.min(this.#nextMs * 2, RETRY_MS_MAX);
  }
}
