/**
 * The seam to whatever runs background jobs.
 *
 * Owns: the kinds of jobs and the interface `JobRunner`. A job is a hint that carries an id, never the truth (I5): a runner may lose it,
 * run it late, or run it twice, and the owner of the plan finds again what is due. A handler therefore re-checks everything (I6).
 * Attempts, backoff and parking live in the node's plan record, never in a runner: a job that failed is over.
 */

export const JOB_KINDS = ['seal', 'offload', 'compact', 'collect', 'checkpoint'] as const;
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
   * Hands over a job. true: it is queued, or was already waiting; false: not taken (full, stopped, or the queue is out of reach).
   * Never rejects for a queue that is away, and answers within `ENQUEUE_MS_MAX`. Throws for a malformed id (a programmer error).
   */
  enqueue(job: Job): Promise<boolean>;
  stats(): Promise<JobStats>;
  /** Starts nothing more, lets running jobs finish, then aborts them; resolves within `graceMs`. Idempotent. */
  stop(graceMs: number): Promise<void>;
}

/** Most waiting jobs of one kind in a runner; the scan for due work brings back what was refused. */
export const QUEUED_JOBS_MAX = 10_000;
/** Runs of one kind that `stats` remembers. */
export const LAST_RUNS_MAX = 20;
/** Most characters of a job id. */
export const JOB_ID_CHARS_MAX = 200;
/** Longest wait for a queue to take a job, ms. */
export const ENQUEUE_MS_MAX = 1_000;
/** Most characters of an error that `stats` remembers. */
export const ERROR_CHARS_MAX = 500;

const JOB_ID = /^[A-Za-z0-9._-]+$/;

/** Throws for an id that some runner could not carry. */
export function assertJob(job: Job): void {
  if (!JOB_KINDS.includes(job.kind)) throw new Error(`"${job.kind}" is no kind of job`);
  if (job.id.length > JOB_ID_CHARS_MAX || !JOB_ID.test(job.id)) throw new Error(`"${job.id}" cannot be the id of a job`);
}
