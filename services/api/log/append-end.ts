/**
 * Where the append that holds an offset ends: the data boundary that sub-offsets of forks count up to (FORK-03 .. FORK-06).
 *
 * Owns: the way over the tiers, and into what a fork inherits.
 */
import { advance, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import { HotGap } from '../hot/errors.js';
import type { LogContext } from './context.js';
import type { JournalTail, Slot } from './slot.js';

/** Times a copy that moved is looked for under the stream's new state. */
const TRIES = 3;

/** The end of the append of the incarnation that holds the byte at `at`, which lies below the tail. Throws what a read of that byte would throw. */
export async function appendEnd(ctx: LogContext, key: StreamKey, incarnation: Incarnation, at: Offset): Promise<Offset> {
  let from = at;
  for (;;) {
    const { end, whole } = await pieceEnd(ctx, key, incarnation, from);
    if (whole) return end;
    from = end;
  }
}

/** What one stored value says: where the entry that holds `at` ends in it, and whether that is the append's end. */
async function pieceEnd(ctx: LogContext, key: StreamKey, incarnation: Incarnation, at: Offset): Promise<{ readonly end: Offset; readonly whole: boolean }> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ctx.core.using(key, (slot) => lookUp(ctx, slot, incarnation, at));
    } catch (error) {
      if (!(error instanceof HotGap) || attempt === TRIES) throw error;
    }
  }
}

async function lookUp(ctx: LogContext, slot: Slot, incarnation: Incarnation, at: Offset): Promise<{ readonly end: Offset; readonly whole: boolean }> {
  const record = slot.durable;
  if (record === null || record.incarnation !== incarnation || at >= record.tail) throw new HotGap(incarnation, at);
  const { origin } = record;
  if (origin !== null && at < origin.at) {
    // Behind the fork's beginning the append goes on without it.
    const end = await appendEnd(ctx, origin.key, origin.incarnation, at);
    return { end: Math.min(end, origin.at) as Offset, whole: true };
  }
  if (slot.tail !== null && at >= slot.tail.from) return { end: endInTail(slot.tail, at), whole: true };
  if (at >= record.hotStart) return ctx.hot.entryEnd(slot.slot, incarnation, at);
  return ctx.cold.entryEnd(slot.slot, incarnation, at);
}

function endInTail(tail: JournalTail, at: Offset): Offset {
  let end = tail.from;
  for (const { payload } of tail.appends) {
    end = advance(end, payload.length);
    if (end > at) return end;
  }
  throw new Error(`an end in the journal does not hold ${at}`);
}
