/**
 * Cold control of one partition on the node that owns it: claim, replay, seal, offload, eviction (architecture sections 6 and 7).
 *
 * Owns: the order of everything that touches the partition's log and references. Promises: log records are applied in the order in which they were
 * written, before the node serves what a restart left unapplied; one seal plan at a time, and after a crash at any step the next start goes
 * on from what is durable (I5, I6).
 */
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { JobRunner } from '../../../shared/queue/index.js';
import { slotRangeOf } from '../../../shared/storage/slots.js';
import { StoreUnavailable, type ObjectStore } from '../../../shared/storage/object-store.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { HotStoreError } from '../hot/errors.js';
import type { LogCore } from '../log/core.js';
import { Applier } from './apply.js';
import { Background } from './background.js';
import { CheckpointDue } from './checkpoint-due.js';
import type { ColdMetrics } from './cold-metrics.js';
import { rowsOfCore } from './core-rows.js';
import { isHotDamage } from './damage.js';
import { damageTold } from './damage-told.js';
import { purgeMark, unloggedPurges } from './directory.js';
import { DoomedSweeper } from './doomed.js';
import { Evictor } from './evict.js';
import { CLEAN_STEPS_MAX, PARK_MAX_MS, PLAN_PURGES_MAX, PLAN_RETRY_MS, STORE_RETRY_MS } from './limits.js';
import { readLog } from '../../../shared/storage/history/log-reader.js';
import { PlanGone } from '../../worker/node-port.js';
import { whatStillHolds } from './last-look.js';
import { findOffload, type FoundOffload } from './offload-plan.js';
import { Parking } from './parking.js';
import { PartitionSession, type LogDraft } from './partition-session.js';
import { PlanBoard, type OpenPlan, type PlanOutcome } from './plan-board.js';
import { collectPlan, isEmptyPlan, withOthers, type PlanContents } from './plan.js';
import { refuseCollected } from './collect/old-directory.js';
import { SealDue } from './seal-due.js';
import { NO_KEYS, NOTHING_SEALED, type SealStep } from './seal-step.js';
import type { Steps } from './steps.js';
import { Backoff, Lane, orStopped, Stopped } from './timing.js';
import { TokenIssuer } from './tokens.js';
import type { UnloggedSubscriptions } from './unlogged-subscriptions.js';

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
  readonly subscriptions: () => UnloggedSubscriptions | null;
  readonly removeStaged: (file: string) => Promise<void>;
}

export class PartitionCold {
  readonly partition: number;
  readonly session: PartitionSession;
  readonly applier: Applier;
  readonly evictor: Evictor;
  readonly board: PlanBoard;
  readonly parking: Parking;
  readonly compactParking: Parking;
  readonly checkpoint: CheckpointDue;
  readonly seals: SealDue;
  tokens: TokenIssuer | null = null;
  readonly #options: PartitionColdOptions;
  readonly #doomed: DoomedSweeper;
  /** Log records and everything else that moves references or their counts. */
  readonly #refs = new Lane();
  readonly #sealLane = new Lane();
  readonly #offloads = new Lane();
  readonly #background: Background;
  #offloadHint = true;
  #offloadFromMs = 0;
  #joined = false;
  /** The first claim is the tier's to make; what is lost later is claimed again here. */
  #hasJoined = false;
  #halted: string | null = null;
  readonly #claimBackoff = new Backoff(STORE_RETRY_MS, PARK_MAX_MS);
  #claimFromMs = 0;

  constructor(options: PartitionColdOptions) {
    const { core, store, partition, partitions, logger, metrics, now, steps, stop, hotKeepMs, sealBytes, sealAgeMs } = options;
    this.#options = options;
    this.partition = partition;
    this.session = new PartitionSession({ partition, store, rows: rowsOfCore(core), logger, metrics, now, nonce: options.nonce, steps, stop });
    this.evictor = new Evictor({ core, partition, now, metrics, steps, stop, pressed: options.pressed, removeStaged: options.removeStaged });
    const told = damageTold(partition, logger, metrics);
    this.applier = new Applier({ core, partition, now, hotKeepMs, steps, stop, told });
    this.board = new PlanBoard({ partition, runner: options.runner, now, logger, metrics });
    this.parking = new Parking(now);
    this.compactParking = new Parking(now);
    this.checkpoint = new CheckpointDue();
    this.#background = new Background(partition, logger);
    this.seals = new SealDue({ core, partition, sealBytes, sealAgeMs, now, alsoSinceMs: () => options.subscriptions()?.sinceMs(partition) ?? null });
    this.#doomed = new DoomedSweeper({ core, partition, slots: slotRangeOf(partition, partitions), counts: this.applier.counts, removeStaged: options.removeStaged, damaged: told.doomed });
  }

  /** Reads what the directory knows. Nothing of the object store is asked. */
  async load(tokenKey: Buffer): Promise<void> {
    await this.session.load();
    await this.applier.load();
    if (this.applier.behind.count > 0) this.#options.logger.error({ event: 'streams-behind', partition: this.partition, streams: this.applier.behind.count }, 'streams could not be read when the log was applied: they are not sealed');
    this.tokens = new TokenIssuer(this.partition, tokenKey, rowsOfCore(this.#options.core), { session: () => this.session.session, next: () => this.#nextSession() });
  }

  /**
   * Claims a session and applies what the log holds beyond this store: only then does sealing begin, for a plan made earlier would rest on a state that the
   * log has left behind. May be called until it succeeds, and again after a halt. Throws `StoreUnavailable`, `StartRefused`; damage as what it is.
   */
  claim(): Promise<void> {
    return this.#refs.run(async () => {
      if (this.joined && this.#halted === null) return;
      if (this.session.state === 'unclaimed') {
        this.#joined = false;
        await refuseCollected(this.#options.store, this.partition, this.applier.position);
        await this.session.claim();
      }
      try {
        await this.#replay();
        this.#halted = null;
      } catch (error) {
        // Hot copies of what was not applied are still there, so everything can be served; only sealing cannot go on.
        if (!(isHotDamage(error) || error instanceof HotStoreError)) throw error;
        this.#halt(error);
      }
      this.board.begin(this.session.session);
      await this.checkpoint.load(this.#options.store, this.partition);
      if ((await unloggedPurges(this.#options.core.store, this.partition, 1)).length > 0) this.seals.again();
      this.#joined = true;
      this.#hasJoined = true;
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
      this.board.begin(this.session.session);
    });
  }

  /** Claims anew, or applies again what could not be applied: both may succeed later, and both are safe to repeat. */
  async #recover(): Promise<void> {
    this.#claimFromMs = this.#options.now() + this.#claimBackoff.next();
    await this.claim();
    if (this.#halted !== null) return;
    this.#claimBackoff.reset();
    this.#options.logger.info({ event: 'partition-recovered', partition: this.partition, session: this.session.session }, 'sealing goes on for this partition');
    this.kick();
  }

  get #needsClaim(): boolean {
    const { state } = this.session;
    return this.#hasJoined && (!this.joined || this.#halted !== null) && (state === 'unclaimed' || state === 'active');
  }

  /** Writes one log record and applies it. A plan that was given up meanwhile throws `PlanGone`; what does not hold any more is left out (I6). */
  commit(draft: LogDraft, plan: OpenPlan | null): Promise<void> {
    return this.onLane(() => {
      if (plan !== null && !this.board.isOpen(plan)) throw new PlanGone(plan.jobId);
      return this.write(draft);
    });
  }

  /** Work between two log records, with the log joined and all of it applied. */
  onLane<T>(work: () => Promise<T>): Promise<T> {
    return this.#refs.run(async () => {
      if (this.#halted !== null) throw new Error(this.#halted);
      if (!this.joined) throw new StoreUnavailable(`partition ${this.partition} has not joined its log yet`);
      return work();
    });
  }

  /** The record itself, for who is on the lane. */
  async write(draft: LogDraft): Promise<void> {
    const deltas = await whatStillHolds(this.#options.core, this.applier.behind, draft.deltas);
    const { record, bytes } = await this.session.append({ ...draft, deltas });
    this.checkpoint.note(bytes, deltas.length);
    try {
      await this.applier.apply(record);
    } catch (error) {
      if (!(error instanceof Stopped)) this.#halt(error as Error);
      throw error;
    }
    // Where nothing is kept, what the record sealed does not wait for the regular tick.
    if (this.#options.hotKeepMs === 0) this.#background.start('eviction', () => this.evictor.due());
  }

  /** The log is ahead of this store: a further record would be made from a state that the log has left behind. Applying is tried again from time to time. */
  #halt(error: Error): void {
    const first = this.#halted === null;
    this.#halted = `partition ${this.partition}: a log record cannot be applied, nothing is sealed: ${error.message}`;
    if (!first) return;
    const passing = error instanceof HotStoreError && !isHotDamage(error);
    if (!passing) this.#options.metrics.damage('hot');
    this.#options.logger.fatal({ err: error, event: 'apply-halted', partition: this.partition }, 'a log record cannot be applied to the hot store: sealing stops for this partition');
    this.board.giveUpAll('sealing has stopped');
  }

  /** A session was claimed and the log was read up to its end. */
  get joined(): boolean {
    return this.#joined && this.session.state !== 'unclaimed';
  }

  /** Why a log record cannot be applied, null when all are. */
  get halted(): string | null {
    return this.#halted;
  }

  /** Whether seals can be made at all. */
  get sealing(): boolean {
    return this.#joined && this.session.state === 'active' && this.#halted === null;
  }

  /** A sentence for `healthz`, null when all is well. */
  get reason(): string | null {
    if (this.session.reason !== null) return this.session.reason;
    return this.#joined ? this.#halted : `partition ${this.partition}: its log was not read to the end yet, nothing is sealed`;
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
    return this.sealing && this.seals.now;
  }

  /** Starts what is due and not under way. Cheap when nothing is. */
  kick(): void {
    if (this.#options.stop.aborted || !this.sealing) return;
    if (this.due) this.#background.start('seal', () => this.#sealWhileDue());
    if (this.#offloadHint && this.#options.now() >= this.#offloadFromMs) this.#background.start('offload', () => this.#offloadHinted());
  }

  /** Regular work: tries that are due, seals, offloads, evictions, clean-up. */
  tick(): void {
    if (this.#options.stop.aborted) return;
    if (this.#needsClaim && this.#options.now() >= this.#claimFromMs) this.#background.start('recovery', () => this.#recover());
    this.#background.start('plans', () => this.board.tick());
    this.kick();
    this.#background.start('eviction', () => this.evictor.due());
    this.#background.start('clean-up', () => this.cleanUp());
  }

  async #sealWhileDue(): Promise<void> {
    while (this.due && !this.#options.stop.aborted) {
      const { outcome } = await this.sealOnce('', null, NO_KEYS, true);
      if ((outcome === null && !this.seals.isPartial) || outcome?.kind === 'given-up') return;
    }
  }

  /** Plans what is dirty under the prefix, and of `also`, from a dirty row on, and waits until the plan is finished. */
  sealOnce(prefix: string, from: Buffer | null, also: ReadonlySet<StreamKey> = NO_KEYS, oldestFirst = false): Promise<SealStep> {
    return this.#sealLane.run(async () => {
      if (this.#options.stop.aborted) throw new Stopped();
      if (!this.sealing) return NOTHING_SEALED;
      // Only a pass from the first dirty row on says anything about what is due.
      if (prefix !== '' || from !== null) return this.#sealPart(prefix, from, also, null);
      const upToMs = this.seals.begin(oldestFirst);
      try {
        const step = await this.#sealPart(prefix, from, also, upToMs);
        const { outcome, next, retryMs } = step;
        if (outcome?.kind === 'given-up') this.seals.failed();
        else this.seals.end({ whole: next === null, sealedBytes: outcome?.bytes ?? 0, retryMs });
        return step;
      } catch (error) {
        this.seals.failed();
        throw error;
      }
    });
  }

  async #sealPart(prefix: string, from: Buffer | null, also: ReadonlySet<StreamKey>, upToMs: number | null): Promise<SealStep> {
    const contents = await this.#collect(prefix, from, also, upToMs);
    const { next, skipped, restless, awaited, subscriptions } = contents;
    if (isEmptyPlan(contents)) return { outcome: null, next, skipped, awaited, retryMs: this.parking.retryMs(skipped, restless) };
    const plan = this.board.open({ kind: 'seal', contents });
    await this.#options.steps('plan:opened');
    const outcome = await this.#run(plan);
    subscriptions?.settle(outcome.kind === 'done');
    const { dropped, restless: moved } = outcome.kind === 'done' ? outcome : { dropped: 0, restless: 0 };
    return { outcome, next, skipped, awaited, retryMs: this.parking.retryMs(skipped + dropped, restless + moved) };
  }

  async #collect(prefix: string, from: Buffer | null, also: ReadonlySet<StreamKey>, upToMs: number | null): Promise<PlanContents> {
    const { core, logger, metrics } = this.#options;
    const contents = await collectPlan(core, {
      partition: this.partition,
      prefix,
      also,
      from,
      upToMs,
      isParked: (incarnation) => this.parking.isParked(incarnation) || this.#isBehind(incarnation),
      onDamage: (key, incarnation, error) => {
        metrics.damage('hot');
        this.parking.park(incarnation, error.message);
        logger.error({ err: error, event: 'damage', tier: 'hot', stream: key }, 'the state of a stream could not be read: it is not sealed');
      },
    });
    return from !== null ? contents : withOthers(contents, await unloggedPurges(core.store, this.partition, PLAN_PURGES_MAX), prefix === '' ? ((await this.#options.subscriptions()?.take(this.partition)) ?? null) : null);
  }

  /** Parked anew each time it is met: nothing more of it reaches the log from here. */
  #isBehind(incarnation: Incarnation): boolean {
    if (!this.applier.behind.has(incarnation)) return false;
    this.parking.park(incarnation, 'the log is ahead of it');
    return true;
  }

  async #run(plan: OpenPlan): Promise<PlanOutcome> {
    await this.board.tick();
    return orStopped(plan.settled, this.#options.stop);
  }

  /** The hint stays until everything that it may have meant was moved. */
  async #offloadHinted(): Promise<void> {
    this.#offloadHint = false;
    let all = false;
    try {
      all = await this.offloadAll('');
    } finally {
      if (!all) {
        this.#offloadHint = true;
        this.#offloadFromMs = this.#options.now() + PLAN_RETRY_MS;
      }
    }
  }

  /** Moves large snapshots under the prefix to objects of their own, one at a time; false: one of them could not be. */
  offloadAll(prefix: string): Promise<boolean> {
    return this.#offloads.run(async () => {
      let from: Buffer | null = null;
      let all = true;
      while (this.sealing) {
        if (this.#options.stop.aborted) throw new Stopped();
        const found: FoundOffload = await findOffload(this.#options.core, this.partition, this.applier.behind, prefix, from);
        if (found.unreadable > 0) all = false;
        if (found.item === null) return all;
        from = found.next;
        const plan = this.board.open({ kind: 'offload', item: found.item });
        const outcome = await this.#run(plan);
        if (outcome.kind === 'given-up' || outcome.dropped > 0) all = false;
        // The state that waited for this snapshot can reach the log now.
        this.seals.again();
      }
      return false;
    });
  }

  /** Resolves when what was under way has ended. */
  async idle(): Promise<void> {
    await Promise.all([this.#refs.idle(), this.#sealLane.idle(), this.#offloads.idle(), this.evictor.idle()]);
    await this.#background.idle();
  }

  /** Removes what deleted lives left, between the log records: behind one that cannot be written this waits, and evictions go on. True: there may be more. */
  async cleanUp(): Promise<boolean> {
    for (let n = 0; n < CLEAN_STEPS_MAX; n++) {
      if (this.#options.stop.aborted || !(await this.#refs.run(() => this.#doomed.step()))) return false;
    }
    return true;
  }

  /** Makes a purge durable here and hands it to the log. */
  async logPurge(bucket: string): Promise<void> {
    await this.#options.core.stageOps([purgeMark(this.partition, bucket)]);
    if (!this.sealing) return this.seals.again();
    try {
      await this.commit({ plan: null, objects: [], deltas: [{ kind: 'purge', bucket }] }, null);
    } catch (error) {
      this.seals.again();
      throw error;
    }
  }
}
