/**
 * The bytes of a range of one stream, from wherever they are: the seam between the tiers that nobody sees.
 *
 * Owns: which tier serves which part, and what happens when a copy moves under the reader. Promises: exactly [from, to), in order, in pieces of
 * at most 1 MiB; a missing copy is looked for once more under the stream's new state and is damage after that (I1, I9); a store that was closed
 * and opened again is read on from the own position; never an early end.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { advance, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import { HotDamaged, HotStoreCorrupt } from '../hot/errors.js';
import { StoreClosed } from '../hot/store.js';
import type { LogContext } from './context.js';
import { HotGap } from './core.js';
import { REOPEN_RETRY_MS } from './limits.js';
import type { Slot } from './slot.js';

/** The stream went away under a reader whose headers are out. */
export class StreamVanished extends Error {
  constructor(readonly key: StreamKey) {
    super('the stream was deleted or recreated during the read');
    this.name = 'StreamVanished';
  }
}

/** Times a read waits for a store that is being opened again, REOPEN_RETRY_MS apart. */
const REOPEN_TRIES = 20;

/** Bytes [from, to) of one incarnation. Throws FirnError COLD_STORE_FAILED or INTERNAL for damage, StreamVanished, never ends short. */
export async function* rangeBytes(ctx: LogContext, key: StreamKey, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): AsyncGenerator<Buffer> {
  let at = from;
  let gapAt: Offset | null = null;
  let reopened = 0;
  while (at < to) {
    signal?.throwIfAborted();
    try {
      const slot = await ctx.core.acquire(key);
      try {
        for await (const piece of nextTier(ctx, slot, incarnation, at, to, signal)) {
          at = advance(at, piece.length);
          yield piece;
        }
      } finally {
        ctx.core.release(slot);
      }
    } catch (error) {
      if (error instanceof HotGap) {
        if (gapAt === at) throw damage(ctx, key, error);
        gapAt = at;
      } else if (error instanceof StoreClosed || (error instanceof FirnError && error.code === 'GROUP_RESTARTING')) {
        if (++reopened > REOPEN_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, REOPEN_RETRY_MS));
      } else if (error instanceof HotDamaged || error instanceof HotStoreCorrupt) {
        throw damage(ctx, key, error);
      } else {
        throw error;
      }
    }
  }
}

/** The part of [at, to) that one tier holds under the stream's state right now. */
function nextTier(ctx: LogContext, slot: Slot, incarnation: Incarnation, at: Offset, to: Offset, signal?: AbortSignal): AsyncIterable<Buffer> {
  const record = slot.durable;
  if (record === null || record.incarnation !== incarnation) throw new StreamVanished(slot.key);
  if (at >= record.hotStart) return ctx.hot.bytes(slot.slot, incarnation, at, to, signal);
  const end = Math.min(to, Math.max(record.hotStart, at)) as Offset;
  if (end <= at || at >= record.sealed) throw new HotGap(incarnation, at);
  return ctx.cold.read(slot.slot, incarnation, at, end, signal);
}

function damage(ctx: LogContext, key: StreamKey, error: Error): FirnError {
  ctx.metrics.damage.hot.add();
  ctx.logger.error({ err: error, event: 'damage', tier: 'hot', stream: key }, 'stored bytes are missing or damaged');
  return new FirnError('INTERNAL', { cause: error });
}

/** The same, joined: for small ranges only. */
export async function readAll(ctx: LogContext, key: StreamKey, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of rangeBytes(ctx, key, incarnation, from, to, signal)) pieces.push(piece);
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
}
