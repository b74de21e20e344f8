/**
 * The bytes of a range of one stream, from wherever they are: the seam between the tiers that nobody sees.
 *
 * Owns: which tier serves which part, and what happens when a copy moves under the reader. Promises: exactly [from, to), in order, in pieces of
 * at most 1 MiB; a missing copy is looked for once more under the stream's new state and is damage after that (I1, I9); a store that was closed
 * and opened again is read on from the own position; never an early end.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import { advance, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { HotDamaged, HotGap } from '../hot/errors.js';
import { StoreClosed } from '../hot/store.js';
import { refusal, type LogContext } from './context.js';
import { refusalOf } from './failures.js';
import { REOPEN_RETRY_MS } from './limits.js';
import type { Slot } from './slot.js';

/** Times a read waits for a store that is being opened again, REOPEN_RETRY_MS apart. */
const REOPEN_TRIES = 20;

/** Bytes [from, to) of one incarnation. Throws FirnError: COLD_STORE_FAILED or INTERNAL for damage, STREAM_GONE, STREAM_NOT_FOUND; never ends short. */
export function rangeBytes(ctx: LogContext, key: StreamKey, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): AsyncGenerator<Buffer> {
  return bytesOf(ctx, { key, incarnation, inherited: false }, from, to, signal);
}

/** Whose bytes are read. `inherited`: for a fork, which sees what its source keeps for it, whatever has become of the source for its own readers. */
interface Source {
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
  readonly inherited: boolean;
}

async function* bytesOf(ctx: LogContext, source: Source, from: Offset, to: Offset, signal?: AbortSignal): AsyncGenerator<Buffer> {
  const { key, incarnation } = source;
  let at = from;
  let gapAt: Offset | null = null;
  let reopened = 0;
  while (at < to) {
    signal?.throwIfAborted();
    try {
      const slot = await ctx.core.acquire(key);
      try {
        for await (const piece of nextTier(ctx, slot, source, at, to, signal)) {
          at = advance(at, piece.length);
          yield piece;
        }
      } finally {
        ctx.core.release(slot);
      }
    } catch (error) {
      await checkStillThere(ctx, source, at);
      if (error instanceof HotGap) {
        if (gapAt === at) throw refusalOf(ctx, key, new HotDamaged(incarnation, at, 'no copy is there'));
        gapAt = at;
      } else if (error instanceof StoreClosed || (error instanceof FirnError && error.code === 'GROUP_RESTARTING')) {
        if (++reopened > REOPEN_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, REOPEN_RETRY_MS));
      } else {
        throw refusalOf(ctx, key, error);
      }
    }
  }
}

/**
 * A read that failed is looked at twice: a stream that was deleted, and bytes that retention overtook, are gone and not damaged (R022).
 * Throws STREAM_NOT_FOUND or STREAM_GONE, for a fork that reads what it inherits `HotGap`. A store that is being opened again tells nothing.
 */
async function checkStillThere(ctx: LogContext, { key, incarnation, inherited }: Source, at: Offset): Promise<void> {
  let record: StreamRecord | null;
  try {
    record = await ctx.core.using(key, (slot) => slot.durable);
  } catch {
    return;
  }
  // For a fork that is there its source must be: whether it is, the fork's own read decides.
  if (record === null || record.incarnation !== incarnation) throw inherited ? new HotGap(incarnation, at) : new FirnError('STREAM_NOT_FOUND');
  if (inherited) return;
  if (record.softDeleted) throw new FirnError('STREAM_GONE');
  if (at < record.retained) throw refusal(record, 'STREAM_GONE', { 'Stream-Next-Offset': formatOffset(record.retained) });
}

/** The part of [at, to) that one tier holds under the stream's state right now. */
function nextTier(ctx: LogContext, slot: Slot, { incarnation, inherited }: Source, at: Offset, to: Offset, signal?: AbortSignal): AsyncIterable<Buffer> | Iterable<Buffer> {
  const record = slot.durable;
  if (record === null || record.incarnation !== incarnation || (at < record.retained && !inherited)) throw new HotGap(incarnation, at);
  const { origin } = record;
  if (origin !== null && at < origin.at) return bytesOf(ctx, { key: origin.key, incarnation: origin.incarnation, inherited: true }, at, Math.min(to, origin.at) as Offset, signal);
  if (at >= record.hotStart) {
    if (at >= record.tail) throw new HotGap(incarnation, at);
    const { tail } = slot;
    if (tail === null) return ctx.hot.bytes(slot.slot, incarnation, at, to, signal);
    if (at >= tail.from) return tail.read(at, to);
    return ctx.hot.bytes(slot.slot, incarnation, at, Math.min(to, tail.from) as Offset, signal);
  }
  const end = Math.min(to, Math.max(record.hotStart, at)) as Offset;
  if (end <= at || at >= record.sealed) throw new HotGap(incarnation, at);
  return ctx.cold.read(slot.slot, incarnation, at, end, signal);
}

/** The same, joined: for small ranges only. */
export async function readAll(ctx: LogContext, key: StreamKey, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of rangeBytes(ctx, key, incarnation, from, to, signal)) pieces.push(piece);
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
}
