/**
 * Create (PUT): requirements section 2, TTL-01 .. TTL-12, INC-13.
 */
import { OCTET_STREAM } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { checkWritable, isFenced, missing, pendingOf, refusal, refuseSettled, type LogContext } from './context.js';
import { fork } from './fork.js';
import { confirm, countFirstBytes, expiryOps, messagesOf, newRecord, refuseSoftDeleted } from './new-stream.js';
import type { Slot } from './slot.js';
import type { CreateOutcome, CreateRequest } from './types.js';

export async function create(ctx: LogContext, request: CreateRequest): Promise<CreateOutcome> {
  return ctx.core.using(request.key, async (slot) => {
    try {
      return await (request.fork === null ? decide(ctx, slot, request) : fork(ctx, slot, request, request.fork));
    } catch (error) {
      return await refuseSettled(ctx, slot, error);
    }
  });
}

async function decide(ctx: LogContext, slot: Slot, request: CreateRequest): Promise<CreateOutcome> {
  let token: Incarnation | null = null;
  for (;;) {
    if (isFenced(ctx, slot)) throw missing(ctx, slot);
    const found = pendingOf(ctx, slot);
    // A fork is no plain stream, whatever it holds (FORK-15).
    if (found !== null && found.origin !== null) throw refusal(found, 'STREAM_ALREADY_EXISTS_CONFLICT');
    if (found !== null) return confirm(ctx, slot, found, request);
    refuseSoftDeleted(slot);
    if (request.precondition !== null) throw new FirnError('INCARNATION_MISMATCH');
    checkWritable(ctx, slot.partition);
    if (token !== null) return add(ctx, slot, token, request);
    // Taking a token may wait for the disk; what was true before may not be after.
    token = await ctx.cold.nextIncarnation(slot.partition);
  }
}

async function add(ctx: LogContext, slot: Slot, incarnation: Incarnation, request: CreateRequest): Promise<CreateOutcome> {
  const contentType = request.contentType ?? OCTET_STREAM;
  const payload = messagesOf(request, contentType);
  const now = ctx.now();
  const next: StreamRecord = { ...newRecord(incarnation, request, contentType, now), tail: payload.length as Offset };
  slot.touchedAtMs = now;
  await ctx.core.stage({ slot, next, ops: expiryOps(slot, next, now), ...(payload.length > 0 ? { append: { payload, atMs: now } } : {}) });
  countFirstBytes(ctx, payload);
  return { created: true, record: next };
}
