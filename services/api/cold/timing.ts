/**
 * Small means of waiting and of keeping order: an abortable wait for work, a growing wait, a lane of one at a time.
 */

/** The work was told to stop. */
export class Stopped extends Error {
  constructor() {
    super('stopped');
    this.name = 'Stopped';
  }
}

/** Why a signal fired: its own reason, such as a time-out, or that the work was told to stop. */
function reasonOf(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Stopped();
}

/** The result of `work`, or the signal's reason as soon as it fires; the work itself goes on. */
export function orStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    work.catch(() => undefined);
    return Promise.reject(reasonOf(signal));
  }
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(reasonOf(signal));
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** A wait that doubles from `firstMs` to `maxMs`, spread by up to a quarter so that many waiters do not come back at once. */
export class Backoff {
  #nextMs: number;

  constructor(private readonly firstMs: number, private readonly maxMs: number) {
    this.#nextMs = firstMs;
  }

  next(): number {
    const ms = this.#nextMs;
    this.#nextMs = Math.min(ms * 2, this.maxMs);
    return ms * (1 - Math.random() / 4);
  }

  reset(): void {
    this.#nextMs = this.firstMs;
  }
}

/** Runs work one at a time, in the order of the calls. */
export class Lane {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work, work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Resolves when everything queued up to now has ended. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
