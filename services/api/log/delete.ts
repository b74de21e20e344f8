/**
 * Delete: requirements section 5. The stream is gone with one batch; its rows follow in the background.
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import { checkIncarnation, missing, pendingOf, type LogContext } from './context.js';
import type { Slot } from './slot.js';
import type { Precondition } from './types.js';

export async function remove(ctx: LogContext, key: StreamKey, precondition: Precondition): Promise<Incarnation> {
  return ctx.core.using(key, async (slot) => {
    const record = pendingOf(ctx, slot);
    if (record === null) {
      await settledQuietly(ctx, slot);
      throw missing(ctx, slot);
    }
    checkIncarnation(record, precondition);
    await ctx.core.stage({ slot, next: null });
    if (record.snapshot?.hot?.at === 'staging') await ctx.staging.remove(record.snapshot.hot.file);
    return record.incarnation;
  });
}

/** A 404 that rests on a delete in flight waits for it (I2). */
async function settledQuietly(ctx: LogContext, slot: Slot): Promise<void> {
  if (slot.staged > 0) await ctx.core.settled(slot);
}
