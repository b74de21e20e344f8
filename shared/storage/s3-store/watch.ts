/**
 * Ends a try that does not move.
 *
 * Owns: the one timer of a try, and how slow an answer may be. Promises: `signal` fires with the caller's reason, or when nothing was noted for as long as was allowed; SDK and sockets have
 * no other time-outs than this one and the one for connecting.
 */
import { JoinedSignal } from '../../time/joined-signal.js';
import { TryFailed } from './failures.js';
import { ANSWER_BYTES_PER_SECOND_MIN, STALL_MS } from './limits.js';

/** What so many bytes of an answer may take, ms. */
export function answerMs(bytes: number): number {
  return (bytes / ANSWER_BYTES_PER_SECOND_MIN) * 1_000;
}

export class Watch {
  readonly #joined: JoinedSignal;
  #timer: NodeJS.Timeout;
  /** What is left to an answer before it is too slow, ms, as of `#sinceMs`. Time goes, bytes give some back. */
  #leftMs = STALL_MS;
  #sinceMs = performance.now();

  constructor(sources: readonly (AbortSignal | undefined)[]) {
    this.#joined = new JoinedSignal(sources);
    this.#timer = this.#after(STALL_MS, 'no byte moved');
  }

  get signal(): AbortSignal {
    return this.#joined.signal;
  }

  /** Something moved. */
  moved(): void {
    this.#timer.refresh();
  }

  /** Bytes of the answer arrived. */
  arrived(bytes: number): void {
    const now = performance.now();
    this.#leftMs = Math.min(STALL_MS, this.#leftMs - (now - this.#sinceMs) + answerMs(bytes));
    this.goOn(now);
  }

  /** More of the answer is waited for, again or still: whatever came before was not the other side's doing. */
  goOn(now = performance.now()): void {
    this.#sinceMs = now;
    this.allow(Math.max(1, Math.round(this.#leftMs)), `fewer than ${ANSWER_BYTES_PER_SECOND_MIN} bytes a second came`);
  }

  /** From here on the other side waits for us, or again we for it. */
  allow(ms: number, why: string): void {
    clearTimeout(this.#timer);
    this.#timer = this.#after(ms, why);
  }

  /** The try is over, and its connection free for another. */
  end(): void {
    clearTimeout(this.#timer);
    this.#joined.release();
  }

  /** The try has failed: what it left of a request that is still being sent goes. */
  cut(reason: unknown): void {
    clearTimeout(this.#timer);
    this.#joined.abort(reason);
  }

  #after(ms: number, why: string): NodeJS.Timeout {
    return setTimeout(() => this.#joined.abort(new TryFailed(`${why} for ${ms} ms`)), ms).unref();
  }
}
