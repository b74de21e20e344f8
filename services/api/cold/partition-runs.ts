/**
 * Starts jobs that go over a whole partition (checkpoints, collections) when they are due or asked for, and knows who waits for one.
 *
 * Owns: the ids of these jobs, and the runs that nothing was heard of yet. Promises: a run that the queue lost is handed over again, under the same id, until its
 * outcome is known or its session has ended (I5).
 */
import type { JobKind, JobRunner } from '../../../shared/queue/index.js';
import { JOB_REMIND_MS, JOB_SILENT_MS } from './limits.js';
import type { PartitionCold } from './partition-cold.js';
import { orStopped } from './timing.js';

export interface PartitionRunsOptions {
  readonly kind: JobKind;
  /** Run `run` of a session. */
  readonly jobId: (partition: number, session: number, run: number) => string;
  /** Whether a partition is due without being asked for. */
  readonly due: (partition: PartitionCold) => boolean;
  readonly runner: () => JobRunner;
  readonly partitions: readonly PartitionCold[];
  readonly now: () => number;
}

class Run<Report> {
  /** When it was handed over last. */
  handedMs = -Infinity;
  readonly outcome: Promise<Report>;
  settle!: (outcome: Report | Error) => void;

  constructor(readonly id: string, readonly partition: number, readonly session: number) {
    this.outcome = new Promise((resolve, reject) => {
      this.settle = (outcome) => (outcome instanceof Error ? reject(outcome) : resolve(outcome));
    });
    // A run that was due has nobody who waits for it.
    this.outcome.catch(() => undefined);
  }
}

export class PartitionRuns<Report> {
  readonly #options: PartitionRunsOptions;
  readonly #open = new Map<string, Run<Report>>();
  /** After a failure the next run that is due waits, by partition. */
  readonly #notBeforeMs: number[];
  #count = 0;

  constructor(options: PartitionRunsOptions) {
    this.#options = options;
    this.#notBeforeMs = options.partitions.map(() => -Infinity);
  }

  /** Begins what is due, one run a partition at a time, and hands over again what nothing was heard of. */
  async tick(): Promise<void> {
    const { partitions, runner, now, kind, due } = this.#options;
    for (const partition of partitions) {
      const busy = [...this.#open.values()].some((run) => run.partition === partition.partition);
      if (partition.session.state === 'active' && due(partition) && !busy && now() >= (this.#notBeforeMs[partition.partition] ?? 0)) this.#begin(partition);
    }
    for (const run of this.#open.values()) {
      if (partitions[run.partition]?.session.session !== run.session) this.settle(run.id, new Error(`session ${run.session} of partition ${run.partition} is over`));
      else if (now() - run.handedMs >= JOB_REMIND_MS) {
        run.handedMs = now();
        if (!(await runner().enqueue({ kind, id: run.id }))) run.handedMs = -Infinity;
      }
    }
  }

  settle(jobId: string, outcome: Report | Error): void {
    const run = this.#open.get(jobId);
    if (run === undefined) return;
    this.#open.delete(jobId);
    if (outcome instanceof Error) this.#notBeforeMs[run.partition] = this.#options.now() + JOB_SILENT_MS;
    run.settle(outcome);
  }

  /** Runs one of a partition now. Rejects with what went wrong, or with the signal's reason. */
  async run(partition: PartitionCold, signal: AbortSignal): Promise<Report> {
    const { state, refusal } = partition.session;
    if (state !== 'active') throw refusal ?? new Error(`partition ${partition.partition} has no claimed session`);
    const run = this.#begin(partition);
    try {
      await this.tick();
      return await orStopped(run.outcome, signal);
    } finally {
      this.#open.delete(run.id);
    }
  }

  #begin({ partition, session }: PartitionCold): Run<Report> {
    const run = new Run<Report>(this.#options.jobId(partition, session.session, ++this.#count), partition, session.session);
    this.#open.set(run.id, run);
    return run;
  }
}
