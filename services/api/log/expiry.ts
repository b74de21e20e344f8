/**
 * The sweep that removes streams whose time is up, so that ones which nobody touches go too (TTL-02, R078).
 *
 * Owns: one bounded step over the expiry rows of a partition; a row is a hint, the stream's record decides. A row that came too early moves to the
 * instant at which the stream ends now.
 */
import { expiryRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { LogContext } from './context.js';
import { removeStream } from './delete.js';
import { EXPIRY_SWEEP_MAX } from './limits.js';

/** A stream kept alive by a live reader is looked at again after this long. */
const HELD_RECHECK_MS = 60_000;

/** One step: true when more is due at once. */
export async function sweepExpired(ctx: LogContext, partition: number): Promise<boolean> {
  // A node that lost the partition ends no streams of it: its new owner does.
  if (ctx.cold.refusal(partition) !== null) return false;
  const rows: Buffer[] = [];
  for await (const page of ctx.core.store.scan({ ...expiryRow.range(partition, ctx.now() + 1), limit: EXPIRY_SWEEP_MAX, values: false })) for (const entry of page) rows.push(entry.key);
  const settled = await Promise.all(rows.map((row) => settledAlone(ctx, partition, row)));
  return rows.length === EXPIRY_SWEEP_MAX && settled.some(Boolean);
}

/** A stream that cannot be read must not keep the others alive. */
async function settledAlone(ctx: LogContext, partition: number, row: Buffer): Promise<boolean> {
  try {
    await settleRow(ctx, partition, row);
    return true;
  } catch (error) {
    if (!ctx.core.healing) ctx.logger.error({ err: error, event: 'expiry-failed', stream: expiryRow.decodeKey(row).key }, 'a stream whose time is up could not be removed');
    return false;
  }
}

async function settleRow(ctx: LogContext, partition: number, row: Buffer): Promise<void> {
  const { slot: number, key } = expiryRow.decodeKey(row);
  await ctx.core.using(key, async (slot) => {
    const gone: HotOp = { type: 'del', key: row };
    const record = slot.pending;
    if (record === null || record.softDeleted || (record.ttl === null && record.expiresAtMs === null)) return ctx.core.stageOps([gone]);
    const endsAtMs = ctx.core.touch.endsAtMs(slot, record);
    if (endsAtMs > ctx.now()) {
      const next = Number.isFinite(endsAtMs) ? Math.ceil(endsAtMs) : ctx.now() + HELD_RECHECK_MS;
      return ctx.core.stageOps([gone, { type: 'put', key: expiryRow.key(partition, next, number, key), value: Buffer.alloc(0) }]);
    }
    await removeStream(ctx, slot, record, [gone]);
  });
}
