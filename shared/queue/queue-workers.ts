/**
 * The side of the queues that runs jobs: one BullMQ worker a kind.
 *
 * Owns: the workers, and the watch over them. Promises: the lock of a running job is renewed however long its bodies stream; a worker that takes nothing while
 * jobs wait and it has room is replaced (R045); what fails while Redis is away, full or read-only is tried again at a bounded rate; a stop is over within its grace.
 */
import { Worker, type Job as QueuedJob } from 'bullmq';
import type { Redis } from 'ioredis';
import { idlePause } from '../time/pause.js';
import { withinGrace } from './grace.js';
import { jobIdOf, queuePrefix } from './queue-names.js';
import type { QueueSender } from './queue-sender.js';
import { CONCURRENCY, errorText, JOB_KINDS, perKind, type JobKind, type RunnerOptions } from './types.js';

/**
 * A worker that was not heard of by Redis for so long has lost its job, ms; renewed at half of it. Short, so that a killed worker's job goes to another one soon. One that
 * was only slow then runs beside the other: each run writes under names of its own, and the node takes the first result (I6).
 */
const LOCK_MS = 5_000;
/** How often lost jobs are looked for, ms. */
const STALLED_CHECK_MS = 1_000;
/** Seconds that one wait for a job lasts. */
const WAIT_S = 5;
/** Wait before Redis is asked again after it failed, ms. */
const RETRY_MS = 1_000;
/** A worker with room that takes nothing for so long while jobs wait is stuck, ms. */
const STUCK_MS = 15_000;
/** How long Redis has to take what workers say at the end, ms, and how often running jobs are looked at before. */
const CLOSE_MS = 500;
const CLOSE_POLL_MS = 20;
/** Attempts are the node's to count: a job whose worker died goes to the next one. */
const STALLED_MAX = 1_000_000;

export interface QueueWorkersOptions extends RunnerOptions {
  readonly sender: QueueSender;
  /** For tests: a shorter lock, and the time between looks for lost jobs is half of it. */
  readonly lockMs?: number;
}

interface Opened {
  readonly worker: Worker;
  readonly redis: Redis;
}

interface Lane {
  opened: Opened;
  readonly running: Set<string>;
  /** When something was taken, or nothing waited, or there was no room. */
  movedMs: number;
}

export class QueueWorkers {
  readonly #options: QueueWorkersOptions;
  readonly #lanes: Readonly<Record<JobKind, Lane>>;
  readonly #abort = new AbortController();
  #stopping: Promise<void> | null = null;

  constructor(options: QueueWorkersOptions) {
    this.#options = options;
    this.#lanes = perKind((kind) => ({ opened: this.#open(kind), running: new Set(), movedMs: options.now() }));
  }

  get running(): number {
    return JOB_KINDS.reduce((sum, kind) => sum + this.#lanes[kind].running.size, 0);
  }

  /** Takes no more jobs, lets those that run finish, tells the rest to give up when the grace is nearly over. */
  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#drain(graceMs);
    return this.#stopping;
  }

  /** Looks for workers that are stuck, given what waits in each queue. Answers the kinds whose worker was replaced. */
  watch(waiting: Readonly<Record<JobKind, { readonly waiting: number }>>): JobKind[] {
    const { now, logger } = this.#options;
    return JOB_KINDS.filter((kind) => {
      const lane = this.#lanes[kind];
      if (waiting[kind].waiting === 0 || lane.running.size >= this.#slots(kind)) lane.movedMs = now();
      if (this.#stopping !== null || now() - lane.movedMs < STUCK_MS) return false;
      logger.error({ event: 'queue-worker-stuck', kind, waiting: waiting[kind].waiting }, 'jobs wait and this worker takes none: it is replaced');
      const { worker, redis } = lane.opened;
      worker.close(true).catch(() => undefined).finally(() => redis.disconnect());
      lane.opened = this.#open(kind);
      lane.movedMs = now();
      return true;
    });
  }

  #slots(kind: JobKind): number {
    return this.#options.concurrency?.[kind] ?? CONCURRENCY[kind];
  }

  /** With a connection of its own: a worker that is stuck may be so because of it. */
  #open(kind: JobKind): Opened {
    const { sender, lockMs = LOCK_MS } = this.#options;
    const redis = sender.link.forWorkers();
    const worker = new Worker(kind, (job) => this.#run(kind, job), {
      connection: redis,
      prefix: queuePrefix(sender.storeId),
      concurrency: this.#slots(kind),
      skipVersionCheck: true,
      lockDuration: lockMs,
      stalledInterval: Math.min(STALLED_CHECK_MS, lockMs / 2),
      maxStalledCount: STALLED_MAX,
      drainDelay: WAIT_S,
      runRetryDelay: RETRY_MS,
    });
    worker.on('completed', (job) => this.#record(kind, job, null));
    worker.on('failed', (job, error) => {
      if (job !== undefined) this.#record(kind, job, errorText(error));
    });
    worker.on('error', (error) => {
      sender.link.note(error);
      this.#breathe(worker);
    });
    return { worker, redis };
  }

  /** A server that refuses (full, read-only) is asked again at once by BullMQ, for ever: so a worker rests after a failure. */
  #breathe(worker: Worker): void {
    if (worker.isPaused() || this.#stopping !== null) return;
    worker.pause(true).catch(() => undefined);
    const timer = setTimeout(() => {
      if (this.#stopping === null) worker.resume().catch(() => undefined);
    }, RETRY_MS);
    timer.unref();
  }

  async #run(kind: JobKind, job: QueuedJob): Promise<void> {
    const { now, handlers, logger, onFailure } = this.#options;
    const id = jobIdOf(kind, job.id ?? '');
    const lane = this.#lanes[kind];
    lane.movedMs = now();
    lane.running.add(id);
    try {
      await handlers[kind](id, this.#abort.signal);
    } catch (thrown) {
      logger.error({ err: thrown, event: 'job-failed', kind, job: id }, 'a background job failed');
      onFailure?.(kind);
      throw thrown;
    } finally {
      lane.running.delete(id);
      lane.movedMs = now();
    }
  }

  /** Once the queue has let go of the job, so that whoever reads of its end may hand the same id over again. */
  #record(kind: JobKind, job: QueuedJob, error: string | null): void {
    const endedMs = this.#options.now();
    void this.#options.sender.record(kind, { id: jobIdOf(kind, job.id ?? ''), startedMs: Math.min(job.processedOn ?? endedMs, endedMs), endedMs, error });
  }

  async #drain(graceMs: number): Promise<void> {
    await withinGrace(this.#closed(), graceMs, this.#abort);
  }

  /** When no job runs, and the queues were told so as far as Redis answers. */
  async #closed(): Promise<void> {
    const closing = Promise.allSettled(JOB_KINDS.map((kind) => this.#lanes[kind].opened.worker.close()));
    while (this.running > 0) await idlePause(CLOSE_POLL_MS);
    await Promise.race([closing, idlePause(CLOSE_MS)]);
  }
}
