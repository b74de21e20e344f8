/**
 * Ends a try that does not move.
 *
 * Owns: the one timer of a try. Promises: `signal` fires with the caller's reason, or when nothing was noted for as long as was allowed; SDK and sockets have
 * no other time-outs than this one and the one for connecting.
 */
import { JoinedSignal } from '../../time/joined-signal.js';
import { TryFailed } from './failures.js';
import { STALL_MS } from './limits.js';

export class Watch {
  readonly #joined: JoinedSignal;
  #timer: NodeJS.Timeout;

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
