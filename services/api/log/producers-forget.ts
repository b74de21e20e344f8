/**
 * Room for new producers: ones that were idle long enough are forgotten, and the highest epoch among them becomes the floor
 * (PROD-18, I11).
 */
import type { Incarnation } from '../../../shared/protocol/types.js';
import { producerRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { LogContext } from './context.js';
import { PRODUCER_IDLE_MS } from './limits.js';
import type { Slot } from './slot.js';

/** Forgets producers idle for PRODUCER_IDLE_MS; durable when it resolves. */
export async function forgetIdleProducers(ctx: LogContext, slot: Slot, incarnation: Incarnation): Promise<void> {
  await ctx.core.settled(slot);
  const all = await ctx.core.producersSince(slot, incarnation, -1);
  const record = slot.pending;
  if (record === null || record.incarnation !== incarnation || slot.staged > 0) return;
  const before = ctx.now() - PRODUCER_IDLE_MS;
  const idle = all.filter((producer) => producer.lastAtMs < before);
  if (idle.length === 0) return;
  const ops: HotOp[] = idle.map((producer) => ({ type: 'del', key: producerRow.key(slot.slot, incarnation, producer.id) }));
  for (const producer of idle) slot.producers?.delete(producer.id);
  const floor = idle.reduce((highest, producer) => Math.max(highest, producer.epoch), record.producerFloor);
  await ctx.core.stage({ slot, next: { ...record, producers: record.producers - idle.length, producerFloor: floor }, ops });
}
