/**
 * Runs jobs under BullMQ: enqueues, and takes jobs from the queues, as its role says (architecture section 9).
 *
 * Owns: the two sides of the queues, and what happens while Redis is away. Promises (I5): handing a job over never waits longer than `ENQUEUE_MS_MAX`; a node that
 * runs jobs itself (`both`) runs in its own process what Redis cannot take, so that nothing waits for Redis; one that only enqueues (`queue`) says so and leaves the
 * rest to the scan for due work; Redis may be away at the start, and is used once it comes.
 */
import { EmbeddedRunner } from './embedded-runner.js';
import { joinRuns } from './join-runs.js';
import { QueueSender } from './queue-sender.js';
import { QueueWorkers } from './queue-workers.js';
import { PROBE_MS, RedisLink } from './redis-link.js';
import { assertJob, JOB_KINDS, LAST_RUNS_MAX, perKind, type Job, type JobHandlers, type JobRunner, type JobStats, type RunnerOptions } from './types.js';

/** Jobs that wait this long while none runs have no worker, ms. */
const NO_WORKER_MS = 30_000;

export interface QueueRunnerOptions extends RunnerOptions {
  readonly url: string;
  /** `both`: a node that enqueues and runs; `queue`: one that only enqueues; `worker`: a process that only runs. */
  readonly role: 'both' | 'queue' | 'worker';
  /** Names the queues. A node that has no store yet knows it later; until then nothing is queued. */
  readonly storeId: Promise<string>;
  /** For tests: see `QueueWorkersOptions`. */
  readonly lockMs?: number;
}

export class QueueRunner implements JobRunner {
  readonly #options: QueueRunnerOptions;
  readonly #link: RedisLink;
  readonly #fallback: EmbeddedRunner | null;
  readonly #handlers: JobHandlers;
  readonly #timer: NodeJS.Timeout;
  #sender: QueueSender | null = null;
  #workers: QueueWorkers | null = null;
  #stopping: Promise<void> | null = null;
  /** Since when jobs of a kind wait while none runs; null: they do not. */
  readonly #idleSince = perKind<number | null>(() => null);

  constructor(options: QueueRunnerOptions) {
    this.#options = options;
    const { url, role, handlers, logger, now, concurrency, onFailure } = options;
    this.#link = new RedisLink({ url, logger, now });
    this.#handlers = joinRuns(handlers);
    this.#fallback = role === 'both' ? new EmbeddedRunner({ handlers: this.#handlers, logger, now, concurrency, onFailure }) : null;
    void options.storeId.then((storeId) => this.#open(storeId));
    this.#timer = setInterval(() => void this.#look(), PROBE_MS);
    this.#timer.unref();
  }

  #open(storeId: string): void {
    if (this.#stopping !== null) return;
    const { role, logger, now, concurrency, onFailure, lockMs } = this.#options;
    this.#sender = new QueueSender(this.#link, storeId);
    if (role !== 'queue') this.#workers = new QueueWorkers({ sender: this.#sender, handlers: this.#handlers, logger, now, concurrency, onFailure, lockMs });
  }

  /** Why Redis cannot be used now, null when it can. */
  get away(): string | null {
    return this.#link.away;
  }

  async enqueue(job: Job): Promise<boolean> {
    assertJob(job);
    if (this.#stopping !== null) return false;
    if (this.#sender !== null && (await this.#sender.add(job))) return true;
    return this.#fallback === null ? false : this.#fallback.enqueue(job);
  }

  async withdraw(job: Job): Promise<void> {
    await Promise.all([this.#sender?.remove(job), this.#fallback?.withdraw(job)]);
  }

  async stats(): Promise<JobStats> {
    const own = (await this.#fallback?.stats()) ?? NOTHING;
    const queued = (await this.#sender?.stats()) ?? null;
    if (queued === null) return own;
    // What ran here while Redis was away is not in the queues.
    return perKind((kind) => ({
      queued: queued[kind].queued + own[kind].queued,
      running: queued[kind].running + own[kind].running,
      done: queued[kind].done + own[kind].done,
      failed: queued[kind].failed + own[kind].failed,
      refused: queued[kind].refused,
      lastRuns: [...queued[kind].lastRuns, ...own[kind].lastRuns].sort((a, b) => b.endedMs - a.endedMs).slice(0, LAST_RUNS_MAX),
    }));
  }

  reasons(): readonly string[] {
    const { now } = this.#options;
    const meanwhile = this.#fallback === null ? 'jobs wait until it is back' : 'jobs run in this process until it is back';
    if (this.#link.away !== null) return [`queue: ${this.#link.away}: ${meanwhile}`];
    const unmanned = JOB_KINDS.filter((kind) => now() - (this.#idleSince[kind] ?? Infinity) >= NO_WORKER_MS);
    return [...this.#link.warnings.map((warning) => `queue: ${warning}`), ...unmanned.map((kind) => `queue: ${kind} jobs wait and no worker takes them`)];
  }

  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#end(graceMs);
    return this.#stopping;
  }

  async #end(graceMs: number): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([this.#workers?.stop(graceMs), this.#fallback?.stop(graceMs)]);
    this.#link.close();
  }

  async #look(): Promise<void> {
    const lengths = (await this.#sender?.lengths()) ?? null;
    if (lengths === null || this.#stopping !== null) return;
    for (const kind of JOB_KINDS) {
      const idle = lengths[kind].waiting > 0 && lengths[kind].running === 0;
      this.#idleSince[kind] = idle ? (this.#idleSince[kind] ?? this.#options.now()) : null;
    }
    this.#workers?.watch(lengths);
  }
}

const NOTHING: JobStats = perKind(() => ({ queued: 0, running: 0, done: 0, failed: 0, refused: 0, lastRuns: [] }));
