/**
 * How long a worker waits for a node that is away.
 *
 * Owns: the growing waits between tries, and the end of the patience.
 */

/** Wait before the next try, ms: first and longest. */
const RETRY_MS = 100;
const RETRY_MS_MAX = 3_000;
/** A node that is away for so long without progress ends a job, ms. */
const PATIENCE_MS = 45_000;

export class Patience {
  #nextMs = RETRY_MS;
  #sinceMs: number | null = null;

  /** `isPassing`: whether a failure may pass. */
  constructor(private readonly limitMs: number = PATIENCE_MS, private readonly isPassing: (error: unknown) => boolean, private readonly signal?: AbortSignal) {}

  /** Something came: the patience begins anew. */
  progress(): void {
    this.#sinceMs = null;
    this.#nextMs = RETRY_MS;
  }

  /** Waits before the next try. Throws the failure itself when it stays or lasts too long, the signal's reason when that fired. */
  async wait(error: unknown): Promise<void> {
    this.signal?.throwIfAborted();
    if (!this.isPassing(error)) throw error;
    const now = performance.now();
    this.#sinceMs ??= now;
    if (now - this.#sinceMs >= this.limitMs) throw error;
    await pause(this.#nextMs, this.signal);
    this.#nextMs = Math.min(this.#nextMs * 2, RETRY_MS_MAX);
  }
}

/** Rejects with the signal's reason as soon as it fires. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    if (signal?.aborted === true) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
}
