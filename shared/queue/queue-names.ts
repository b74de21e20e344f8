/**
 * Names in Redis: one queue a kind and store (architecture section 9).
 *
 * Owns: `firn:{store}:{kind}:…` for everything of one queue, and the ids of jobs in it.
 */
import type { Job, JobKind } from './types.js';

/** Prefix of every key of a store's queues; BullMQ puts the name of the queue, a kind, behind it. */
export function queuePrefix(storeId: string): string {
  return `firn:${storeId}`;
}

/** `{kind}-{plan}-{attempt}`. */
export function queueJobId({ kind, id }: Job): string {
  return `${kind}-${id}`;
}

/** The job's own id. Throws for one of another queue. */
export function jobIdOf(kind: JobKind, queueId: string): string {
  if (!queueId.startsWith(`${kind}-`)) throw new Error(`"${queueId}" is no ${kind} job`);
  return queueId.slice(kind.length + 1);
}

/** A list of the newest runs as JSON, newest first. */
export function runsKey(storeId: string, kind: JobKind): string {
  return `${queuePrefix(storeId)}:${kind}:runs`;
}

/** A hash with the counts `done` and `failed`. */
export function countsKey(storeId: string, kind: JobKind): string {
  return `${queuePrefix(storeId)}:${kind}:counts`;
}
