/**
 * What the benchmark has started.
 *
 * Promises: it is ended, once, with the work that it was started for or when the run is interrupted; behind an interrupt at once.
 */
import { Scope } from '../lib/scope.js';

export const STARTED = new Scope();

/** Has something ended with the run, if not before by what is answered here. */
export async function endsWithRun(end: () => Promise<unknown>): Promise<() => Promise<unknown>> {
  let ended: Promise<unknown> | null = null;
  const once = (): Promise<unknown> => (ended ??= end());
  await STARTED.defer(once);
  return once;
}

/** Runs work with something that `end` ends. */
export async function ending<T>(end: () => Promise<unknown>, work: () => Promise<T>): Promise<T> {
  const once = await endsWithRun(end);
  try {
    return await work();
  } finally {
    await once();
  }
}
