/**
 * The retries of one operation: the only layer that retries, the SDK makes each request once.
 *
 * Owns: what is worth another try, how long it waits, and when to give up. Promises: waits are spread at random; no try begins after the deadline, which moves on
 * with the bytes that arrive; what is given up is a `StoreUnavailable` that names the store and the last failure, and never carries the SDK's error, in which
 * headers and keys of the request lie.
 */
import { pause } from '../../time/pause.js';
import { StoreRefused, StoreUnavailable } from '../object-store.js';
import { judge, type AnswerKind, type Failure } from './failures.js';
import { OPERATION_MS, RETRY_MAX_MS, RETRY_MS } from './limits.js';
import { answerMs } from './watch.js';

/** An answer that the operation asked for by its rules, for itself to make sense of: no caller of the store ever sees it. */
export class Answered extends Error {
  constructor(readonly kind: AnswerKind, why: string) {
    super(why);
    this.name = 'Answered';
  }
}

export interface RetryRules {
  /** What was tried and where, for messages. */
  readonly what: string;
  readonly signal: AbortSignal | undefined;
  /** What the operation can make sense of, none by default. Any other such answer (412 to a listing) does not come from a store that understood what it was asked, and is a try that failed. */
  readonly answers?: readonly AnswerKind[];
  /** Added to the time for further tries, ms. */
  readonly extraMs?: number;
  /** In [0, 1). */
  readonly random: () => number;
  readonly onRetry: (why: string) => void;
}

export class Retries {
  readonly #rules: RetryRules;
  #tries = 0;
  #endMs: number;

  constructor(rules: RetryRules) {
    this.#rules = rules;
    this.#endMs = performance.now() + OPERATION_MS + (rules.extraMs ?? 0);
  }

  /** Bytes arrived: the operation is alive, for as long as so many may take. */
  progressed(bytes: number): void {
    this.#tries = 0;
    this.#endMs = Math.min(performance.now() + OPERATION_MS, this.#endMs + answerMs(bytes));
  }

  /** The caller took its time, ms: not the store's fault. */
  rested(ms: number): void {
    this.#endMs += ms;
  }

  /** Time that is left for beginning another try, ms. */
  get leftMs(): number {
    return Math.max(1, this.#endMs - performance.now());
  }

  /** Runs tries until one succeeds. Throws `StoreRefused`, `StoreUnavailable`, the signal's reason; `Answered` where the rules name answers. */
  async run<T>(one: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await one();
      } catch (error) {
        await this.after(error);
      }
    }
  }

  /** A try failed: returns after a wait when there is to be another one, else throws what the operation came to. */
  async after(error: unknown): Promise<void> {
    const { signal } = this.#rules;
    if (signal?.aborted === true) throw signal.reason;
    const failure = judge(error);
    if (failure === null) throw error;
    this.#decide(failure);
    const waitMs = this.#rules.random() * Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** this.#tries++);
    if (performance.now() + waitMs >= this.#endMs) throw this.#gaveUp(failure);
    this.#rules.onRetry(failure.why);
    await pause(waitMs, signal);
  }

  #decide({ kind, why }: Failure): void {
    if (kind === 'refused') throw new StoreRefused(`${this.#rules.what}: ${why}`);
    if (kind !== 'passing' && kind !== 'conflict' && this.#rules.answers?.includes(kind) === true) throw new Answered(kind, why);
  }

  #gaveUp({ why }: Failure): StoreUnavailable {
    return new StoreUnavailable(`${this.#rules.what}: ${why} (gave up after ${this.#tries} tries)`);
  }
}
