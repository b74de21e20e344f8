/**
 * Waiting that a signal ends: two kinds, which differ in whether a process stays alive for it.
 */
import { setTimeout as sleep } from 'node:timers/promises';

/** Waits `ms`, or rejects with the signal's reason as soon as it fires. The process stays alive meanwhile. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return wait(ms, signal, true);
}

/** The same for background work: a process that has nothing else to do ends. */
export function idlePause(ms: number, signal?: AbortSignal): Promise<void> {
  return wait(ms, signal, false);
}

async function wait(ms: number, signal: AbortSignal | undefined, ref: boolean): Promise<void> {
  // Nothing but the signal makes it reject, and not with the signal's own reason.
  await sleep(ms, undefined, { signal, ref }).catch(() => signal?.throwIfAborted());
}
