/**
 * The node side of jobs: what handlers in its process use directly, and what the admin listener offers to workers elsewhere.
 *
 * Owns: plans as handlers see them, and the checks of what they bring back (I3, I6).
 */
import { decodeBlockHead } from '../../../shared/storage/block.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { crc32c } from '../../../shared/storage/crc.js';
import { ObjectDamaged, type ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { newestCheckpoint } from '../../../shared/storage/history/checkpoints.js';
import { comparePositions } from '../../../shared/storage/history/log-reader.js';
import type { ObjectId, ObjectInfo, SnapshotObjectRef } from '../../../shared/storage/records/types.js';
import type { Offset } from '../../../shared/protocol/types.js';
import type { Logger } from '../../../shared/observability/logger.js';
import {
  PlanGone, type CheckpointReport, type CollectChoice, type CollectPlans, type CollectReport, type CollectVerdict, type DeliveryOutcome, type DeliverySide, type DeliveryTry, type NodePort, type PlanHead, type PlanItem, type PlanPosition,
  type PlanSource, type SnapshotSource,
} from '../../worker/node-port.js';
import { bodyRow } from '../hot/keys/index.js';
import { HotGap } from '../hot/errors.js';
import type { LogCore } from '../log/core.js';
import type { ColdMetrics } from './cold-metrics.js';
import type { PartitionCollect } from './collect/partition-collect.js';
import { checkSeal, isSameSnapshot } from './commit.js';
import { checkCompaction, type SourceLeftOut } from './compaction/check-compaction.js';
import type { CompactContents } from './compaction/contents.js';
import { isHotDamage, isUnreadable } from './damage.js';
import { rangeBlocks, RangeSum } from './hot-blocks.js';
import { onceShown } from './just-written.js';
import type { OffloadItem } from './offload-plan.js';
import type { PartitionCold } from './partition-cold.js';
import { SessionFenced } from './partition-session.js';
import type { PlanContents, PlannedStream } from './plan.js';
import type { OpenPlan } from './plan-board.js';
import type { Steps } from './steps.js';

export interface LocalPortOptions {
  readonly core: LogCore;
  readonly store: ObjectStore;
  readonly partitions: readonly PartitionCold[];
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
  readonly now: () => number;
  readonly steps: Steps;
  /** The body of a large snapshot in staging. */
  readonly readStaged: (file: string, from: number, bytes: number, signal: AbortSignal) => AsyncIterable<Buffer>;
  /** The node's side of collections, one a partition. */
  readonly collects: readonly PartitionCollect[];
  readonly deliveries: DeliverySide;
  /** A checkpoint run ended. */
  readonly onCheckpoint: (jobId: string, outcome: CheckpointReport | Error) => void;
  /** A run of a collection ended. */
  readonly onCollect: (jobId: string, outcome: CollectReport | Error) => void;
}

export class LocalPort implements NodePort {
  readonly objects: ObjectStore;
  readonly #options: LocalPortOptions;

  constructor(options: LocalPortOptions) {
    this.#options = options;
    this.objects = options.store;
  }

  plan(jobId: string): Promise<PlanHead | null> {
    try {
      const { plan, run } = this.#partition(jobId).board.take(jobId);
      const { partition, session, work } = plan;
      return Promise.resolve({ kind: work.kind, partition, session, plan: plan.plan, attempt: run, streams: work.kind === 'seal' ? work.contents.streams.length : work.kind === 'compact' ? work.contents.sources.length : 1 });
    } catch (error) {
      return error instanceof PlanGone ? Promise.resolve(null) : Promise.reject(error as Error);
    }
  }

  alive(jobId: string): Promise<boolean> {
    return Promise.resolve(this.#options.partitions.some(({ board }) => board.noteAlive(jobId)));
  }

  async *planItems(jobId: string, from: PlanPosition, signal: AbortSignal): AsyncGenerator<PlanItem> {
    const { contents } = this.#seal(jobId);
    for (let n = from.stream; n < contents.streams.length; n++) {
      const { plan } = this.#seal(jobId);
      if (plan.dropped.has(n)) continue;
      const stream = contents.streams[n] as PlannedStream;
      try {
        for await (const item of this.#items(plan, stream, n, n === from.stream ? from.offset : stream.from)) {
          signal.throwIfAborted();
          // Asked again at each piece: a try that was given up ends here, and one under way counts as alive however long its stream is.
          this.#seal(jobId);
          yield item;
        }
      } catch (error) {
        if (!isUnreadable(error)) throw error;
        plan.dropped.add(n);
        if (isHotDamage(error)) this.#options.metrics.damage('hot');
        this.#options.logger.warn({ err: error, event: 'seal-range-dropped', stream: stream.key, from: stream.from, to: stream.to }, 'a range of a plan could not be read and is left out');
      }
    }
  }

  async *#items(plan: OpenPlan, stream: PlannedStream, n: number, after: Offset): AsyncGenerator<PlanItem> {
    const { core } = this.#options;
    const { key, slot, incarnation, to, state } = stream;
    const from = Math.max(stream.from, after) as Offset;
    const sum = new RangeSum(from);
    for await (const block of rangeBlocks(core.store, { slot, incarnation, from, to })) {
      sum.add(decodeBlockHead(block));
      yield { kind: 'block', stream: n, key, incarnation, block };
    }
    // The bytes need not be read again to be compared with what comes back.
    if (from === stream.from && sum.end === to) plan.sums.set(n, sum);
    if (!stream.packSnapshot || state.snapshot === null) return;
    const chunks: Buffer[] = [];
    for await (const page of core.store.scan(bodyRow.range(slot, incarnation, state.snapshot.offset))) for (const { value } of page) chunks.push(bodyRow.decode(value));
    const body = Buffer.concat(chunks);
    if (body.length !== state.snapshot.bytes || crc32c(body) !== state.snapshot.crc) {
      // Superseded meanwhile: its rows go with the next one, and that is no damage.
      const now = await core.using(key, (slot) => slot.durable);
      if (now?.incarnation !== incarnation || !isSameSnapshot(now.snapshot, state.snapshot)) throw new HotGap(incarnation, state.snapshot.offset);
      throw new BadBytes('snapshot body', `of ${key} at ${state.snapshot.offset} is not there as it was published`);
    }
    yield { kind: 'snapshot', stream: n, key, incarnation, record: state.snapshot, body };
  }

  async commitSeal(jobId: string, objects: readonly ObjectInfo[], signal: AbortSignal): Promise<void> {
    const partition = this.#partition(jobId);
    const { plan, contents } = this.#seal(jobId);
    for (const { id } of objects) assertOwn(plan, id, 'segment');
    await this.#committing(partition, plan, async () => {
      const { core, steps, metrics, now } = this.#options;
      await steps('seal:uploaded');
      const checked = await checkSeal(core, this.objects, { contents, dropped: plan.dropped, sums: plan.sums }, objects, signal);
      await steps('seal:checked');
      for (const { stream, as, why } of checked.leftOut) {
        if (as === 'damaged') metrics.damage('hot');
        if (as === 'damaged' || as === 'unreadable') partition.parking.park(stream.incarnation, why);
        this.#options.logger.warn({ event: 'seal-left-out', stream: stream.key, why }, 'a stream was left out of a seal');
      }
      const left = new Set(checked.leftOut.map(({ stream }) => stream.incarnation));
      for (const { incarnation } of contents.streams) if (!left.has(incarnation)) partition.parking.free(incarnation);
      for (const object of checked.objects) metrics.objectWritten('segment', object.bytes);
      if (checked.deltas.length > 0) await partition.commit({ plan: plan.plan, objects: checked.objects, deltas: checked.deltas }, plan);
      metrics.sealed((now() - plan.createdAtMs) / 1_000);
      const streams = contents.streams.length - checked.leftOut.length;
      const dropped = checked.leftOut.filter(({ as }) => as !== 'gone').length;
      const restless = checked.leftOut.filter(({ as }) => as === 'restless').length;
      partition.board.finish(plan, { kind: 'done', segments: checked.objects.length, bytes: checked.bytes, streams, dropped, restless });
    });
  }

  async *planSources(jobId: string, from: number, signal: AbortSignal): AsyncGenerator<PlanSource> {
    const { contents } = this.#compaction(jobId);
    for (const source of contents.sources.slice(from)) {
      signal.throwIfAborted();
      // Asked again each time, as with a seal.
      this.#compaction(jobId);
      yield source;
    }
  }

  async commitCompact(jobId: string, objects: readonly ObjectInfo[], signal: AbortSignal): Promise<void> {
    const partition = this.#partition(jobId);
    const { plan, contents } = this.#compaction(jobId);
    for (const { id } of objects) assertOwn(plan, id, 'merged');
    await this.#committing(partition, plan, async () => {
      const { steps, metrics } = this.#options;
      await steps('compact:uploaded');
      const checked = await checkCompaction(this.objects, contents, objects, signal);
      await steps('compact:checked');
      this.#leftOut(partition, checked.leftOut);
      for (const object of checked.objects) metrics.objectWritten('merged', object.bytes);
      if (checked.deltas.length > 0) await partition.commit({ plan: plan.plan, objects: checked.objects, deltas: checked.deltas }, plan);
      const { bytesRead: read, refsBefore, refsAfter } = checked;
      metrics.compacted({ read, refsBefore, refsAfter });
      const written = checked.objects.reduce((sum, { bytes }) => sum + bytes, 0);
      partition.board.finish(plan, { kind: 'done', segments: checked.objects.length, bytes: contents.rawBytes, streams: checked.deltas.length, dropped: checked.leftOut.length, restless: 0, stored: { read, written } });
    });
  }

  /** Streams whose sources stay as they are wait a while; damage is told (I9). */
  #leftOut(partition: PartitionCold, leftOut: readonly SourceLeftOut[]): void {
    for (const { source, damaged, why } of leftOut) {
      partition.compactParking.park(source.incarnation, why);
      if (damaged) this.#options.metrics.damage('object');
      const told = { event: damaged ? 'damage' : 'compact-left-out', tier: 'cold', stream: source.key, why };
      if (damaged) this.#options.logger.error(told, 'cold bytes are missing or damaged: they are not compacted');
      else this.#options.logger.warn(told, 'a range was left out of a compaction');
    }
  }

  /** `from`: bytes of the body that the caller has already. */
  async snapshot(jobId: string, signal: AbortSignal, from = 0): Promise<SnapshotSource> {
    const partition = this.#partition(jobId);
    const plan = partition.board.of(jobId);
    if (plan.work.kind !== 'offload') throw new Error(`job ${jobId} is no offload`);
    const { item } = plan.work;
    if (!(await this.#isVisible(item))) {
      partition.board.finish(plan, { kind: 'done', segments: 0, bytes: 0, streams: 0, dropped: 0, restless: 0 });
      throw new PlanGone(jobId);
    }
    return { bytes: item.snapshot.bytes, crc: item.snapshot.crc, body: this.#staged(jobId, item, from, signal) };
  }

  /** Each piece says that the try is alive, and ends one that was given up. */
  async *#staged(jobId: string, item: OffloadItem, from: number, signal: AbortSignal): AsyncGenerator<Buffer> {
    if (from >= item.snapshot.bytes) return;
    for await (const piece of this.#options.readStaged(item.file, from, item.snapshot.bytes - from, signal)) {
      this.#partition(jobId).board.of(jobId);
      yield piece;
    }
  }

  /** Whether the snapshot of an offload is still the visible one of its stream: a superseded one loses its staged body. */
  async #isVisible(item: OffloadItem): Promise<boolean> {
    const now = await this.#options.core.using(item.key, (slot) => slot.durable);
    return now?.incarnation === item.incarnation && now.snapshot?.offset === item.snapshot.offset;
  }

  async commitOffload(jobId: string, ref: SnapshotObjectRef, signal: AbortSignal): Promise<void> {
    const partition = this.#partition(jobId);
    const plan = partition.board.of(jobId);
    const { work } = plan;
    if (work.kind !== 'offload') throw new Error(`job ${jobId} is no offload`);
    assertOwn(plan, ref.object, 'snapshot');
    const { item } = work;
    await this.#committing(partition, plan, async () => {
      const { steps, metrics } = this.#options;
      await steps('offload:uploaded');
      await onceShown(() => this.#readBack(ref, item.snapshot, signal), signal);
      await steps('offload:checked');
      const holds = await this.#isVisible(item);
      if (holds) {
        metrics.objectWritten('snapshot', ref.bytes);
        const snapshot = { ...item.snapshot, hot: null, cold: { at: 'object' as const, ref } };
        const object: ObjectInfo = { id: ref.object, bytes: ref.bytes, crc: ref.crc };
        await partition.commit({ plan: plan.plan, objects: [object], deltas: [{ kind: 'offload', key: item.key, incarnation: item.incarnation, snapshot }] }, plan);
      }
      // Superseded or deleted while it was moved: the object is an orphan of a finished plan.
      partition.board.finish(plan, { kind: 'done', segments: holds ? 1 : 0, bytes: holds ? ref.bytes : 0, streams: holds ? 1 : 0, dropped: 0, restless: 0 });
    });
  }

  async #readBack(ref: SnapshotObjectRef, of: { readonly bytes: number; readonly crc: number }, signal: AbortSignal): Promise<void> {
    const key = objectKey(ref.object);
    let crc = 0;
    let bytes = 0;
    for await (const piece of this.objects.stream(key, undefined, signal)) {
      crc = crc32c(piece, crc);
      bytes += piece.length;
    }
    if (bytes !== of.bytes || crc !== of.crc || ref.bytes !== bytes || ref.crc !== crc) throw new ObjectDamaged(key, 'read back other than it was published');
  }

  /** Marks the plan as being committed: no other try can, and it is not taken for lost. */
  async #committing(partition: PartitionCold, plan: OpenPlan, work: () => Promise<void>): Promise<void> {
    plan.committing = true;
    try {
      await work();
    } catch (error) {
      plan.committing = false;
      if (error instanceof SessionFenced) partition.board.finish(plan, { kind: 'given-up', bytes: 0, why: error.message });
      throw error;
    }
  }

  failed(jobId: string, why: string): Promise<void> {
    this.#options.metrics.jobFailed();
    this.#options.onCheckpoint(jobId, new Error(why));
    this.#options.onCollect(jobId, new Error(why));
    const partition = this.#partition(jobId);
    try {
      partition.board.failed(partition.board.of(jobId), why);
    } catch (error) {
      if (!(error instanceof PlanGone)) throw error;
    }
    return Promise.resolve();
  }

  delivery(jobId: string): Promise<DeliveryTry | null> {
    return this.#options.deliveries.delivery(jobId);
  }

  delivered(jobId: string, run: number, outcome: DeliveryOutcome): Promise<void> {
    return this.#options.deliveries.delivered(jobId, run, outcome);
  }

  logPosition(partition: number): Promise<{ readonly session: number; readonly seq: number }> {
    return Promise.resolve(this.#at(partition).applier.position);
  }

  /** A checkpoint counts once its manifest is there: it is what a restore would look for. */
  async checkpointed(jobId: string, report: CheckpointReport): Promise<void> {
    const { checkpoint } = this.#at(report.partition);
    if (report.session > 0) {
      const newest = await newestCheckpoint(this.objects, report.partition);
      if (newest === null || comparePositions(newest, report) < 0) throw new Error(`there is no checkpoint of partition ${report.partition} at ${report.session}/${report.seq}`);
    }
    checkpoint.reset();
    this.#damagedCheckpoints(report);
    if (report.bytes > 0) this.#options.metrics.objectWritten('checkpoint', report.bytes);
    this.#options.onCheckpoint(jobId, report);
  }

  #damagedCheckpoints({ partition, damaged }: { readonly partition: number; readonly damaged: number }): void {
    if (damaged === 0) return;
    this.#options.metrics.damage('object');
    this.#options.logger.error({ event: 'checkpoints-damaged', partition, damaged }, 'checkpoints are not as they were written and were passed over: "firn verify" names them');
  }

  collectPlans(jobId: string): Promise<CollectPlans> {
    return this.#collect(jobId).plans(jobId);
  }

  collect(jobId: string, choice: CollectChoice): Promise<CollectVerdict> {
    return this.#collect(jobId).collect(jobId, choice);
  }

  async collected(jobId: string, report: CollectReport): Promise<void> {
    await this.#collect(jobId).done();
    this.#damagedCheckpoints(report);
    this.#options.metrics.collected(report);
    this.#options.onCollect(jobId, report);
  }

  #collect(jobId: string): PartitionCollect {
    const found = this.#options.collects[this.#partition(jobId).partition];
    if (found === undefined) throw new PlanGone(jobId);
    return found;
  }

  #seal(jobId: string): { readonly plan: OpenPlan; readonly contents: PlanContents } {
    const plan = this.#partition(jobId).board.of(jobId);
    if (plan.work.kind !== 'seal') throw new Error(`job ${jobId} is no seal`);
    return { plan, contents: plan.work.contents };
  }

  #compaction(jobId: string): { readonly plan: OpenPlan; readonly contents: CompactContents } {
    const plan = this.#partition(jobId).board.of(jobId);
    if (plan.work.kind !== 'compact') throw new Error(`job ${jobId} is no compaction`);
    return { plan, contents: plan.work.contents };
  }

  /** The partition stands at the front of a plan's name. */
  #partition(jobId: string): PartitionCold {
    const match = /^(\d{4})-/.exec(jobId);
    const partition = match === null ? undefined : this.#options.partitions[Number(match[1])];
    if (partition === undefined) throw new PlanGone(jobId);
    return partition;
  }

  #at(partition: number): PartitionCold {
    const found = this.#options.partitions[partition];
    if (found === undefined) throw new Error(`no partition ${partition}`);
    return found;
  }
}

/** A run may bring back what it wrote under the names of its own plan and nothing else: what lies under others may be collected. */
function assertOwn(plan: OpenPlan, id: ObjectId, kind: ObjectId['kind']): void {
  const own = id.kind === kind && id.partition === plan.partition && id.session === plan.session && id.plan === plan.plan && id.attempt >= 1 && id.attempt <= plan.runs;
  if (!own) throw new Error(`${objectKey(id)} is no object of plan ${plan.jobId}`);
}
