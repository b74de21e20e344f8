/**
 * The cold tier of a node over an object store: every partition's cold control behind one interface.
 *
 * Owns: the start rules (architecture section 7), timers, and what happens while the store is away. Promises: a directory is served only with the store that it
 * belongs to; a store that is away delays seals and never an answer to a write (known directory), or delays the first write (empty one).
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import { EmbeddedRunner, type JobRunner } from '../../../shared/queue/index.js';
import { STORE_KEY } from '../../../shared/storage/keys.js';
import { StoreUnavailable } from '../../../shared/storage/object-store.js';
import type { SnapshotRecord } from '../../../shared/storage/records/types.js';
import { DeadlinePassed, withSignal } from '../../../shared/time/joined-signal.js';
import { idlePause } from '../../../shared/time/pause.js';
import { checkpointJobId } from '../../worker/handlers/checkpoint.js';
import { collectJobId } from '../../worker/handlers/collect.js';
import type { CheckpointReport, CollectReport, DeliverySide } from '../../worker/node-port.js';
import { jobHandlers } from '../../worker/handlers/index.js';
import { WebhookTargets } from '../../worker/webhooks/targets.js';
import type { HotOp } from '../hot/store.js';
import { isPassing } from './damage.js';
import { addUp, Compactor, type CompactReport } from './compaction/compactor.js';
import { coldMetrics, type ColdMetrics } from './cold-metrics.js';
import { Collector, type Collected, type Garbage } from './collect/collector.js';
import { PartitionCollect } from './collect/partition-collect.js';
import { ReaderPins } from './collect/reader-pins.js';
import { rowsOfCore } from './core-rows.js';
import { readIdentity, type Identity } from './directory.js';
import { FrameCache } from './frame-cache.js';
import { COLLECT_GRACE_MS, DISK_FREE_FACTOR, DUE_SCAN_MS, SESSION_CHECK_MS, START_WAIT_MS, STORE_RETRY_MAX_MS, STORE_RETRY_MS } from './limits.js';
import { LocalPort } from './local-port.js';
import { PartitionCold } from './partition-cold.js';
import { PartitionRuns } from './partition-runs.js';
import { SessionFenced } from './partition-session.js';
import { ColdReader } from './reader.js';
import { sealNow } from './seal-now.js';
import { noSteps } from './steps.js';
import { agree, checkDirectory } from './store-identity.js';
import { checkpointOf } from './checkpoint-now.js';
import type { ColdTierOptions } from './tier-options.js';
import { Backoff, orStopped, Stopped } from './timing.js';
import type { ColdTier, SealReport, WorkSide } from './types.js';
import type { UnloggedSubscriptions } from './unlogged-subscriptions.js';

/** Partitions claimed at a time. */
const CLAIM_TOGETHER = 16;
/** Streams that cannot be sealed now, as listed for one partition. */
const PARKED_LISTED_MAX = 100;

const NO_DELIVERIES: DeliverySide = { delivery: () => Promise.resolve(null), delivered: () => Promise.resolve() };

/** Opens the cold tier. Throws `StartRefused`, and what damage there is in the log that has to be replayed. */
export async function openColdTier(options: ColdTierOptions): Promise<ObjectColdTier> {
  const { config, core } = options;
  if (config.cold === 'none') throw new Error('no cold tier to open');
  const identity = await readIdentity(core.store);
  checkDirectory(identity, config.cold, config.dataDir);
  const tier = new ObjectColdTier(options, identity?.partitions ?? config.partitions);
  await tier.start(identity);
  return tier;
}

export class ObjectColdTier implements ColdTier {
  readonly partitions: readonly PartitionCold[];
  readonly port: LocalPort;
  readonly runner: JobRunner;
  readonly #compactors: readonly Compactor[];
  readonly #options: ColdTierOptions;
  readonly #metrics: ColdMetrics;
  readonly #stop = new AbortController();
  readonly #frames: FrameCache;
  readonly #reader: ColdReader;
  readonly #checkpoints: PartitionRuns<CheckpointReport>;
  readonly #collects: PartitionRuns<CollectReport>;
  readonly #collector: Collector;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #ageTimers: (NodeJS.Timeout | null)[];
  #subscriptions: UnloggedSubscriptions | null = null;
  #identity: Identity | null = null;
  #named: (storeId: string) => void = () => undefined;
  #away: string | null = null;
  #refused: string | null = null;

  constructor(options: ColdTierOptions, partitions: number) {
    this.#options = options;
    const { core, objects: store, logger, now, config, nonce } = options;
    const steps = options.steps ?? noSteps;
    this.#metrics = coldMetrics(options.metrics);
    this.#frames = new FrameCache({ store, metrics: this.#metrics, disk: options.frameDisk, bytesMax: options.frameCacheBytes });
    const pins = new ReaderPins(now);
    this.#reader = new ColdReader({ hot: core.store, store, frames: this.#frames, pins, logger, metrics: this.#metrics });
    this.partitions = Array.from({ length: partitions }, (_, partition) => new PartitionCold({
      core, store, partition, partitions, logger, now, steps,
      metrics: this.#metrics,
      runner: () => this.runner,
      sealBytes: config.sealBytes,
      sealAgeMs: config.sealAgeMs,
      hotKeepMs: config.hotKeepMs,
      nonce,
      stop: this.#stop.signal,
      pressed: () => this.#pressed(),
      subscriptions: () => this.#subscriptions,
      removeStaged: (file) => options.staging.remove(file),
    }));
    this.#compactors = this.partitions.map((partition) => new Compactor({ core, partition, partitions, now, logger, metrics: this.#metrics, steps, stop: this.#stop.signal }));
    this.#ageTimers = this.partitions.map(() => null);
    this.port = new LocalPort({
      core, store, logger, now, steps,
      partitions: this.partitions,
      metrics: this.#metrics,
      readStaged: (file, from, bytes, signal) => options.staging.read(file, from, bytes, signal),
      collects: this.partitions.map((partition) => new PartitionCollect({ partition, hot: core.store, pins, now, steps, graceMs: options.collectGraceMs ?? COLLECT_GRACE_MS })),
      deliveries: options.deliveries?.side ?? NO_DELIVERIES,
      onCheckpoint: (jobId, outcome) => this.#checkpoints.settle(jobId, outcome),
      onCollect: (jobId, outcome) => this.#collects.settle(jobId, outcome),
    });
    const handlers = jobHandlers(this.port, now, options.deliveries?.targets ?? new WebhookTargets({ allow: [] }));
    this.runner = options.runner?.(handlers, new Promise((resolve) => (this.#named = resolve))) ?? new EmbeddedRunner({ handlers, logger, now });
    const runs = { runner: () => this.runner, partitions: this.partitions, now };
    this.#checkpoints = new PartitionRuns({ ...runs, kind: 'checkpoint', jobId: checkpointJobId, due: ({ checkpoint }) => checkpoint.due });
    this.#collects = new PartitionRuns({ ...runs, kind: 'collect', jobId: collectJobId, due: () => false });
    this.#collector = new Collector({ partitions: this.partitions, hot: core.store, checkpoints: this.#checkpoints, runs: this.#collects, now, metrics: this.#metrics, logger, stop: this.#stop.signal });
  }

  async start(identity: Identity | null): Promise<void> {
    if (identity !== null) await this.#load(identity);
    try {
      await this.#answers();
      await this.#join(identity);
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      this.#isAway(error);
      void this.#joinLater(identity);
    }
    this.#every(DUE_SCAN_MS, () => this.#tick());
    this.#every(SESSION_CHECK_MS, () => this.#checkSessions());
  }

  /** Throws `StoreUnavailable` sooner than the store itself would: a start is not to wait for a store that is away. */
  async #answers(): Promise<void> {
    const { objects } = this.#options;
    try {
      await withSignal([], START_WAIT_MS, (until) => objects.size(STORE_KEY, until));
    } catch (error) {
      throw error instanceof DeadlinePassed ? new StoreUnavailable(`${objects.describe} did not answer within ${START_WAIT_MS} ms`) : error;
    }
  }

  async #load(identity: Identity): Promise<void> {
    if (this.#identity !== null) return;
    for (const partition of this.partitions) await partition.load(identity.tokenKey);
    this.#identity = identity;
    if (identity.storeId !== null) this.#named(identity.storeId);
  }

  /** Makes sure that store and directory belong together, claims every partition and applies what the log is ahead. */
  async #join(before: Identity | null): Promise<void> {
    const { config, core, objects: store } = this.#options;
    if (config.cold === 'none') throw new Error('no cold tier to join');
    const rows = rowsOfCore(core);
    const identity = await agree(rows, before === null ? await readIdentity(rows) : before, store, { cold: config.cold, partitions: config.partitions, dir: config.dataDir });
    await this.#load(identity);
    // A session that was claimed while the log behind it could not be read to its end is not joined yet.
    const waiting = this.partitions.filter(({ joined, session }) => !joined && (session.state === 'unclaimed' || session.state === 'active'));
    for (let at = 0; at < waiting.length; at += CLAIM_TOGETHER) await Promise.all(waiting.slice(at, at + CLAIM_TOGETHER).map((partition) => partition.claim()));
    this.#away = null;
  }

  /** The store was away at the start: tries until it is there. What a start would refuse stops the writes then. */
  async #joinLater(before: Identity | null): Promise<void> {
    const backoff = new Backoff(STORE_RETRY_MS, STORE_RETRY_MAX_MS);
    for (;;) {
      try {
        await idlePause(backoff.next(), this.#stop.signal);
        await this.#join(before);
        this.#options.logger.info({ event: 'store-joined' }, 'the object store is there: sealing begins');
        return;
      } catch (error) {
        if (error instanceof Stopped || this.#stop.signal.aborted) return;
        if (error instanceof StoreUnavailable || isPassing(error)) {
          this.#isAway(error as Error);
          continue;
        }
        this.#refused = (error as Error).message;
        this.#options.logger.fatal({ err: error, event: 'store-refused' }, 'directory and object store do not belong together, or the log is damaged: writes are refused');
        return;
      }
    }
  }

  #isAway(error: Error): void {
    this.#metrics.storeError();
    if (this.#away === null) this.#options.logger.warn({ err: error, event: 'store-away' }, 'the object store does not answer');
    this.#away = error.message;
  }

  /** A run that takes longer than `ms` is not overtaken: the next one waits for a later turn. */
  #every(ms: number, work: () => Promise<void>): void {
    let running = false;
    const timer = setInterval(() => {
      if (running || this.#stop.signal.aborted) return;
      running = true;
      work()
        .catch((error: unknown) => this.#options.logger.error({ err: error, event: 'cold-timer-failed' }, 'regular work of the cold tier failed'))
        .finally(() => (running = false));
    }, ms);
    timer.unref();
    this.#timers.push(timer);
  }

  async #tick(): Promise<void> {
    for (const partition of this.partitions) partition.tick();
    for (const compactor of this.#compactors) compactor.tick();
    this.#collector.tick();
    await Promise.all([this.#checkpoints.tick(), this.#collects.tick()]);
  }

  async #checkSessions(): Promise<void> {
    for (const partition of this.partitions) await partition.session.check();
  }

  /** Room is short: sealed copies go before their time (architecture section 3). */
  #pressed(): boolean {
    const { hotBytesMax, diskFreeMin } = this.#options.config;
    return this.hotBytes > hotBytesMax || this.#options.freeBytes() < diskFreeMin * DISK_FREE_FACTOR;
  }

  /** Logical bytes in the hot tier. */
  get hotBytes(): number {
    const { core } = this.#options;
    return this.partitions.reduce((sum, { partition }) => sum + core.sealedHotBytes(partition) + core.unsealedBytes(partition), 0);
  }

  read(slot: number, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): AsyncIterable<Buffer> {
    return this.#reader.read(slot, incarnation, from, to, signal);
  }

  entryEnd(slot: number, incarnation: Incarnation, at: Offset): Promise<{ readonly end: Offset; readonly whole: boolean }> {
    return this.#reader.entryEnd(slot, incarnation, at);
  }

  readSnapshot(snapshot: SnapshotRecord, from: number, length: number, signal?: AbortSignal): AsyncIterable<Buffer> {
    return this.#reader.snapshot(snapshot, from, length, signal);
  }

  get work(): WorkSide | null {
    const storeId = this.#identity?.storeId ?? null;
    return storeId === null ? null : { storeId, port: this.port };
  }

  async nextIncarnation(partition: number): Promise<Incarnation> {
    const { tokens, session } = this.#at(partition);
    if (tokens === null || session.refusal !== null) throw this.refusal(partition) ?? new FirnError('NO_LEADER');
    try {
      return await tokens.issue();
    } catch (error) {
      // Only a further session could give tokens, and it cannot be claimed now, or is another node's.
      if (error instanceof StoreUnavailable || error instanceof SessionFenced) throw this.refusal(partition) ?? new FirnError('NO_LEADER', { cause: error });
      throw error;
    }
  }

  session(partition: number): number | null {
    const { session } = this.#at(partition).session;
    return session === 0 ? null : session;
  }

  refusal(partition: number): Error | null {
    if (this.#refused !== null) return new FirnError('APPLY_STOPPED', { detail: this.#refused });
    return this.#at(partition).session.refusal;
  }

  planEnd(partition: number, incarnation: Incarnation): Offset | null {
    return this.#at(partition).planEnd(incarnation);
  }

  noteChange(partition: number): void {
    const { sealBytes, sealAgeMs } = this.#options.config;
    if (this.#options.core.unsealedBytes(partition) >= sealBytes) this.#at(partition).kick();
    // The regular scan is often enough for longer ages.
    if (sealAgeMs >= 2 * DUE_SCAN_MS || this.#ageTimers[partition] !== null) return;
    const timer = setTimeout(() => {
      this.#ageTimers[partition] = null;
      const due = this.#at(partition);
      due.kick();
      if (!due.due && this.#options.core.dirtySinceMs(partition) !== null) this.noteChange(partition);
    }, sealAgeMs);
    timer.unref();
    this.#ageTimers[partition] = timer;
  }

  unsealedSinceMs(partition: number): number | null {
    return this.#at(partition).seals.sinceMs;
  }

  noteSnapshot(partition: number): void {
    this.#at(partition).noteSnapshot();
  }

  sealNow(prefix: string, signal: AbortSignal): Promise<SealReport> {
    return withSignal([signal, this.#stop.signal], null, (until) => sealNow(this.partitions, prefix, this.#options.config.hotKeepMs === 0, until));
  }

  followSubscriptions(subscriptions: UnloggedSubscriptions): void {
    this.#subscriptions = subscriptions;
  }

  async logPurge(bucket: string): Promise<void> {
    await Promise.all(this.partitions.map((partition) => partition.logPurge(bucket)));
  }

  checkpointNow(signal: AbortSignal): Promise<readonly CheckpointReport[]> {
    return withSignal([signal, this.#stop.signal], null, async (until) => {
      const reports: CheckpointReport[] = [];
      for (const partition of this.partitions) reports.push(await checkpointOf(partition, this.#checkpoints, until));
      return reports;
    });
  }

  compactNow(signal: AbortSignal): Promise<CompactReport> {
    return withSignal([signal, this.#stop.signal], null, async (until) => {
      const sum = { plans: 0, objects: 0, bytesRead: 0, bytesWritten: 0, streams: 0, leftOut: 0 };
      for (const done of await Promise.all(this.#compactors.map((compactor) => orStopped(compactor.runNow(until), until)))) addUp(sum, done);
      return sum;
    });
  }

  collectNow(signal: AbortSignal): Promise<Collected> {
    return withSignal([signal, this.#stop.signal], null, (until) => this.#collector.runAll(until));
  }

  garbage(partition: number): Garbage {
    return this.#collector.garbage(partition);
  }

  retainOps(): readonly HotOp[] {
    return [];
  }

  async jobs(): Promise<object> {
    const plans = this.partitions.flatMap(({ board }) => board.list()).map((plan) => ({
      kind: plan.work.kind,
      job: plan.jobId,
      attempt: plan.attempt,
      createdAt: new Date(plan.createdAtMs).toISOString(),
      bytes: plan.work.kind === 'offload' ? plan.work.item.snapshot.bytes : plan.work.contents.rawBytes,
      lastError: plan.lastError,
    }));
    const parked = this.partitions.flatMap(({ partition, parking }) => parking.list().slice(0, PARKED_LISTED_MAX).map(({ incarnation, why }) => ({ partition, incarnation: String(incarnation), why })));
    return { jobs: await this.runner.stats(), plans, parked };
  }

  reasons(): readonly string[] {
    const reasons: string[] = [...this.runner.reasons()];
    if (this.#refused !== null) reasons.push(this.#refused);
    if (this.#away !== null) reasons.push(`object store: ${this.#away}`);
    for (const { reason, board, parking, partition } of this.partitions) {
      if (reason !== null) reasons.push(reason);
      if (board.trouble !== null) reasons.push(board.trouble);
      const parked = parking.list();
      if (parked.length > 0) reasons.push(`partition ${partition}: ${parked.length} streams cannot be sealed now, the first because ${parked[0]?.why}`);
    }
    return reasons;
  }

  async stop(graceMs: number): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    for (const timer of this.#ageTimers) if (timer !== null) clearTimeout(timer);
    await this.runner.stop(graceMs);
    this.#stop.abort(new Stopped());
    await Promise.all([...this.partitions, ...this.#compactors].map((part) => part.idle()));
  }

  #at(partition: number): PartitionCold {
    const found = this.partitions[partition];
    if (found === undefined) throw new Error(`no partition ${partition}`);
    return found;
  }
}
