/**
 * The open plans of one partition: which try is under way, when the next one is due, who waits for the outcome (architecture section 9, I5, I6).
 *
 * Owns: plan numbers of the running session, attempts and their backoff. Plans live in memory alone: what lasts are the dirty rows that they were made from,
 * and the session whose number stands in their names. Promises: a number names one plan for ever; a job that is lost, fails or stalls is followed
 * by another try until the plan is finished or its session ends; a try that comes back late finds its plan gone, never another one.
 */
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import type { JobRunner } from '../../../shared/queue/index.js';
import { ATTEMPT_MAX, planName } from '../../../shared/storage/records/object-id.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { PlanGone } from '../../worker/node-port.js';
import type { ColdMetrics } from './cold-metrics.js';
import type { CompactContents } from './compaction/contents.js';
import { JOB_REMIND_MS, JOB_SILENT_MS, OFFLOAD_TRIES_MAX, PLAN_RETRY_MAX_MS, PLAN_RETRY_MS } from './limits.js';
import type { RangeSum } from './hot-blocks.js';
import type { PlanContents } from './plan.js';
import { Backoff } from './timing.js';
import type { OffloadItem } from './offload-plan.js';

export type PlanOutcome =
  /** `dropped`: streams that were left out and are dirty still, `restless` of them only because they moved on meanwhile. `stored`: what a compaction read and wrote, bytes. */
  | { readonly kind: 'done'; readonly segments: number; readonly bytes: number; readonly streams: number; readonly dropped: number; readonly restless: number; readonly stored?: { readonly read: number; readonly written: number } }
  | { readonly kind: 'given-up'; readonly bytes: 0; readonly why: string };

export type PlanWork =
  | { readonly kind: 'seal'; readonly contents: PlanContents }
  | { readonly kind: 'offload'; readonly item: OffloadItem }
  | { readonly kind: 'compact'; readonly contents: CompactContents };

const WORDS = { seal: 'a seal', offload: 'an offload', compact: 'a compaction' } as const;

export class OpenPlan {
  attempt = 1;
  /** Times that a try was taken up: a job that is delivered twice runs twice, and each run names its objects by this. */
  runs = 0;
  /** Streams (by their number) that the node gave up on: damaged, moved on or gone. */
  readonly dropped = new Set<number>();
  /** Sums stored at append, of streams (by their number) that were handed out whole. */
  readonly sums = new Map<number, RangeSum>();
  committing = false;
  lastError: string | null = null;
  /** When the next try is handed over; null while one is out. */
  nextTryMs: number | null = 0;
  /** A handler took this try up. */
  taken = false;
  seenMs: number;
  readonly backoff = new Backoff(PLAN_RETRY_MS, PLAN_RETRY_MAX_MS);
  readonly settled: Promise<PlanOutcome>;
  settle!: (outcome: PlanOutcome) => void;
  readonly #ends: ReadonlyMap<Incarnation, Offset>;

  constructor(readonly partition: number, readonly session: number, readonly plan: number, readonly createdAtMs: number, readonly work: PlanWork) {
    this.seenMs = createdAtMs;
    this.settled = new Promise((resolve) => {
      this.settle = resolve;
    });
    this.#ends = new Map(work.kind === 'seal' ? work.contents.streams.map((stream) => [stream.incarnation, stream.to]) : []);
  }

  get jobId(): string {
    return `${planName(this.partition, this.session, this.plan)}-${this.attempt}`;
  }

  planEnd(incarnation: Incarnation): Offset | null {
    return this.#ends.get(incarnation) ?? null;
  }
}

export interface PlanBoardOptions {
  readonly partition: number;
  readonly runner: () => JobRunner;
  readonly now: () => number;
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
}

export class PlanBoard {
  readonly #options: PlanBoardOptions;
  readonly #open = new Set<OpenPlan>();
  #session = 0;
  #last = 0;

  constructor(options: PlanBoardOptions) {
    this.#options = options;
  }

  /** Plans of earlier sessions are over: whoever waits for one of them is told. Numbers of a session that goes on go on too. */
  begin(session: number): void {
    this.giveUpAll(`session ${session} began`);
    if (session === this.#session) return;
    this.#session = session;
    this.#last = 0;
  }

  /** The last number that was given to a plan of this session, 0 before the first. */
  get last(): number {
    return this.#last;
  }

  open(work: PlanWork): OpenPlan {
    const { partition, now } = this.#options;
    const plan = new OpenPlan(partition, this.#session, ++this.#last, now(), work);
    this.#open.add(plan);
    return plan;
  }

  /** Hands tries over that are due, again and again until somebody takes them up, and takes one for lost that was taken up and went silent. */
  async tick(): Promise<void> {
    const { now, runner, logger, metrics } = this.#options;
    for (const plan of this.#open) {
      if (plan.committing) continue;
      if (plan.nextTryMs === null && plan.taken && now() - plan.seenMs > JOB_SILENT_MS) {
        logger.warn({ event: 'job-silent', job: plan.jobId }, 'a job was not heard of for long: trying again');
        metrics.jobFailed();
        this.#again(plan, 'no sign of life', 0);
      }
      // A queue may have lost what nobody took up yet; one that has it still leaves it as it is (I5).
      if (plan.nextTryMs === null && !plan.taken && now() - plan.seenMs > JOB_REMIND_MS) plan.nextTryMs = now();
      if (plan.nextTryMs === null || plan.nextTryMs > now()) continue;
      plan.seenMs = now();
      plan.nextTryMs = null;
      if (!(await runner().enqueue({ kind: plan.work.kind, id: plan.jobId }))) plan.nextTryMs = now() + PLAN_RETRY_MS;
    }
  }

  /** A handler takes this try up: the plan, and the number that names the objects of this run. Throws `PlanGone`. */
  take(jobId: string): { readonly plan: OpenPlan; readonly run: number } {
    const plan = this.of(jobId);
    if (plan.runs >= ATTEMPT_MAX) {
      this.finish(plan, { kind: 'given-up', bytes: 0, why: `it was taken up ${ATTEMPT_MAX} times` });
      throw new PlanGone(jobId);
    }
    plan.taken = true;
    return { plan, run: ++plan.runs };
  }

  /** The plan of this very try. Throws `PlanGone`. */
  of(jobId: string): OpenPlan {
    for (const plan of this.#open) {
      if (plan.jobId !== jobId || plan.committing) continue;
      plan.seenMs = this.#options.now();
      return plan;
    }
    throw new PlanGone(jobId);
  }

  /** A handler says that it works on a try. false: nobody wants its result; one that is being committed is wanted. */
  noteAlive(jobId: string): boolean {
    for (const plan of this.#open) {
      if (plan.jobId !== jobId) continue;
      plan.seenMs = this.#options.now();
      return true;
    }
    return false;
  }

  /** Whether this very plan may still be committed: numbers begin anew in each session, so a number says nothing. */
  isOpen(plan: OpenPlan): boolean {
    return this.#open.has(plan);
  }

  planEnd(incarnation: Incarnation): Offset | null {
    for (const plan of this.#open) {
      const end = plan.planEnd(incarnation);
      if (end !== null) return end;
    }
    return null;
  }

  /** Why a plan had to be tried again that is not done yet, as a sentence for `healthz`; null: none had to. */
  get trouble(): string | null {
    for (const { work, attempt, lastError } of this.#open) {
      if (lastError !== null) return `partition ${this.#options.partition}: ${WORDS[work.kind]} is at try ${attempt}, the one before failed: ${lastError}`;
    }
    return null;
  }

  /** The try failed: another one follows after a growing wait. */
  failed(plan: OpenPlan, why: string): void {
    if (!this.isOpen(plan)) return;
    this.#options.logger.warn({ event: 'plan-retry', job: plan.jobId, why }, 'a plan will be tried again');
    this.#again(plan, why, plan.backoff.next());
  }

  #again(plan: OpenPlan, why: string, waitMs: number): void {
    plan.committing = false;
    plan.lastError = why;
    const triesMax = plan.work.kind === 'seal' ? ATTEMPT_MAX : OFFLOAD_TRIES_MAX;
    if (plan.attempt >= triesMax) {
      // What it held is found again and gets a new plan: names of objects do not run out, and one bad snapshot does not hold up the others.
      this.finish(plan, { kind: 'given-up', bytes: 0, why: `${triesMax} tries failed, the last because ${why}` });
      return;
    }
    plan.attempt++;
    plan.taken = false;
    plan.nextTryMs = this.#options.now() + waitMs;
    // The regular tick would find it too, only later.
    setTimeout(() => void this.tick().catch(() => undefined), waitMs).unref();
  }

  finish(plan: OpenPlan, outcome: PlanOutcome): void {
    if (!this.#open.delete(plan)) return;
    plan.settle(outcome);
  }

  giveUpAll(why: string): void {
    for (const plan of this.#open) this.finish(plan, { kind: 'given-up', bytes: 0, why });
  }

  /** Open plans, for reports and for telling an orphan from an object that is still being made. */
  list(): readonly OpenPlan[] {
    return [...this.#open];
  }
}
