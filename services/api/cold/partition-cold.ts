/**
 * Cold control of one partition on the node that owns it: claim, replay, seal, offload, eviction (design sections 6 and 7).
 *
 * Owns: the order of everything that touches the partition's log and references. Promises: log records are applied in the order in which they were
 * written, before the node serves what a restart left unapplied; one seal plan at a time, and after a crash at any step the next start goes
 * on from what is durable (I5, I6).
 */
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import type { JobRunner } from '../../../shared/queue/index.js';
import { slotRangeOf } from '../../../shared/storage/slots.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import type { Logger } from '../../../shared/observability/logger.js';
import type { LogCore } from '../log/core.js';
import { Applier } from './apply.js';
import { CheckpointDue } from './checkpoint-due.js';
import type { ColdMetrics } from './cold-metrics.js';
import { rowsOfCore } from './core-rows.js';
import { isHotDamage, isPassing } from './damage.js';
import { purgeMark, unloggedPurges } from './directory.js';
import { DoomedSweeper } from './doomed.js';
import { Evictor } from './evict.js';
import { CLEAN_STEPS_MAX, PARK_MS, PLAN_PURGES_MAX } from './limits.js';
import { readLog } from '../../worker/log/log-reader.js';
import { findOffload, type FoundOffload } from './offload-plan.js';
import { Parking } from './parking.js';
import { PartitionSession, type LogDraft } from './partition-session.js';
import { PlanBoard, type OpenPlan, type PlanOutcome } from './plan-board.js';
import { collectPlan, type PlanContents } from './plan.js';
import type { Steps } from './steps.js';
import { Lane, orStopped, Stopped } from './timing.js';
import { TokenIssuer } from './tokens.js';

export interface PartitionColdOptions {
  readonly core: LogCore;
  readonly store: ObjectStore;
  readonly runner: () => JobRunner;
  readonly partition: number;
  readonly partitions: number;
  readonly sealBytes: number;
  readonly sealAgeMs: number;
  readonly hotKeepMs: number;
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
  readonly now: () => number;
  readonly nonce: () => string;
  readonly steps: Steps;
  readonly stop: AbortSignal;
  readonly pressed: () => boolean;
  readonly removeStaged: (file: string) => Promise<void>;
}

/** What one seal of a partition came to. */
export interface SealStep {
  /** null: nothing was dirty. */
  readonly outcome: PlanOutcome | null;
  /** Where the next one goes on; null: everything dirty was looked at. */
  readonly next: Buffer | null;
  /** Dirty streams that were left out. */
  readonly skipped: number;
}

const NOTHING: SealStep = { outcome: null, next: null, skipped: 0 };

export class PartitionCold {
  readonly partition: number;
  readonly session: PartitionSession;
  readonly applier: Applier;
  readonly evictor: Evictor;
  readonly board: PlanBoard;
  readonly parking: Parking;
  readonly checkpoint: CheckpointDue;
  tokens: TokenIssuer | null = null;
  readonly #options: PartitionColdOptions;
  readonly #doomed: DoomedSweeper;
  /** Log records and everything else that moves references or their counts. */
  readonly #refs = new Lane();
  readonly #seals = new Lane();
  readonly #offloads = new Lane();
  readonly #evictions = new Lane();
  #sealing = false;
  #offloading = false;
  #cleaning = false;
  #more = false;
  #offloadHint = true;
  #cutMs = 0;
  /** When streams that were left out are looked at again. */
  #retryMs: number | null = null;
  #halted: string | null = null;

  constructor(options: PartitionColdOptions) {
    const { core, store, partition, partitions, logger, metrics, now, steps, stop, hotKeepMs } = options;
    this.#options = options;
    this.partition = partition;
    this.session = new PartitionSession({ partition, store, rows: rowsOfCore(core), logger, metrics, now, nonce: options.nonce, steps, stop });
    this.evictor = new Evictor({ core, partition, now, metrics, steps, pressed: options.pressed, removeStaged: options.removeStaged });
    this.applier = new Applier({ core, partition, now, hotKeepMs, steps, stop, onSealed: (bytes) => this.evictor.noteSealed(bytes) });
    this.board = new PlanBoard({ core, partition, runner: options.runner, now, logger, metrics });
    this.parking = new Parking(now);
    this.checkpoint = new CheckpointDue();
    this.#doomed = new DoomedSweeper({ core, partition, slots: slotRangeOf(partition, partitions), counts: this.applier.counts, removeStaged: options.removeStaged });
  }

  /** Reads what the directory knows. Nothing of the object store is asked. */
  async load(tokenKey: Buffer): Promise<void> {
    await this.session.load();
    await this.applier.load();
    await this.evictor.load();
    this.tokens = new TokenIssuer(this.partition, tokenKey, rowsOfCore(this.#options.core), { session: () => this.session.session, next: () => this.#nextSession() });
  }

  /** Claims a session and applies what the log holds beyond this store. Throws `StoreUnavailable`, `StartRefused`; damage as what it is. */
  claim(): Promise<void> {
    return this.#refs.run(async () => {
      if (this.session.state === 'unclaimed') await this.session.claim();
      try {
        await this.#replay();
      } catch (error) {
        // Hot copies of what was not applied are still there, so everything can be served; only sealing cannot go on.
        if (!isHotDamage(error)) throw error;
        this.#halt(error);
      }
      await this.board.begin(this.session.session);
      await this.checkpoint.load(this.#options.store, this.partition);
      if ((await unloggedPurges(this.#options.core.store, this.partition, 1)).length > 0) this.#more = true;
    });
  }

  async #replay(): Promise<void> {
    const { store, logger, stop } = this.#options;
    const after = this.applier.position;
    for await (const { record } of readLog({ store, partition: this.partition, after, until: this.session.session, live: true, signal: stop })) {
      logger.info({ event: 'log-replayed', partition: this.partition, session: record.session, seq: record.seq }, 'applying a log record that this directory did not hold');
      await this.applier.apply(record);
    }
  }

  #nextSession(): Promise<void> {
    return this.#refs.run(async () => {
      await this.session.claimNext();
      await this.board.begin(this.session.session);
    });
  }

  /** Writes one log record and applies it. */
  commit(draft: LogDraft): Promise<void> {
    return this.#refs.run(async () => {
      if (this.#halted !== null) throw new Error(this.#halted);
      const { record, bytes } = await this.session.append(draft);
      this.checkpoint.note(bytes);
      try {
        await this.applier.apply(record);
      } catch (error) {
        if (!(error instanceof Stopped)) this.#halt(error as Error);
        throw error;
      }
    });
  }

  /** The log is ahead of this store and stays so: a further record would be made from a state that the log has left behind. A restart tries again. */
  #halt(error: Error): void {
    this.#halted = `partition ${this.partition}: a log record cannot be applied, nothing is sealed: ${error.message}`;
    this.#options.metrics.damage('hot');
    this.#options.logger.fatal({ err: error, event: 'apply-halted', partition: this.partition }, 'a log record cannot be applied to the hot store: sealing stops for this partition');
    this.board.giveUpAll('sealing has stopped');
  }

  /** Whether seals can be made at all. */
  get sealing(): boolean {
    return this.session.state === 'active' && this.#halted === null;
  }

  /** A sentence for `healthz`, null when all is well. */
  get reason(): string | null {
    return this.session.reason ?? this.#halted;
  }

  planEnd(incarnation: Incarnation): Offset | null {
    return this.board.planEnd(incarnation);
  }

  /** A large snapshot was published. */
  noteSnapshot(): void {
    this.#offloadHint = true;
    this.kick();
  }

  /** Whether a seal is due now. */
  get due(): boolean {
    const { core, partition, sealBytes, sealAgeMs, now } = this.#options;
    if (!this.sealing) return false;
    if (this.#more || core.unsealedBytes(partition) >= sealBytes) return true;
    if (this.#retryMs !== null && now() >= this.#retryMs) return true;
    const since = core.dirtySinceMs(partition);
    return since !== null && now() - Math.max(since, this.#cutMs) >= sealAgeMs;
  }

  /** Starts what is due and not under way. Cheap when nothing is. */
  kick(): void {
    if (this.#options.stop.aborted || !this.sealing) return;
    if (!this.#sealing && this.due) {
      this.#sealing = true;
      this.#background('seal', this.#sealWhileDue(), () => (this.#sealing = false));
    }
    if (!this.#offloading && this.#offloadHint) {
      this.#offloading = true;
      this.#offloadHint = false;
      this.#background('offload', this.#offloadAll(), () => (this.#offloading = false));
    }
  }

  /** Regular work: tries that are due, seals, offloads, evictions, clean-up. */
  tick(): void {
    if (this.#options.stop.aborted) return;
    this.#background('plans', this.board.tick(), () => undefined);
    this.kick();
    if (this.#cleaning) return;
    this.#cleaning = true;
    this.#background('clean-up', this.#cleanUp(), () => (this.#cleaning = false));
  }

  #background(what: string, work: Promise<unknown>, done: () => void): void {
    work
      .catch((error: unknown) => {
        if (!(error instanceof Stopped || isPassing(error))) this.#options.logger.error({ err: error, event: 'cold-work-failed', what, partition: this.partition }, 'background work of the cold tier failed; it will be tried again');
      })
      .finally(done);
  }

  async #sealWhileDue(): Promise<void> {
    while (this.due && !this.#options.stop.aborted) {
      const step = await this.sealOnce('', null);
      if (step.outcome === null || step.outcome.kind === 'given-up') return;
    }
  }

  /** Plans what is dirty under the prefix, from a dirty row on, and waits until the plan is finished. */
  sealOnce(prefix: string, from: Buffer | null): Promise<SealStep> {
    return this.#seals.run(async () => {
      const { core, steps, stop, now } = this.#options;
      if (stop.aborted) throw new Stopped();
      if (!this.sealing) return NOTHING;
      const all = prefix === '' && from === null;
      const cutMs = now();
      if (all) {
        this.#more = false;
        this.#retryMs = null;
      }
      const contents = await this.#collect(prefix, from);
      if (all && contents.next === null) {
        core.noteCut(this.partition, cutMs);
        this.#cutMs = cutMs;
      }
      const { next, skipped } = contents;
      if (skipped > 0) this.#retryMs = now() + PARK_MS;
      if (contents.streams.length + contents.deletes.length + contents.purges.length === 0) return { outcome: null, next, skipped };
      const plan = await this.board.open({ kind: 'seal', contents });
      await steps('plan:written');
      const outcome = await this.#run(plan);
      // What the plan left out, and what it lost on the way, is still dirty.
      if (all && (next !== null || outcome.kind === 'given-up')) this.#more = true;
      if (outcome.kind === 'done' && outcome.dropped > 0) this.#retryMs = now() + PARK_MS;
      return { outcome, next, skipped };
    });
  }

  async #collect(prefix: string, from: Buffer | null): Promise<PlanContents> {
    const { core, logger, metrics } = this.#options;
    const contents = await collectPlan(core, {
      partition: this.partition,
      prefix,
      from,
      isParked: (incarnation) => this.parking.isParked(incarnation),
      onDamage: (key, incarnation, error) => {
        metrics.damage('hot');
        this.parking.park(incarnation, error.message);
        logger.error({ err: error, event: 'damage', tier: 'hot', stream: key }, 'the state of a stream could not be read: it is not sealed');
      },
    });
    return from === null ? { ...contents, purges: await unloggedPurges(core.store, this.partition, PLAN_PURGES_MAX) } : contents;
  }

  async #run(plan: OpenPlan): Promise<PlanOutcome> {
    await this.board.tick();
    return orStopped(plan.settled, this.#options.stop);
  }

  async #offloadAll(): Promise<void> {
    if (!(await this.offloadAll(''))) this.#offloadHint = true;
  }

  /** Moves large snapshots under the prefix to objects of their own, one at a time; false: one of them could not be. */
  offloadAll(prefix: string): Promise<boolean> {
    return this.#offloads.run(async () => {
      let from: Buffer | null = null;
      let all = true;
      while (this.sealing) {
        if (this.#options.stop.aborted) throw new Stopped();
        const found: FoundOffload | null = await findOffload(this.#options.core, this.partition, prefix, from);
        if (found === null) return all;
        from = found.next;
        const plan = await this.board.open({ kind: 'offload', item: found.item });
        const outcome = await this.#run(plan);
        if (outcome.kind === 'given-up' || outcome.dropped > 0) all = false;
        // The state that waited for this snapshot can reach the log now.
        this.#more = true;
      }
      return false;
    });
  }

  /** Evicts what is due now, all of it. */
  evictDue(): Promise<void> {
    return this.#evictions.run(async () => {
      while (!this.#options.stop.aborted && (await this.evictor.step()));
    });
  }

  /** Resolves when what was under way has ended. */
  async idle(): Promise<void> {
    await Promise.all([this.#refs.idle(), this.#seals.idle(), this.#offloads.idle(), this.#evictions.idle()]);
    while (this.#cleaning || this.#sealing || this.#offloading) await new Promise((resolve) => setTimeout(resolve, 1));
  }

  /** Evicts and removes what is due. */
  async #cleanUp(): Promise<void> {
    await this.evictDue();
    for (let n = 0; n < CLEAN_STEPS_MAX && !this.#options.stop.aborted; n++) {
      if (!(await this.#refs.run(() => this.#doomed.step()))) break;
    }
  }

  /** Makes a purge durable here and hands it to the log. */
  async logPurge(bucket: string): Promise<void> {
    await this.#options.core.stageOps([purgeMark(this.partition, bucket)]);
    if (this.sealing) await this.commit({ plan: null, objects: [], deltas: [{ kind: 'purge', bucket }] });
    else this.#more = true;
  }
}
