/**
 * Snapshots: publish and read (requirements section 18). A body is never in memory beyond SNAPSHOT_INLINE_MAX: larger ones go to a staging file
 * and are visible once file and record are durable.
 */
import { isJson } from '../../../shared/protocol/content-type.js';
import { SnapshotDigest } from '../../../shared/protocol/digest.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { crc32c } from '../../../shared/storage/crc.js';
import type { SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { BODY_CHUNK_MAX } from '../hot/keys/body.js';
import { bodyRow, snapshotRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { checkIncarnation, checkWritable, durableOf, missing, pendingOf, refusal, renewByRead, type LogContext } from './context.js';
import { SNAPSHOT_INLINE_MAX, SNAPSHOTS_REMEMBERED } from './limits.js';
import { checkBoundary } from './retention.js';
import type { Slot } from './slot.js';
import type { StagingFile } from './staging-files.js';
import type { Precondition, PublishOutcome, PublishRequest, SnapshotRead } from './types.js';

/** A body that was received: in memory or in a file. */
interface Received {
  readonly bytes: number;
  readonly crc: number;
  readonly digest: string;
  readonly inline: Buffer | null;
  readonly file: StagingFile | null;
}

export async function publishSnapshot(ctx: LogContext, request: PublishRequest): Promise<PublishOutcome> {
  if (request.declaredBytes !== null && request.declaredBytes > ctx.snapshotBytesMax) throw tooLarge(ctx);
  return ctx.core.using(request.key, async (slot) => {
    const record = pendingOf(ctx, slot);
    if (record === null) throw missing(ctx, slot);
    checkPosition(record, request.offset);
    if (isJson(record.contentType)) await checkBoundary(ctx, request.key, record, request.offset);
    checkWritable(ctx, slot.partition);
    const received = await receive(ctx, request, record);
    let kept = false;
    try {
      const outcome = await commit(ctx, slot, record, request, received);
      kept = outcome.kept;
      return outcome;
    } finally {
      if (!kept && received.file !== null) await ctx.staging.remove(received.file.name);
    }
  });
}

/** 410 below the retained offset, 409 beyond the tail (SNAP-07, SNAP-08, SNAP-32). */
function checkPosition(record: StreamRecord, offset: Offset): void {
  if (offset < record.retained) throw refusal(record, 'STREAM_GONE', { 'Stream-Next-Offset': formatOffset(record.retained) });
  if (offset > record.tail) throw refusal(record, 'SNAPSHOT_CONFLICT', { 'Stream-Next-Offset': formatOffset(record.tail) });
}

function tooLarge(ctx: LogContext): FirnError {
  return new FirnError('SNAPSHOT_TOO_LARGE', { headers: { 'Ursula-Max-Snapshot-Bytes': String(ctx.snapshotBytesMax) } });
}

async function receive(ctx: LogContext, request: PublishRequest, record: StreamRecord): Promise<Received> {
  const digest = SnapshotDigest.start(request.contentType);
  const small: Buffer[] = [];
  let bytes = 0;
  let crc = 0;
  let file: StagingFile | null = null;
  try {
    for await (const piece of request.body) {
      bytes += piece.length;
      if (bytes > ctx.snapshotBytesMax) throw tooLarge(ctx);
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
  return { bytes, crc, digest: digest.finish(), inline: file === null ? Buffer.concat(small) : null, file };
}

async function commit(ctx: LogContext, slot: Slot, seen: StreamRecord, request: PublishRequest, received: Received): Promise<PublishOutcome & { readonly kept: boolean }> {
  const { offset } = request;
  const superseded = await supersededAt(ctx, slot, seen, offset);
  const record = pendingOf(ctx, slot);
  if (record === null) throw missing(ctx, slot);
  // Checked against a stream that is gone: nothing of it holds for this one (RET-08).
  if (record.incarnation !== seen.incarnation) throw refusal(record, 'INCARNATION_MISMATCH');
  checkPosition(record, offset);
  const visible = record.snapshot;
  if (visible !== null && offset <= visible.offset) {
    const there = offset === visible.offset ? visible : superseded;
    if (there?.digest !== received.digest) throw refusal(record, 'SNAPSHOT_CONFLICT', { 'Stream-Snapshot-Offset': formatOffset(visible.offset), 'Stream-Snapshot-Digest': visible.digest });
    checkIncarnation(record, request.precondition);
    await ctx.core.settled(slot);
    return { record, offset, digest: received.digest, kept: false };
  }
  checkIncarnation(record, request.precondition);
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
  await ctx.core.stage({ slot, next, ops });
  if (visible?.hot?.at === 'staging') await ctx.staging.remove(visible.hot.file);
  if (received.file !== null && ctx.logged) ctx.cold.noteSnapshot(slot.partition);
  return { record: next, offset, digest: snapshot.digest, kept: true };
}

function bodyOps(slot: Slot, record: StreamRecord, snapshot: SnapshotRecord, body: Buffer): HotOp[] {
  const ops: HotOp[] = [];
  for (let n = 0; n * BODY_CHUNK_MAX < body.length; n++) {
    const key = bodyRow.key(slot.slot, record.incarnation, snapshot.offset, n);
    ops.push({ type: 'put', key, value: body.subarray(n * BODY_CHUNK_MAX, (n + 1) * BODY_CHUNK_MAX) });
  }
  return ops;
}

/** A superseded snapshot: its digest is remembered for repeats, its hot body goes, the oldest memory goes (SNAP-21, SNAP-22, SNAP-30). */
async function supersedeOps(ctx: LogContext, slot: Slot, record: StreamRecord, old: SnapshotRecord): Promise<HotOp[]> {
  const ops: HotOp[] = [{ type: 'put', key: snapshotRow.key(slot.slot, record.incarnation, old.offset), value: snapshotRow.encode({ ...old, hot: null }) }];
  for (let n = 0; n * BODY_CHUNK_MAX < old.bytes && old.hot?.at === 'inline'; n++) {
    ops.push({ type: 'del', key: bodyRow.key(slot.slot, record.incarnation, old.offset, n) });
  }
  const remembered: Buffer[] = [];
  for await (const page of ctx.core.store.scan({ ...snapshotRow.range(slot.slot, record.incarnation), values: false })) for (const entry of page) remembered.push(entry.key);
  for (const key of remembered.slice(0, Math.max(0, remembered.length + 1 - SNAPSHOTS_REMEMBERED))) ops.push({ type: 'del', key });
  return ops;
}

async function supersededAt(ctx: LogContext, slot: Slot, record: StreamRecord, offset: Offset): Promise<SnapshotRecord | null> {
  const value = await ctx.core.store.get(snapshotRow.key(slot.slot, record.incarnation, offset));
  return value === undefined ? null : snapshotRow.decode(value);
}

export async function readSnapshot(ctx: LogContext, key: StreamKey, precondition: Precondition, offset: Offset): Promise<SnapshotRead> {
  return ctx.core.using(key, (slot) => {
    const record = durableOf(ctx, slot);
    if (record === null) throw missing(ctx, slot);
    const snapshot = record.snapshot;
    if (snapshot === null || snapshot.offset !== offset) throw refusal(record, 'SNAPSHOT_NOT_FOUND');
    checkIncarnation(record, precondition);
    renewByRead(ctx, slot, record);
    return snapshotRead(ctx, slot, record, snapshot);
  });
}

export function snapshotRead(ctx: LogContext, slot: Slot, record: StreamRecord, snapshot: SnapshotRecord): SnapshotRead {
  return {
    record,
    snapshot,
    body: (from, length, signal) => snapshotBytes(ctx, slot.key, record, snapshot, from, length, signal),
  };
}

/** From the hot copy, else from the cold one; a copy that moved meanwhile is looked for once more. */
async function* snapshotBytes(ctx: LogContext, key: StreamKey, record: StreamRecord, snapshot: SnapshotRecord, from: number, length: number, signal?: AbortSignal): AsyncGenerator<Buffer> {
  let sent = 0;
  let source = snapshot;
  for (let attempt = 0; sent < length; attempt++) {
    try {
      for await (const piece of copyOf(ctx, key, record, source, from + sent, length - sent, signal)) {
        sent += piece.length;
        yield piece;
      }
      if (sent < length) throw new Error(`a snapshot of ${key} ended at ${from + sent} of ${from + length}`);
    } catch (error) {
      signal?.throwIfAborted();
      const now = await ctx.core.using(key, (slot) => slot.durable);
      const moved = now?.incarnation === record.incarnation && now.snapshot?.offset === snapshot.offset && now.snapshot.cold !== null && source.hot !== null;
      if (attempt > 0 || !moved) {
        if (error instanceof FirnError) throw error;
        // Superseded, or gone with its stream, between the look at the state and the read of the body: no damage (SNAP-22).
        if (now?.incarnation !== record.incarnation) throw new FirnError(now === null ? 'STREAM_NOT_FOUND' : 'SNAPSHOT_NOT_FOUND', { cause: error });
        if (now.snapshot?.offset !== snapshot.offset) throw refusal(now, 'SNAPSHOT_NOT_FOUND');
        ctx.metrics.damage.hot.add();
        ctx.logger.error({ err: error, event: 'damage', tier: 'hot', stream: key }, 'a snapshot could not be read');
        throw new FirnError('INTERNAL', { cause: error });
      }
      source = { ...now.snapshot!, hot: null };
    }
  }
}

async function* copyOf(ctx: LogContext, key: StreamKey, record: StreamRecord, snapshot: SnapshotRecord, from: number, length: number, signal?: AbortSignal): AsyncGenerator<Buffer> {
  if (snapshot.hot?.at === 'staging') {
    yield* ctx.staging.read(snapshot.hot.file, from, length, signal);
  } else if (snapshot.hot?.at === 'inline') {
    const body = await inlineBody(ctx, key, record, snapshot);
    if (length > 0) yield body.subarray(from, from + length);
  } else {
    yield* ctx.cold.readSnapshot(snapshot, from, length, signal);
  }
}

/** The whole body of a small snapshot, checked. */
async function inlineBody(ctx: LogContext, key: StreamKey, record: StreamRecord, snapshot: SnapshotRecord): Promise<Buffer> {
  const slot = ctx.core.slotOf(key);
  const keys = Array.from({ length: Math.ceil(snapshot.bytes / BODY_CHUNK_MAX) }, (_, n) => bodyRow.key(slot, record.incarnation, snapshot.offset, n));
  const rows = await ctx.core.store.getMany(keys);
  const body = Buffer.concat(rows.map((row, n) => {
    if (row === undefined) throw new Error(`row ${n} of the snapshot at ${snapshot.offset} of ${key} is missing`);
    return row;
  }));
  if (body.length !== snapshot.bytes || crc32c(body) !== snapshot.crc) throw new Error(`the snapshot at ${snapshot.offset} of ${key} is damaged`);
  return body;
}
