/**
 * What every operation of the log needs, and the checks that they share: is the stream there, is it the incarnation that the client means.
 *
 * Owns: expiry on access, the answers 404, 410, 412 and 416 with their headers, renewals of a sliding TTL.
 */
import { FirnError, type ErrorCode } from '../../../shared/protocol/errors.js';
import { bucketOf } from '../../../shared/protocol/ids.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import { ZERO, type Offset } from '../../../shared/protocol/types.js';
import type { Logger } from '../../../shared/observability/logger.js';
import type { Metrics } from '../../../shared/observability/metrics.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import type { ColdTier } from '../cold/types.js';
import type { HotReader } from '../hot/hot-reader.js';
import type { BucketFences } from './bucket-fences.js';
import type { ForkEnds } from './fork-ends.js';
import type { Core } from './log-core.js';
import type { Pressure } from './pressure.js';
import type { Slot } from './slot.js';
import type { SnapshotPins } from './snapshot-pins.js';
import type { StagingFiles } from './staging-files.js';
import type { Precondition } from './types.js';

export interface LogContext {
  readonly core: Core;
  readonly hot: HotReader;
  readonly cold: ColdTier;
  readonly fences: BucketFences;
  readonly pressure: Pressure;
  readonly staging: StagingFiles;
  readonly pins: SnapshotPins;
  readonly forkEnds: ForkEnds;
  readonly snapshotBytesMax: number;
  /** There is a log, so what is published may need to reach it. */
  readonly logged: boolean;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly now: () => number;
}

/** The stream as the next write sees it, null when missing. An expired one is removed in passing (TTL-02). */
export function pendingOf(ctx: LogContext, slot: Slot): StreamRecord | null {
  const record = slot.pending;
  if (record === null || record.softDeleted) return null;
  if (!ctx.core.touch.expired(slot, record)) return record;
  endExpired(ctx, slot, record);
  return null;
}

/** The stream as readers see it, null when missing or expired. */
export function durableOf(ctx: LogContext, slot: Slot): StreamRecord | null {
  const record = slot.durable;
  if (record === null || record.softDeleted) return null;
  if (!ctx.core.touch.expired(slot, record)) return record;
  const { pending } = slot;
  if (pending?.incarnation === record.incarnation && !pending.softDeleted) endExpired(ctx, slot, pending);
  return null;
}

/** Removes it in passing, unless the partition takes no writes any more. */
function endExpired(ctx: LogContext, slot: Slot, record: StreamRecord): void {
  if (ctx.cold.refusal(slot.partition) === null) void ctx.core.stage({ slot, next: endOf(record) }).then(() => ctx.forkEnds.run(), () => undefined);
}

/** What a stream is behind its end: nothing, or what its forks still read (FORK-24). */
export function endOf(record: StreamRecord): StreamRecord | null {
  return record.forks > 0 ? { ...record, softDeleted: true } : null;
}

export function missing(ctx: LogContext, slot: Slot): FirnError {
  // Also while its end waits for the disk: a 404 would tell of what a crash could take back (I2).
  if ((slot.pending?.softDeleted === true || slot.durable?.softDeleted === true) && !isFenced(ctx, slot)) return new FirnError('STREAM_GONE', { detail: 'the stream was deleted and is kept for its forks alone' });
  return new FirnError(isFenced(ctx, slot) ? 'BUCKET_ERASED' : 'STREAM_NOT_FOUND');
}

export function isFenced(ctx: LogContext, slot: Slot): boolean {
  if (ctx.fences.none) return false;
  const bucket = bucketOf(slot.key);
  return bucket !== null && ctx.fences.has(bucket);
}

/** A refusal of a request that reached a stream: carries the stream's token (INC-22). */
export function refusal(record: StreamRecord, code: ErrorCode, headers: Record<string, string> = {}, detail?: string): FirnError {
  return new FirnError(code, { headers: { ...headers, 'Stream-Incarnation': String(record.incarnation) }, ...(detail === undefined ? {} : { detail }) });
}

/** 412 last of all (INC-11). Throws INCARNATION_MISMATCH. */
export function checkIncarnation(record: StreamRecord, precondition: Precondition): void {
  if (precondition !== null && precondition !== record.incarnation) throw refusal(record, 'INCARNATION_MISMATCH');
}

/** Resolves the position of a read. Throws STREAM_GONE below the retained offset, OFFSET_OUT_OF_RANGE beyond the tail (READ-07, READ-19, READ-20). */
export function resolvePosition(record: StreamRecord, from: Offset | 'start' | 'now'): Offset {
  if (from === 'now') return record.tail;
  const at = from === 'start' ? ZERO : from;
  if (at < record.retained) throw refusal(record, 'STREAM_GONE', { 'Stream-Next-Offset': formatOffset(record.retained) });
  if (at > record.tail) throw refusal(record, 'OFFSET_OUT_OF_RANGE', { 'Stream-Next-Offset': formatOffset(record.tail) });
  return at;
}

/** A served use that writes nothing of its own renews a sliding TTL: at once in memory, seldom on disk (TTL-03, TTL-09). */
export function renew(ctx: LogContext, slot: Slot, record: StreamRecord): void {
  if (record.ttl === null || !ctx.core.touch.renew(slot, record)) return;
  const pending = slot.pending;
  // One renewal in flight is enough, and a write in flight renews anyway.
  if (pending === null || pending.incarnation !== record.incarnation || slot.staged > 0) return;
  void ctx.core.stage({ slot, next: { ...pending, touchedAtMs: ctx.now() }, quiet: true }).catch(() => undefined);
}

/**
 * Answers with a refusal, once nothing that it may rest on is pending any more (I2): no client learns of state that a crash could take back.
 * Use: `catch (error) { return refuseSettled(ctx, slot, error); }`.
 */
export async function refuseSettled(ctx: LogContext, slot: Slot, error: unknown): Promise<never> {
  if (slot.staged > 0 && error instanceof FirnError && error.status < 500) await ctx.core.settled(slot);
  throw error;
}

/** Throws the reason why writes are refused right now, if there is one. */
export function checkWritable(ctx: LogContext, partition: number): void {
  const refused = ctx.cold.refusal(partition) ?? ctx.pressure.refusal;
  if (refused !== null) throw refused;
}
