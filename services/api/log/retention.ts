/**
 * Retention: requirements section 19. The boundary moves with one small batch; bytes below it go in the background.
 */
import { isJson } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { checkIncarnation, checkWritable, missing, pendingOf, refusal, refuseSettled, renew, type LogContext } from './context.js';
import { isBoundary } from './cut.js';
import type { Slot } from './slot.js';
import type { Precondition } from './types.js';

export async function retain(ctx: LogContext, key: StreamKey, precondition: Precondition, offset: Offset): Promise<StreamRecord> {
  return ctx.core.using(key, async (slot) => {
    try {
      return await move(ctx, slot, precondition, offset);
    } catch (error) {
      return await refuseSettled(ctx, slot, error);
    }
  });
}

async function move(ctx: LogContext, slot: Slot, precondition: Precondition, offset: Offset): Promise<StreamRecord> {
  const record = checked(ctx, slot, offset);
  if (offset !== record.retained && isJson(record.contentType)) await checkBoundary(ctx, slot, record, offset);
  // The stream may have moved on, or be another one, while its bytes were read (RET-08).
  const now = checked(ctx, slot, offset);
  if (now.incarnation !== record.incarnation) throw new FirnError('JSON_BOUNDARY_UNVERIFIED');
  checkIncarnation(now, precondition);
  checkWritable(ctx, slot.partition);
  if (offset === now.retained) {
    renew(ctx, slot, now);
    await ctx.core.settled(slot);
    return slot.durable?.incarnation === now.incarnation ? slot.durable : now;
  }
  const touchedAtMs = now.ttl === null ? now.touchedAtMs : ctx.now();
  if (now.ttl !== null) slot.touchedAtMs = touchedAtMs;
  const next = { ...now, retained: offset, touchedAtMs };
  await ctx.core.stage({ slot, next, ops: ctx.cold.retainOps(slot, next) });
  return next;
}

/** Backward 410, beyond the snapshot or the tail 409 (RET-04, RET-05, RET-06, RET-16 .. RET-18). */
function checked(ctx: LogContext, slot: Slot, offset: Offset): StreamRecord {
  const record = pendingOf(ctx, slot);
  if (record === null) throw missing(ctx, slot);
  if (offset < record.retained) throw refusal(record, 'STREAM_GONE', { 'Stream-Next-Offset': formatOffset(record.retained), 'Stream-Retained-Offset': formatOffset(record.retained) });
  if (offset === record.retained) return record;
  if (offset > record.tail || record.snapshot === null || offset > record.snapshot.offset) {
    throw refusal(record, 'SNAPSHOT_CONFLICT', { 'Stream-Next-Offset': formatOffset(record.tail) });
  }
  return record;
}

/** Throws NOT_JSON_BOUNDARY, or JSON_BOUNDARY_UNVERIFIED when the byte before cannot be read (RET-03, RET-07, SNAP-06, SNAP-10). */
export async function checkBoundary(ctx: LogContext, slot: Slot, record: StreamRecord, offset: Offset): Promise<void> {
  // The byte before may be on its way to the disk.
  if (offset > (slot.durable?.tail ?? 0)) await ctx.core.settled(slot);
  let ok: boolean;
  try {
    ok = await isBoundary(ctx, slot.key, record, offset);
  } catch (error) {
    throw new FirnError('JSON_BOUNDARY_UNVERIFIED', { cause: error });
  }
  if (!ok) throw refusal(record, 'NOT_JSON_BOUNDARY');
}
