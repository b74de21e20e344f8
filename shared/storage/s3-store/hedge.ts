/**
 * A second GET where the first one keeps a reader waiting longer than nearly all others did.
 *
 * Owns: how long GETs waited for the head of their answer of late, and how many second ones that allows. Promises: a second one is made after the 99th percentile of those waits and never before
 * `HEDGE_WAIT_MS_MIN`; at most `HEDGE_SHARE` of all GETs get one, so that a store that is slow as a whole is not asked twice as much; the first answer wins, the other request is ended. No retry is made
 * here: where both fail, the first failure is what the read came to.
 */
import { TryFailed } from './failures.js';
import { HEDGE_CREDIT_MAX, HEDGE_SAMPLES, HEDGE_SAMPLES_MIN, HEDGE_SHARE, HEDGE_WAIT_MS_MIN } from './limits.js';

/** Asks once. The signal ends the request; what it answered later all the same has to be given to `discard`. */
export type Ask<T> = (quit: AbortSignal) => Promise<T>;

export interface Contest<T> {
  readonly ask: Ask<T>;
  /** An answer that came second. */
  readonly discard: (late: T) => void;
  /** Whether a second request would begin at once: one that has to wait for a connection helps nobody. */
  readonly hasRoom: () => boolean;
}

const PERCENTILE = 0.99;

export class Hedges {
  /** The newest waits, ms, in a ring. */
  readonly #waits = new Float64Array(HEDGE_SAMPLES);
  #seen = 0;
  #waitMs: number | null = null;
  /** Second GETs that may be made now. */
  #credit = 0;

  constructor(private readonly onHedge: () => void) {}

  /** After how long without an answer a second GET is made, ms; null: too little is known. */
  get waitMs(): number | null {
    return this.#waitMs;
  }

  /** A GET had the head of its answer after so long. */
  answered(ms: number): void {
    this.#waits[this.#seen++ % HEDGE_SAMPLES] = ms;
    if (this.#seen % HEDGE_SAMPLES_MIN !== 0) return;
    const sorted = this.#waits.slice(0, Math.min(this.#seen, HEDGE_SAMPLES)).sort();
    this.#waitMs = Math.max(HEDGE_WAIT_MS_MIN, sorted[Math.floor((sorted.length - 1) * PERCENTILE)] as number);
  }

  /** The first answer to one GET or two. */
  async race<T>(contest: Contest<T>): Promise<T> {
    this.#credit = Math.min(HEDGE_CREDIT_MAX, this.#credit + HEDGE_SHARE);
    const first = begin(contest);
    if (!(await this.#isLate(first.answer)) || !this.#take(contest.hasRoom())) return first.answer;
    this.onHedge();
    const second = begin(contest);
    try {
      return await Promise.any([won(first, second, contest.discard), won(second, first, contest.discard)]);
    } catch (error) {
      throw error instanceof AggregateError ? error.errors[0] : error;
    }
  }

  #isLate(answer: Promise<unknown>): Promise<boolean> {
    const waitMs = this.#waitMs;
    if (waitMs === null) return Promise.resolve(false);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(true), waitMs).unref();
      const came = (): void => {
        clearTimeout(timer);
        resolve(false);
      };
      answer.then(came, came);
    });
  }

  #take(hasRoom: boolean): boolean {
    if (!hasRoom || this.#credit < 1) return false;
    this.#credit -= 1;
    return true;
  }
}

interface Begun<T> {
  readonly answer: Promise<T>;
  readonly quit: AbortController;
}

function begin<T>({ ask }: Contest<T>): Begun<T> {
  const quit = new AbortController();
  return { answer: ask(quit.signal), quit };
}

/** The answer of one, which ends the other. */
async function won<T>(one: Begun<T>, other: Begun<T>, discard: (late: T) => void): Promise<T> {
  const answer = await one.answer;
  if (one.quit.signal.aborted) return answer;
  other.quit.abort(new TryFailed('another GET was answered first'));
  other.answer.then(discard, () => undefined);
  return answer;
}
