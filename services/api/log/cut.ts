/**
 * Where a range of a JSON stream may end: message boundaries (JSON-21, READ-23, SIZE-12).
 *
 * Owns: the search for LFs in stored bytes. Stored messages hold no other LF.
 */
import { advance, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import type { LogContext } from './context.js';
import { rangeBytes, readAll } from './range.js';

const LF = 0x0a;
/** Bytes looked at in one step backwards. */
const STEP_BYTES = 64 * 1024;

/** Is `at` a message boundary? The first offset, the tail and what lies behind an LF are; `retained` was checked when it was set. */
export async function isBoundary(ctx: LogContext, key: StreamKey, record: { readonly incarnation: Incarnation; readonly tail: Offset; readonly retained: Offset }, at: Offset, signal?: AbortSignal): Promise<boolean> {
  if (at === 0 || at === record.tail || at === record.retained) return true;
  const before = await readAll(ctx, key, record.incarnation, advance(at, -1), at, signal);
  return before[0] === LF;
}

/** The last boundary in (from, limit], null when no message ends there. */
export async function lastBoundary(ctx: LogContext, key: StreamKey, incarnation: Incarnation, from: Offset, limit: Offset, signal?: AbortSignal): Promise<Offset | null> {
  for (let end = limit; end > from; ) {
    const start = Math.max(from, end - STEP_BYTES) as Offset;
    const bytes = await readAll(ctx, key, incarnation, start, end, signal);
    const found = bytes.lastIndexOf(LF);
    if (found >= 0) return advance(start, found + 1);
    end = start;
  }
  return null;
}

/** The first boundary in (from, tail]. */
export async function nextBoundary(ctx: LogContext, key: StreamKey, incarnation: Incarnation, from: Offset, tail: Offset, signal?: AbortSignal): Promise<Offset> {
  let at = from;
  for await (const piece of rangeBytes(ctx, key, incarnation, from, tail, signal)) {
    const found = piece.indexOf(LF);
    if (found >= 0) return advance(at, found + 1);
    at = advance(at, piece.length);
  }
  throw new Error(`stream ${key} does not end in a message end`);
}
