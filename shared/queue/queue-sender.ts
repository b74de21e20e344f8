/**
 * The side of the queues that hands jobs over and looks at them.
 *
 * Owns: one BullMQ queue a kind over one connection. Promises: every call answers within its limit, whatever Redis does; what is read has a bound.
 */
import { Queue } from 'bullmq';
import { z } from 'zod';
import { countsKey, queueJobId, queuePrefix, runsKey } from './queue-names.js';
import type { RedisLink } from './redis-link.js';
import { ENQUEUE_MS_MAX, JOB_KINDS, LAST_RUNS_MAX, perKind, STATS_MS_MAX, type Job, type JobKind, type JobKindStats, type JobRun, type JobStats } from './types.js';

/** Events that BullMQ keeps of a queue; nobody here reads them. */
const EVENTS_MAX = 100;

const RUN = z.object({ id: z.string(), startedMs: z.number(), endedMs: z.number(), error: z.string().nullable() });

export class QueueSender {
  readonly #queues: Readonly<Record<JobKind, Queue>>;
  readonly #refused = perKind(() => 0);

  constructor(readonly link: RedisLink, readonly storeId: string) {
    this.#queues = perKind((kind) => {
      // Versions and settings of the server are looked at by the link, which says what is wrong without a word on the console.
      const queue = new Queue(kind, { connection: link.commands, prefix: queuePrefix(storeId), skipVersionCheck: true, skipWaitingForReady: true, skipMetasUpdate: true, streams: { events: { maxLen: EVENTS_MAX } } });
      queue.on('error', (error) => link.note(error));
      return queue;
    });
  }

  /** false: Redis did not take it. A job that is there already is left as it is. */
  async add(job: Job): Promise<boolean> {
    try {
      if (!this.link.ready) throw new Error('away');
      await within(ENQUEUE_MS_MAX, this.#queues[job.kind].add(job.kind, {}, { jobId: queueJobId(job), attempts: 1, removeOnComplete: true, removeOnFail: true, stackTraceLimit: 0 }));
      return true;
    } catch (error) {
      this.#refused[job.kind] += 1;
      if (this.link.ready) this.link.complain('job-not-queued', `${this.link.describe} did not take a job: ${this.link.safe(error)}`);
      return false;
    }
  }

  /** Takes a job back that waits. One that runs is locked and stays. */
  async remove(job: Job): Promise<void> {
    if (!this.link.ready) return;
    await within(ENQUEUE_MS_MAX, this.#queues[job.kind].remove(queueJobId(job))).catch((error: unknown) => this.link.note(error));
  }

  /** Jobs that wait, and jobs that run, by kind; null: Redis does not answer. */
  async lengths(): Promise<Readonly<Record<JobKind, { readonly waiting: number; readonly running: number }>> | null> {
    const answers = await this.#ask(['wait', 'active'].flatMap((list) => JOB_KINDS.map((kind) => ['llen', `${queuePrefix(this.storeId)}:${kind}:${list}`])));
    if (answers === null) return null;
    return perKind((kind) => {
      const at = JOB_KINDS.indexOf(kind);
      return { waiting: Number(answers[at]), running: Number(answers[at + JOB_KINDS.length]) };
    });
  }

  /** What the queues know; null: Redis does not answer. */
  async stats(): Promise<JobStats | null> {
    const lengths = await this.lengths();
    const answers = await this.#ask(JOB_KINDS.flatMap((kind) => [['hmget', countsKey(this.storeId, kind), 'done', 'failed'], ['lrange', runsKey(this.storeId, kind), '0', String(LAST_RUNS_MAX - 1)]]));
    if (lengths === null || answers === null) return null;
    return perKind((kind): JobKindStats => {
      const at = JOB_KINDS.indexOf(kind) * 2;
      const [done, failed] = answers[at] as (string | null)[];
      const runs = (answers[at + 1] as string[]).flatMap(parseRun);
      return { queued: lengths[kind].waiting, running: lengths[kind].running, done: Number(done ?? 0), failed: Number(failed ?? 0), refused: this.#refused[kind], lastRuns: runs };
    });
  }

  /** Puts a run that is over into the counts and the list of the newest. Never rejects: this is for reports alone. */
  async record(kind: JobKind, run: JobRun): Promise<void> {
    const counts = countsKey(this.storeId, kind);
    const runs = runsKey(this.storeId, kind);
    await this.#ask([['hincrby', counts, run.error === null ? 'done' : 'failed', '1'], ['lpush', runs, JSON.stringify(run)], ['ltrim', runs, '0', String(LAST_RUNS_MAX - 1)]]);
  }

  async #ask(commands: readonly (readonly string[])[]): Promise<unknown[] | null> {
    if (!this.link.ready) return null;
    try {
      const answers = await within(STATS_MS_MAX, this.link.commands.pipeline(commands.map((command) => [...command])).exec());
      return (answers ?? []).map(([error, answer]) => {
        if (error !== null) throw error;
        return answer;
      });
    } catch (error) {
      this.link.note(error);
      return null;
    }
  }
}

function parseRun(text: string): JobRun[] {
  try {
    return [RUN.parse(JSON.parse(text))];
  } catch {
    // Not written by this program: left out of a report.
    return [];
  }
}

/** What `work` answers, or a rejection after `ms`; the work itself goes on and its outcome is dropped. */
function within<T>(ms: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(late));
  });
}
