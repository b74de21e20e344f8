/**
 * A signal that fires with the first of several others, or at a deadline.
 *
 * Owns: its timer and its listeners. Promises: as long as it was not released it fires when it should. `AbortSignal.any` and `AbortSignal.timeout` do not
 * promise that: up to Node 20 a time-out that only a composite signal refers to is collected as garbage, and the composite never fires. So both are banned outside of tests,
 * and this is the one way to put signals together.
 */

/** The time for something was up. */
export class DeadlinePassed extends Error {
  constructor(readonly ms: number) {
    super(`not done within ${ms} ms`);
    this.name = 'DeadlinePassed';
  }
}

export class JoinedSignal {
  readonly #controller = new AbortController();
  readonly #sources: readonly AbortSignal[];
  readonly #timer: NodeJS.Timeout | null;

  /** `deadlineMs`: fires with `DeadlinePassed` after so long; null: never by itself. */
  constructor(sources: readonly (AbortSignal | undefined)[], deadlineMs: number | null = null) {
    this.#sources = sources.filter((source) => source !== undefined);
    this.#timer = deadlineMs === null ? null : setTimeout(() => this.abort(new DeadlinePassed(deadlineMs)), deadlineMs);
    this.#timer?.unref();
    for (const source of this.#sources) {
      if (source.aborted) this.abort(source.reason);
      else source.addEventListener('abort', this.#onSource);
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Fires now, unless it did before. */
  abort(reason: unknown): void {
    this.release();
    this.#controller.abort(reason);
  }

  /** The work has ended: nothing makes it fire any more, and nothing is held. */
  release(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    for (const source of this.#sources) source.removeEventListener('abort', this.#onSource);
  }

  readonly #onSource = (event: Event): void => {
    this.abort((event.target as AbortSignal).reason);
  };
}

/** Runs work under a joined signal, and releases it when the work has ended. */
export async function withSignal<T>(sources: readonly (AbortSignal | undefined)[], deadlineMs: number | null, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const joined = new JoinedSignal(sources, deadlineMs);
  try {
    return await work(joined.signal);
  } finally {
    joined.release();
  }
}
