/**
 * Publishing snapshots (requirements section 18). A body is never in memory beyond SNAPSHOT_INLINE_MAX: larger ones go to a staging file
 * and are visible once file and record are durable.
 */
import { isJson } from '../../../shared/protocol/content-type.js';
import { SnapshotDigest } from '../../../shared/protocol/digest.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import type { Offset } from '../../../shared/protocol/types.js';
import { crc32c } from '../../../shared/storage/crc.js';
import type { SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { BODY_CHUNK_MAX } from '../hot/keys/body.js';
import { bodyRow, snapshotRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { checkIncarnation, checkWritable, missing, pendingOf, refusal, refuseSettled, renew, type LogContext } from './context.js';
import { SNAPSHOT_INLINE_MAX, SNAPSHOTS_REMEMBERED } from './limits.js';
import { checkBoundary } from './retention.js';
import type { Slot } from './slot.js';
import type { StagingFile } from './staging-files.js';
import type { PublishOutcome, PublishRequest } from './types.js';

/** Where a snapshot is to be published. */
type Target = Pick<PublishRequest, 'offset' | 'precondition'>;
/** ... and what. */
type Publication = Omit<PublishRequest, 'declaredBytes'>;

interface Judged {
  readonly record: StreamRecord;
  /** The answer, when there is nothing left to publish. */
  readonly done: PublishOutcome | null;
}

/** A body that was received: in memory or in a file. */
interface Received {
  readonly bytes: number;
  readonly crc: number;
  readonly digest: string;
  readonly inline: Buffer | null;
  readonly file: StagingFile | null;
  /** A change that names this body went to the log. */
  staged: boolean;
}

export async function publishSnapshot(ctx: LogContext, request: PublishRequest): Promise<PublishOutcome> {
  if (request.declaredBytes !== null && request.declaredBytes > ctx.snapshotBytesMax) throw tooLarge(ctx);
  return ctx.core.using(request.key, async (slot) => {
    try {
      return await publish(ctx, slot, request);
    } catch (error) {
      return await refuseSettled(ctx, slot, error);
    }
  });
}

async function publish(ctx: LogContext, slot: Slot, request: PublishRequest): Promise<PublishOutcome> {
  const record = await streamAt(ctx, slot, request.offset);
  checkWritable(ctx, slot.partition);
  return publishBody(ctx, slot, record, request, null);
}

/** The stream, when a snapshot may be published at the offset. Throws 404, 410, 409 and 400 in this order (SNAP-32). */
async function streamAt(ctx: LogContext, slot: Slot, offset: Offset): Promise<StreamRecord> {
  const record = pendingOf(ctx, slot);
  if (record === null) throw missing(ctx, slot);
  checkPosition(record, offset);
  if (isJson(record.contentType)) await checkBoundary(ctx, slot, record, offset);
  return record;
}

/** What a publish of this digest comes to before its body is known: the answer to a repeat, or the stream as it would be published to. Refuses what was overtaken, and 412 last. */
export async function judge(ctx: LogContext, slot: Slot, target: Target, digest: string): Promise<Judged> {
  return meet(ctx, slot, await streamAt(ctx, slot, target.offset), target, digest);
}

/** Receives the body and publishes it; with `digest`: only if it is the body's. Throws SNAPSHOT_DIGEST_MISMATCH. */
export async function publishBody(ctx: LogContext, slot: Slot, record: StreamRecord, request: Publication, digest: string | null): Promise<PublishOutcome> {
  const received = await receive(ctx, request, record);
  try {
    if (digest !== null && received.digest !== digest) throw refusal(record, 'SNAPSHOT_DIGEST_MISMATCH');
    return await commit(ctx, slot, record, request, received);
  } finally {
    // Once staged the record may name the file, whatever the answer was; a leftover goes at the next start.
    if (!received.staged && received.file !== null) await ctx.staging.remove(received.file.name);
  }
}

/** 410 below the retained offset, 409 beyond the tail (SNAP-07, SNAP-08, SNAP-32). */
export function checkPosition(record: StreamRecord, offset: Offset): void {
  if (offset < record.retained) throw refusal(record, 'STREAM_GONE', { 'Stream-Next-Offset': formatOffset(record.retained) });
  if (offset > record.tail) throw refusal(record, 'SNAPSHOT_CONFLICT', { 'Stream-Next-Offset': formatOffset(record.tail) });
}

export function tooLarge(ctx: LogContext): FirnError {
  return new FirnError('SNAPSHOT_TOO_LARGE', { headers: { 'Ursula-Max-Snapshot-Bytes': String(ctx.snapshotBytesMax) } });
}

async function receive(ctx: LogContext, request: Publication, record: StreamRecord): Promise<Received> {
  const digest = SnapshotDigest.start(request.contentType);
  const small: Buffer[] = [];
  let bytes = 0;
  let crc = 0;
  let file: StagingFile | null = null;
  try {
    for await (const piece of request.body) {
      bytes += piece.length;
      if (bytes > ctx.snapshotBytesMax) throw tooLarge(ctx);
      // A large body must not fill the disk that appends are synced to.
      if (ctx.pressure.refusal !== null) throw ctx.pressure.refusal;
      digest.update(piece);
      crc = crc32c(piece, crc);
      if (file === null && bytes >= SNAPSHOT_INLINE_MAX) {
        file = await ctx.staging.create(request.key, record.incarnation, request.offset);
        for (const held of small.splice(0)) await file.handle.writeFile(held);
      }
      if (file === null) small.push(piece);
      else await file.handle.writeFile(piece);
    }
    if (file !== null) await ctx.staging.seal(file);
  } catch (error) {
    if (file !== null) await ctx.staging.discard(file);
    throw error;
  }
  return { bytes, crc, digest: digest.finish(), inline: file === null ? Buffer.concat(small) : null, file, staged: false };
}

/** The stream as a publish of a known digest meets it, looked at in the turn in which this resolves; `done`: the content is there already. */
async function meet(ctx: LogContext, slot: Slot, seen: StreamRecord, { offset, precondition }: Target, digest: string): Promise<Judged> {
  const superseded = await supersededAt(ctx, slot, seen, offset);
  const record = pendingOf(ctx, slot);
  if (record === null) throw missing(ctx, slot);
  if (record.incarnation !== seen.incarnation) {
    // Checked against a stream that is gone: nothing of it holds for this one (RET-08). 412 is for those who named the one that they meant (SNAP-09, INC-05).
    checkIncarnation(record, precondition);
    throw refusal(record, 'SNAPSHOT_CONFLICT', { 'Stream-Next-Offset': formatOffset(record.tail) });
  }
  checkPosition(record, offset);
  const visible = record.snapshot;
  if (visible !== null && offset <= visible.offset) {
    const there = offset === visible.offset ? visible : superseded;
    if (there?.digest !== digest) throw refusal(record, 'SNAPSHOT_CONFLICT', { 'Stream-Snapshot-Offset': formatOffset(visible.offset), 'Stream-Snapshot-Digest': visible.digest });
    checkIncarnation(record, precondition);
    renew(ctx, slot, record);
    await ctx.core.settled(slot);
    return { record, done: { record, offset, digest } };
  }
  checkIncarnation(record, precondition);
  return { record, done: null };
}

async function commit(ctx: LogContext, slot: Slot, seen: StreamRecord, request: Publication, received: Received): Promise<PublishOutcome> {
  const { offset } = request;
  const { record, done } = await meet(ctx, slot, seen, request, received.digest);
  if (done !== null) return done;
  const visible = record.snapshot;
  checkWritable(ctx, slot.partition);
  const now = ctx.now();
  const snapshot: SnapshotRecord = {
    offset,
    contentType: request.contentType,
    digest: received.digest,
    bytes: received.bytes,
    crc: received.crc,
    publishedAtMs: now,
    hot: received.file === null ? { at: 'inline' } : { at: 'staging', file: received.file.name },
    cold: null,
  };
  const ops: HotOp[] = received.inline === null ? [] : bodyOps(slot, record, snapshot, received.inline);
  if (visible !== null) ops.push(...(await supersedeOps(ctx, slot, record, visible)));
  const current = slot.pending;
  // Appends may go on meanwhile; only another snapshot, boundary or life of the stream makes the checks above stale.
  const stale = current === null || current.incarnation !== record.incarnation || current.snapshot !== visible || current.retained !== record.retained;
  if (stale) return commit(ctx, slot, seen, request, received);
  if (record.ttl !== null) slot.touchedAtMs = now;
  const next = { ...current, snapshot, touchedAtMs: record.ttl === null ? current.touchedAtMs : now };
  const durable = ctx.core.stage({ slot, next, ops });
  received.staged = true;
  await durable;
  // A reader that took the old state may still want the old body (BOOT-26): it goes when none is left.
  if (visible !== null) ctx.pins.retire(record.incarnation, visible.offset, () => removeBody(ctx, slot, record, visible));
  if (received.file !== null && ctx.logged) ctx.cold.noteSnapshot(slot.partition);
  return { record: next, offset, digest: snapshot.digest };
}

function bodyOps(slot: Slot, record: StreamRecord, snapshot: SnapshotRecord, body: Buffer): HotOp[] {
  const ops: HotOp[] = [];
  for (let n = 0; n * BODY_CHUNK_MAX < body.length; n++) {
    const key = bodyRow.key(slot.slot, record.incarnation, snapshot.offset, n);
    ops.push({ type: 'put', key, value: body.subarray(n * BODY_CHUNK_MAX, (n + 1) * BODY_CHUNK_MAX) });
  }
  return ops;
}

/** A superseded snapshot: its digest is remembered for repeats, the oldest memory goes (SNAP-21, SNAP-22, SNAP-30); so do bodies that a crash left behind. */
async function supersedeOps(ctx: LogContext, slot: Slot, record: StreamRecord, old: SnapshotRecord): Promise<HotOp[]> {
  const ops: HotOp[] = [{ type: 'put', key: snapshotRow.key(slot.slot, record.incarnation, old.offset), value: snapshotRow.encode({ ...old, hot: null }) }];
  const remembered: Buffer[] = [];
  for await (const page of ctx.core.store.scan({ ...snapshotRow.range(slot.slot, record.incarnation), values: false })) for (const entry of page) remembered.push(entry.key);
  for (const key of remembered.slice(0, Math.max(0, remembered.length + 1 - SNAPSHOTS_REMEMBERED))) ops.push({ type: 'del', key });
  for await (const page of ctx.core.store.scan({ ...bodyRow.range(slot.slot, record.incarnation), values: false })) {
    for (const { key } of page) {
      const { offset } = bodyRow.decodeKey(key);
      if (offset < old.offset && ctx.pins.isFree(record.incarnation, offset)) ops.push({ type: 'del', key });
    }
  }
  return ops;
}

/** Removes the hot body of a snapshot that is no longer visible. */
async function removeBody(ctx: LogContext, slot: Slot, record: StreamRecord, old: SnapshotRecord): Promise<void> {
  if (old.hot?.at === 'staging') await ctx.staging.remove(old.hot.file);
  if (old.hot?.at !== 'inline') return;
  const ops: HotOp[] = [];
  for (let n = 0; n * BODY_CHUNK_MAX < old.bytes; n++) ops.push({ type: 'del', key: bodyRow.key(slot.slot, record.incarnation, old.offset, n) });
  if (ops.length > 0) await ctx.core.stageOps(ops);
}

async function supersededAt(ctx: LogContext, slot: Slot, record: StreamRecord, offset: Offset): Promise<SnapshotRecord | null> {
  const value = await ctx.core.store.get(snapshotRow.key(slot.slot, record.incarnation, offset));
  return value === undefined ? null : snapshotRow.decode(value);
}
