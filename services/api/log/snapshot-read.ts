/**
 * Reading snapshots (requirements section 18): from the hot copy, else from the cold one.
 *
 * Promises: exactly the bytes asked for of the snapshot that was visible when the read began, or an error; never a short end (I9).
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { crc32c } from '../../../shared/storage/crc.js';
import type { SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { BODY_CHUNK_MAX, bodyRow } from '../hot/keys/index.js';
import { checkIncarnation, durableOf, missing, refusal, renew, type LogContext } from './context.js';
import type { Slot } from './slot.js';
import type { Precondition, SnapshotRead } from './types.js';

export async function readSnapshot(ctx: LogContext, key: StreamKey, precondition: Precondition, offset: Offset): Promise<SnapshotRead> {
  return ctx.core.using(key, (slot) => {
    const record = durableOf(ctx, slot);
    if (record === null) throw missing(ctx, slot);
    const snapshot = record.snapshot;
    if (snapshot === null || snapshot.offset !== offset) throw refusal(record, 'SNAPSHOT_NOT_FOUND');
    checkIncarnation(record, precondition);
    renew(ctx, slot, record);
    return snapshotRead(ctx, slot, record, snapshot);
  });
}

/** Taken in the same turn as `record`: from then on the body stays until it was read (BOOT-26). */
export function snapshotRead(ctx: LogContext, slot: Slot, record: StreamRecord, snapshot: SnapshotRecord): SnapshotRead {
  ctx.pins.take(record.incarnation, snapshot.offset);
  return {
    record,
    snapshot,
    body: (from, length, signal) => ctx.pins.during(record.incarnation, snapshot.offset, snapshotBytes(ctx, slot.key, record, snapshot, from, length, signal)),
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
