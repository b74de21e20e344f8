/**
 * The seam to whatever runs background jobs.
 *
 * Owns: the kinds of jobs and the interface `JobRunner`. A job is a hint that carries an id, never the truth (I5): a runner may lose it,
 * run it late, or run it twice, and the owner of the plan finds again what is due. A handler therefore re-checks everything (I6).
 * Attempts, backoff and parking live in the node's plan record, never in a runner: a job that failed is over.
 */

import type { Logger } from '../observability/index.js';

export const JOB_KINDS = ['seal', 'offload', 'compact', 'collect', 'checkpoint', 'deliver'] as const;
export type JobKind = (typeof JOB_KINDS)[number];

export interface Job {
  readonly kind: JobKind;
  /** 1 to `JOB_ID_CHARS_MAX` characters of `[A-Za-z0-9._-]`, the plan and attempt it is about; unique work has a unique id. */
  readonly id: string;
}

/**
 * Does the work of one kind. Rejects when it failed. `signal` fires when the runner stops and the grace is nearly over: give up soon.
 */
export type JobHandler = (id: string, signal: AbortSignal) => Promise<void>;
export type JobHandlers = Readonly<Record<JobKind, JobHandler>>;

/** What every runner is given. */
export interface RunnerOptions {
  readonly handlers: JobHandlers;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Jobs of one kind at a time in this process; `CONCURRENCY` where left out. */
  readonly concurrency?: Partial<Readonly<Record<JobKind, number>>>;
  /** Called after each failed run, for a metric. */
  readonly onFailure?: (kind: JobKind) => void;
}

export interface JobRun {
  readonly id: string;
  readonly startedMs: number;
  readonly endedMs: number;
  /** null: it went well. */
  readonly error: string | null;
}

export interface JobKindStats {
  readonly queued: number;
  readonly running: number;
  readonly done: number;
  readonly failed: number;
  /** Jobs not taken because the queue was full or stopped. */
  readonly refused: number;
  /** Newest first, at most `LAST_RUNS_MAX`. */
  readonly lastRuns: readonly JobRun[];
}

export type JobStats = Readonly<Record<JobKind, JobKindStats>>;

export interface JobRunner {
  /**
   * Hands over a job. true: it is queued, or was waiting or running already, so that asking again costs nothing; false: not taken (full, stopped, or the
   * queue is out of reach). Never rejects for a queue that is away, and answers within `ENQUEUE_MS_MAX`. Throws for a malformed id (a programmer error).
   */
  enqueue(job: Job): Promise<boolean>;
  /** Takes back a job that waits, as far as the queue can be reached; one that runs goes on. Never rejects. */
  withdraw(job: Job): Promise<void>;
  /** Answers within `STATS_MS_MAX`, whatever the queue does. */
  stats(): Promise<JobStats>;
  /** Why jobs are not run as they should be, in words for an operator; empty when all is well. */
  reasons(): readonly string[];
  /** Starts nothing more, lets running jobs finish, then aborts them; resolves within `graceMs`. Idempotent. */
  stop(graceMs: number): Promise<void>;
}

/**
 * Compaction, collection and checkpoints go over a whole partition: two at a time would only get in each other's way. A delivery mostly waits for its receiver; the node hands over no more at a time than it
 * wants under way.
 */
export const CONCURRENCY: Readonly<Record<JobKind, number>> = { seal: 2, offload: 2, compact: 1, collect: 1, checkpoint: 1, deliver: 256 };
/** Most waiting jobs of one kind in a runner; the scan for due work brings back what was refused. */
export const QUEUED_JOBS_MAX = 10_000;
/** Runs of one kind that `stats` remembers. */
export const LAST_RUNS_MAX = 20;
/** Most characters of a job id. */
const JOB_ID_CHARS_MAX = 200;
/** Longest wait for a queue to take a job, ms. */
export const ENQUEUE_MS_MAX = 1_000;
/** Longest wait for what a queue knows of its jobs, ms. */
export const STATS_MS_MAX = 1_000;
/** Most characters of an error that `stats` remembers. */
const ERROR_CHARS_MAX = 500;

const JOB_ID = /^[A-Za-z0-9._-]+$/;

/** What a run that failed says of itself in reports. */
export function errorText(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, ERROR_CHARS_MAX);
}

/** One value for each kind of job. */
export function perKind<T>(make: (kind: JobKind) => T): Record<JobKind, T> {
  return Object.fromEntries(JOB_KINDS.map((kind) => [kind, make(kind)])) as Record<JobKind, T>;
}

/** Throws for an id that some runner could not carry. */
export function assertJob(job: Job): void {
  if (!JOB_KINDS.includes(job.kind)) throw new Error(`"${job.kind}" is no kind of job`);
  if (job.id.length > JOB_ID_CHARS_MAX || !JOB_ID.test(job.id)) throw new Error(`"${job.id}" cannot be the id of a job`);
}
