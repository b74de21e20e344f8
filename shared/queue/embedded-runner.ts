/**
 * Runs jobs in the process itself.
 *
 * Owns: one bounded queue and one bounded set of running jobs for each kind. Promises: an id is waiting or running once, however often it is asked for; a
 * failure is logged, counted and forgotten.
 */
import { withinGrace } from './grace.js';
import {
  assertJob, CONCURRENCY, errorText, JOB_KINDS, LAST_RUNS_MAX, perKind, QUEUED_JOBS_MAX,
  type Job, type JobHandler, type JobKind, type JobKindStats, type JobRun, type JobRunner, type JobStats, type RunnerOptions,
} from './types.js';

export interface EmbeddedRunnerOptions extends RunnerOptions {
  /** Most waiting jobs of a kind, `QUEUED_JOBS_MAX` by default. */
  readonly queuedMax?: number;
}

class Lane {
  readonly waiting = new Set<string>();
  readonly running = new Set<string>();
  readonly lastRuns: JobRun[] = [];
  done = 0;
  failed = 0;
  refused = 0;

  constructor(readonly kind: JobKind, readonly handler: JobHandler, readonly slots: number) {}

  /** The oldest waiting id, when one may start now. */
  next(): string | undefined {
    if (this.running.size >= this.slots) return undefined;
    for (const id of this.waiting) return id;
    return undefined;
  }

  record(run: JobRun): void {
    if (run.error === null) this.done += 1;
    else this.failed += 1;
    this.lastRuns.unshift(run);
    if (this.lastRuns.length > LAST_RUNS_MAX) this.lastRuns.pop();
  }

  stats(): JobKindStats {
    return {
      queued: this.waiting.size, running: this.running.size, done: this.done, failed: this.failed, refused: this.refused, lastRuns: [...this.lastRuns],
    };
  }
}

export class EmbeddedRunner implements JobRunner {
  readonly #options: EmbeddedRunnerOptions;
  readonly #lanes: Readonly<Record<JobKind, Lane>>;
  readonly #abort = new AbortController();
  readonly #idle: (() => void)[] = [];
  #stopping: Promise<void> | null = null;

  constructor(options: EmbeddedRunnerOptions) {
    this.#options = options;
    this.#lanes = perKind((kind) => new Lane(kind, options.handlers[kind], options.concurrency?.[kind] ?? CONCURRENCY[kind]));
  }

  async enqueue(job: Job): Promise<boolean> {
    assertJob(job);
    const lane = this.#lanes[job.kind];
    if (lane.waiting.has(job.id) || lane.running.has(job.id)) return true;
    if (this.#stopping !== null || lane.waiting.size >= (this.#options.queuedMax ?? QUEUED_JOBS_MAX)) {
      lane.refused += 1;
      return false;
    }
    lane.waiting.add(job.id);
    this.#advance(lane);
    return true;
  }

  async withdraw({ kind, id }: Job): Promise<void> {
    this.#lanes[kind].waiting.delete(id);
  }

  async stats(): Promise<JobStats> {
    return perKind((kind) => this.#lanes[kind].stats());
  }

  reasons(): readonly string[] {
    return [];
  }

  stop(graceMs: number): Promise<void> {
    this.#stopping ??= this.#drain(graceMs);
    return this.#stopping;
  }

  #advance(lane: Lane): void {
    for (let id = lane.next(); id !== undefined && this.#stopping === null; id = lane.next()) {
      lane.waiting.delete(id);
      lane.running.add(id);
      void this.#run(lane, id);
    }
  }

  async #run(lane: Lane, id: string): Promise<void> {
    const startedMs = this.#options.now();
    let error: string | null = null;
    try {
      await lane.handler(id, this.#abort.signal);
    } catch (thrown) {
      error = errorText(thrown);
      this.#options.logger.error({ err: thrown, event: 'job-failed', kind: lane.kind, job: id }, 'a background job failed');
      this.#options.onFailure?.(lane.kind);
    }
    lane.running.delete(id);
    lane.record({ id, startedMs, endedMs: this.#options.now(), error });
    this.#advance(lane);
    if (this.#runningCount() === 0) for (const wake of this.#idle.splice(0)) wake();
  }

  #runningCount(): number {
    return JOB_KINDS.reduce((sum, kind) => sum + this.#lanes[kind].running.size, 0);
  }

  async #drain(graceMs: number): Promise<void> {
    for (const kind of JOB_KINDS) this.#lanes[kind].waiting.clear();
    if (this.#runningCount() === 0) return;
    const over = new Promise<void>((resolve) => {
      this.#idle.push(resolve);
    });
    await withinGrace(over, graceMs, this.#abort);
  }
}
