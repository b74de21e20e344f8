/**
 * What a run has started, and its end.
 *
 * Promises: everything is ended, the last first, whether the run went through, failed or was interrupted (SIGINT, SIGTERM); what fails to end keeps nothing else from ending; what is started behind
 * the end is ended at once.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** After an interrupt the work gets so long to notice that everything below it is gone, ms. */
const NOTICE_MS_MAX = 15_000;
const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

export class Scope {
  readonly #ends: (() => Promise<unknown>)[] = [];
  #closed = false;
  #closing: Promise<void> = Promise.resolve();

  /** Has something ended with the run. */
  async defer(end: () => Promise<unknown>): Promise<void> {
    this.#ends.push(end);
    if (this.#closed) await this.close();
  }

  /** Resolves when everything has ended, also what another call is ending. */
  close(): Promise<void> {
    this.#closed = true;
    this.#closing = this.#closing.then(() => this.#endAll());
    return this.#closing;
  }

  async #endAll(): Promise<void> {
    for (let end = this.#ends.pop(); end !== undefined; end = this.#ends.pop()) {
      await end().catch((error: unknown) => process.stderr.write(`on the way out: ${error instanceof Error ? error.message : String(error)}\n`));
    }
  }
}

/** Runs work in a scope, a new one or the one that is given. An interrupt ends the process, when everything else has ended. Rejects with what the work came to. */
export async function withScope(work: (scope: Scope) => Promise<void>, scope = new Scope()): Promise<void> {
  const working = work(scope);
  const interrupted = async (code: number): Promise<void> => {
    await scope.close();
    await Promise.race([working.catch(() => undefined), sleep(NOTICE_MS_MAX)]);
    await scope.close();
    process.exit(code);
  };
  const listeners = Object.entries(SIGNALS).map(([signal, code]) => {
    const listener = (): void => void interrupted(code);
    process.once(signal, listener);
    return { signal, listener };
  });
  try {
    await working;
  } finally {
    await scope.close();
    for (const { signal, listener } of listeners) process.removeListener(signal, listener);
  }
}
