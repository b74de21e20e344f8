/**
 * Starts checkpoints when they are due or asked for, and knows who waits for one.
 *
 * Owns: the ids of checkpoint jobs and their waiters. A lost run costs nothing: the next scan starts another (I5).
 */
import type { JobRunner } from '../../../shared/queue/index.js';
import type { CheckpointReport } from '../../worker/node-port.js';
import { checkpointJobId } from '../../worker/handlers/checkpoint.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { JOB_SILENT_MS, PLAN_RETRY_MS } from './limits.js';
import type { PartitionCold } from './partition-cold.js';
import { pause } from './timing.js';

export interface CheckpointRunsOptions {
  readonly runner: JobRunner;
  readonly partitions: readonly PartitionCold[];
  readonly logger: Logger;
  readonly now: () => number;
}

interface Waiter {
  readonly resolve: (report: CheckpointReport) => void;
  readonly reject: (error: Error) => void;
}

export class CheckpointRuns {
  readonly #options: CheckpointRunsOptions;
  readonly #waiting = new Map<string, Waiter>();
  /** When the last run of a partition was handed over. */
  readonly #handedMs: (number | null)[];
  #runs = 0;

  constructor(options: CheckpointRunsOptions) {
    this.#options = options;
    this.#handedMs = options.partitions.map(() => null);
  }

  /** Hands over what is due, one run a partition at a time. */
  async tick(): Promise<void> {
    const { partitions, runner, now } = this.#options;
    for (const { partition, session, checkpoint } of partitions) {
      const handed = this.#handedMs[partition] ?? null;
      if (session.state !== 'active' || !checkpoint.due || (handed !== null && now() - handed < JOB_SILENT_MS)) continue;
      this.#handedMs[partition] = now();
      if (!(await runner.enqueue({ kind: 'checkpoint', id: this.#idOf(partition, session.session) }))) this.#handedMs[partition] = null;
    }
  }

  settle(jobId: string, outcome: CheckpointReport | Error): void {
    if (!(outcome instanceof Error)) this.#handedMs[outcome.partition] = null;
    const waiter = this.#waiting.get(jobId);
    this.#waiting.delete(jobId);
    if (outcome instanceof Error) waiter?.reject(outcome);
    else waiter?.resolve(outcome);
  }

  async runAll(signal: AbortSignal): Promise<CheckpointReport[]> {
    const reports: CheckpointReport[] = [];
    for (const partition of this.#options.partitions) reports.push(await this.#run(partition, signal));
    return reports;
  }

  async #run({ partition, session }: PartitionCold, signal: AbortSignal): Promise<CheckpointReport> {
    if (session.state !== 'active') throw session.refusal ?? new Error(`partition ${partition} has no claimed session`);
    const id = this.#idOf(partition, session.session);
    const done = new Promise<CheckpointReport>((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    done.catch(() => undefined);
    const onAbort = (): void => this.settle(id, signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      while (!(await this.#options.runner.enqueue({ kind: 'checkpoint', id }))) await pause(PLAN_RETRY_MS, signal);
      signal.throwIfAborted();
      return await done;
    } finally {
      this.#waiting.delete(id);
      signal.removeEventListener('abort', onAbort);
    }
  }

  #idOf(partition: number, session: number): string {
    return checkpointJobId(partition, session, ++this.#runs);
  }
}
