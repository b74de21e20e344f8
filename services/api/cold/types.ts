/**
 * What the cold tier offers to the log and to the node.
 *
 * Owns: the interface `ColdTier`. Implementations: `tier` over an object store, `none` for `FIRN_COLD=none`.
 */
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import type { SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import type { JobRunner } from '../../../shared/queue/index.js';
import type { CheckpointReport } from '../../worker/node-port.js';
import type { CompactReport } from './compaction/compactor.js';
import type { Collected, Garbage } from './collect/collector.js';
import type { HotOp } from '../hot/store.js';
import type { LocalPort } from './local-port.js';
import type { StreamSlot } from '../log/core.js';
import type { UnloggedSubscriptions } from './unlogged-subscriptions.js';

export type { SubscriptionBatch, UnloggedSubscriptions } from './unlogged-subscriptions.js';

export interface SealReport {
  readonly segments: number;
  readonly bytes: number;
  readonly streams: number;
}

/** What workers elsewhere work for, and through. */
export interface WorkSide {
  readonly storeId: string;
  readonly port: LocalPort;
}

export interface ColdTier {
  /** Bytes [from, to) by published references, checksums proven, contiguous, in pieces of at most 1 MiB. Throws `FirnError` COLD_STORE_FAILED (damage, missing, unreachable); never ends short. */
  read(slot: number, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): AsyncIterable<Buffer>;
  /** Where the entry that holds `at`, which is below the frontier, ends in its block; `whole`: the append ends there. Throws like `read`. */
  entryEnd(slot: number, incarnation: Incarnation, at: Offset): Promise<{ readonly end: Offset; readonly whole: boolean }>;
  /** Bytes of a snapshot's cold copy, checksum proven at the end at the latest (small ones before the first byte). */
  readSnapshot(snapshot: SnapshotRecord, from: number, length: number, signal?: AbortSignal): AsyncIterable<Buffer>;
  /** A token that was never issued before (architecture section 6). */
  nextIncarnation(partition: number): Promise<Incarnation>;
  /** Session that stands in ETags above the logged frontier; null without a log. */
  session(partition: number): number | null;
  /** Why the partition takes no writes (fenced, no session yet on an empty directory), null when it does. */
  refusal(partition: number): Error | null;
  /** A stream became dirty or grew: a hint that a seal may be due. Cheap. */
  noteChange(partition: number): void;
  /** End of the range of this stream that an open seal plan covers, null: none. Asked in the same turn as a fold is staged: no fold crosses it. */
  planEnd(partition: number, incarnation: Incarnation): Offset | null;
  /** Rows that go into the batch which moves a stream's retention boundary to `next.retained`: how space below it is found again without a log. */
  retainOps(slot: StreamSlot, next: StreamRecord): readonly HotOp[];
  /** A large snapshot was published: a hint that an offload is due. */
  noteSnapshot(partition: number): void;
  /** Since when the oldest change is not sealed, whether a plan holds it or not; null: all is sealed, or nothing ever will be. */
  unsealedSinceMs(partition: number): number | null;
  /** Seals what is unsealed at the call under the key prefix, repeating until it is (with hotKeepMs 0 until it is evicted too). */
  sealNow(prefix: string, signal: AbortSignal): Promise<SealReport>;
  /** From here on seals take subscriptions along (nothing without a log). */
  followSubscriptions(subscriptions: UnloggedSubscriptions): void;
  /** Puts the fence of a purged bucket into the log of every partition; resolves when the objects that hold it exist (nothing to do without a log). */
  logPurge(bucket: string): Promise<void>;
  /** Runs a checkpoint of every partition now. */
  checkpointNow(signal: AbortSignal): Promise<readonly CheckpointReport[]>;
  /** Puts what lies in short pieces together and wins back what is garbage, all of it now. */
  compactNow(signal: AbortSignal): Promise<CompactReport>;
  /** Deletes now what nothing needs any more, in every partition, and waits until what could go has gone. */
  collectNow(signal: AbortSignal): Promise<Collected>;
  /** What waits to be collected in a partition, as far as it is known. */
  garbage(partition: number): Garbage;
  /** Queued, running and failed jobs, open plans, streams that cannot be sealed now: for `GET /__firn/jobs`. */
  jobs(): Promise<object>;
  /** Whatever runs jobs; null without a cold tier. */
  readonly runner: JobRunner | null;
  /** null: there is no store to work for, or not yet. */
  readonly work: WorkSide | null;
  /** Logical bytes held hot: unsealed ones, and sealed ones whose copy was not evicted yet. null: not counted without a cold tier. */
  readonly hotBytes: number | null;
  /** Reasons for `healthz` (degraded) such as an unreachable store. */
  reasons(): readonly string[];
  /** Stops taking new work and waits for running steps, at most `graceMs`. */
  stop(graceMs: number): Promise<void>;
}
