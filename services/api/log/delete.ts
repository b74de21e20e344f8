/**
 * Delete: requirements section 5. The stream is gone with one batch; its rows follow in the background.
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import type { HotOp } from '../hot/store.js';
import { checkIncarnation, endOf, missing, pendingOf, refuseSettled, type LogContext } from './context.js';
import type { Slot } from './slot.js';
import type { Precondition } from './types.js';

export async function remove(ctx: LogContext, key: StreamKey, precondition: Precondition): Promise<Incarnation> {
  return ctx.core.using(key, async (slot) => {
    try {
      const record = pendingOf(ctx, slot);
      if (record === null) throw missing(ctx, slot);
      checkIncarnation(record, precondition);
      await removeStream(ctx, slot, record);
      return record.incarnation;
    } catch (error) {
      return await refuseSettled(ctx, slot, error);
    }
  });
}

/** Deletes the stream of a slot: for clients, expiry and purge. Throws the refusal of a partition that takes no writes any more (I10). */
export async function removeStream(ctx: LogContext, slot: Slot, record: StreamRecord, ops: readonly HotOp[] = []): Promise<void> {
  const refused = ctx.cold.refusal(slot.partition);
  if (refused !== null) throw refused;
  const next = endOf(record);
  await ctx.core.stage({ slot, next, ops });
  if (next === null && record.snapshot?.hot?.at === 'staging') await ctx.staging.remove(record.snapshot.hot.file);
  if (next === null && record.origin !== null) await ctx.forkEnds.run();
}
