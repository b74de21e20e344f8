/**
 * Create a fork (PUT with `Stream-Forked-From`): requirements section 28.
 *
 * Owns: what a fork inherits and where it begins. Promises: no byte is copied; the source is pinned in the very batch that creates the fork, so neither is ever there without the other (FORK-30).
 */
import { isJson, sameMediaType } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import { advance, type Incarnation, type Offset } from '../../../shared/protocol/types.js';
import type { ForkOrigin, StreamRecord } from '../../../shared/storage/records/types.js';
import { HotDamaged, HotGap } from '../hot/errors.js';
import { appendEnd } from './append-end.js';
import { checkWritable, missing, isFenced, pendingOf, refusal, refuseSettled, type LogContext } from './context.js';
import { isBoundary } from './cut.js';
import { refusalOf } from './failures.js';
import { confirm, countFirstBytes, expiryOps, messagesOf, newRecord, refuseSoftDeleted } from './new-stream.js';
import { rangeBytes } from './range.js';
import type { Slot } from './slot.js';
import type { CreateOutcome, CreateRequest, ForkRequest } from './types.js';

/** Longest chain of forks of forks: a read walks it. */
const FORK_DEPTH_MAX = 64;
const LF = 0x0a;

export async function fork(ctx: LogContext, slot: Slot, request: CreateRequest, asked: ForkRequest): Promise<CreateOutcome> {
  return ctx.core.using(asked.key, async (source) => {
    try {
      return await decide(ctx, slot, source, request, asked);
    } catch (error) {
      // The refusal may rest on a write to the source that is not durable yet (I2).
      return await refuseSettled(ctx, source, error);
    }
  });
}

async function decide(ctx: LogContext, slot: Slot, source: Slot, request: CreateRequest, asked: ForkRequest): Promise<CreateOutcome> {
  let origin: ForkOrigin | null = null;
  let token: Incarnation | null = null;
  for (;;) {
    if (isFenced(ctx, slot)) throw missing(ctx, slot);
    const found = pendingOf(ctx, slot);
    if (found !== null) return confirmFork(ctx, slot, source, found, request, asked);
    refuseSoftDeleted(slot);
    if (request.precondition !== null) throw new FirnError('INCARNATION_MISMATCH');
    const from = sourceOf(ctx, source);
    if (request.contentType !== null && !sameMediaType(from.contentType, request.contentType)) throw refusal(from, 'CONTENT_TYPE_MISMATCH');
    checkWritable(ctx, slot.partition);
    checkWritable(ctx, source.partition);
    if (origin?.incarnation === from.incarnation && token !== null) return add(ctx, slot, source, from, token, request, origin);
    // Readers of the fork see durable bytes of its source.
    await ctx.core.settled(source);
    const { durable } = source;
    if (durable === null || durable.incarnation !== from.incarnation) continue;
    origin = await originIn(ctx, source, durable, asked);
    // Looking at cold bytes and taking a token may take long: a purge, a lost partition or another source may have come meanwhile, so everything is judged once more.
    if (origin !== null) token ??= await ctx.cold.nextIncarnation(slot.partition);
  }
}

/** Where in this life of the source the fork begins; null: that life is over. */
async function originIn(ctx: LogContext, source: Slot, record: StreamRecord, asked: ForkRequest): Promise<ForkOrigin | null> {
  const { incarnation } = record;
  try {
    const at = await beginning(ctx, source, record, asked);
    return { key: source.key, incarnation, offset: asked.offset ?? record.tail, sub: asked.sub, at, depth: (record.origin?.depth ?? 0) + 1 };
  } catch (error) {
    // What stood in the way may be that its bytes went, or a border of theirs.
    if (source.pending?.incarnation !== incarnation) return null;
    throw error instanceof HotGap ? refusalOf(ctx, source.key, new HotDamaged(incarnation, error.at, 'no copy is there')) : error;
  }
}

/** The source as the fork would pin it. Throws what stands in the way (FORK-11, FORK-14, FORK-37). */
function sourceOf(ctx: LogContext, source: Slot): StreamRecord {
  if (isFenced(ctx, source)) throw missing(ctx, source);
  const record = pendingOf(ctx, source);
  if (record === null && source.pending?.softDeleted === true) throw new FirnError('FORK_SOURCE_GONE', { detail: 'the source was deleted and is kept for its forks alone' });
  if (record === null) throw missing(ctx, source);
  if (record.retained > 0) throw refusal(record, 'FORK_SOURCE_GONE', {}, 'the beginning of the source is gone by retention');
  if ((record.origin?.depth ?? 0) >= FORK_DEPTH_MAX) throw refusal(record, 'FORK_SOURCE_GONE', {}, `a chain of forks has at most ${FORK_DEPTH_MAX}`);
  return record;
}

/** Where the fork begins, in bytes of the source (FORK-02 .. FORK-06, FORK-12, FORK-32). */
async function beginning(ctx: LogContext, source: Slot, record: StreamRecord, { offset, sub }: ForkRequest): Promise<Offset> {
  const from = offset ?? record.tail;
  if (from > record.tail) throw refusal(record, 'INVALID_OFFSET', { 'Stream-Next-Offset': formatOffset(record.tail) }, 'the fork offset lies beyond the tail of the source');
  if (isJson(record.contentType) && !(await isBoundary(ctx, source.key, record, from))) throw refusal(record, 'INVALID_OFFSET', {}, 'the fork offset lies inside a message');
  if (sub === 0) return from;
  if (from === record.tail) throw tooFar(record);
  const end = await appendEnd(ctx, source.key, record.incarnation, from);
  const at = isJson(record.contentType) ? await behindMessages(ctx, source, record, from, end, sub) : advance(from, sub);
  if (at === null || at > end) throw tooFar(record);
  return at;
}

function tooFar(record: StreamRecord): FirnError {
  return refusal(record, 'INVALID_OFFSET', {}, 'the fork sub-offset lies beyond the append that holds the fork offset');
}

/** Behind the `count`-th message from `from` on; null: there are fewer up to `end`. */
async function behindMessages(ctx: LogContext, source: Slot, record: StreamRecord, from: Offset, end: Offset, count: number): Promise<Offset | null> {
  let left = count;
  let start = from;
  for await (const piece of rangeBytes(ctx, source.key, record.incarnation, from, end)) {
    for (let at = piece.indexOf(LF); at >= 0; at = piece.indexOf(LF, at + 1)) if (--left === 0) return advance(start, at + 1);
    start = advance(start, piece.length);
  }
  return null;
}

async function add(ctx: LogContext, slot: Slot, source: Slot, pinned: StreamRecord, incarnation: Incarnation, request: CreateRequest, origin: ForkOrigin): Promise<CreateOutcome> {
  const { at } = origin;
  const contentType = request.contentType ?? pinned.contentType;
  const payload = messagesOf(request, contentType);
  const now = ctx.now();
  const next: StreamRecord = { ...newRecord(incarnation, { ...request, ...lifetimeOf(request, pinned) }, contentType, now), tail: advance(at, payload.length), sealed: at, hotStart: at, origin };
  slot.touchedAtMs = now;
  await ctx.core.stageTogether([
    { slot: source, next: { ...pinned, forks: pinned.forks + 1 } },
    { slot, next, ops: expiryOps(slot, next, now), ...(payload.length > 0 ? { append: { payload, atMs: now } } : {}) },
  ]);
  countFirstBytes(ctx, payload);
  return { created: true, record: next };
}

/** Its own lifetime, or that of the source (FORK-08 .. FORK-10). */
function lifetimeOf(request: CreateRequest, source: Pick<StreamRecord, 'ttl' | 'expiresAtMs'>): Pick<CreateRequest, 'ttl' | 'expiresAtMs'> {
  return request.ttl === null && request.expiresAtMs === null ? { ttl: source.ttl, expiresAtMs: source.expiresAtMs } : { ttl: request.ttl, expiresAtMs: request.expiresAtMs };
}

/** A repeated PUT: an offset that is left out asks for nothing (FORK-15, FORK-35). */
async function confirmFork(ctx: LogContext, slot: Slot, source: Slot, found: StreamRecord, request: CreateRequest, asked: ForkRequest): Promise<CreateOutcome> {
  const { origin } = found;
  const same = origin !== null && origin.key === asked.key && origin.sub === asked.sub && (asked.offset === null || origin.offset === asked.offset);
  if (!same) {
    await ctx.core.settled(slot);
    throw refusal(found, 'STREAM_ALREADY_EXISTS_CONFLICT');
  }
  // The source may be deleted by now, but not gone: the fork pins it.
  const inherited = source.pending ?? found;
  return confirm(ctx, slot, found, { ...request, ...lifetimeOf(request, inherited), contentType: request.contentType ?? found.contentType });
}
