/**
 * Create (PUT): requirements section 2, TTL-01 .. TTL-12, INC-13.
 */
import { isJson, OCTET_STREAM, sameMediaType } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { normalizeMessages } from '../../../shared/protocol/json-text.js';
import { ttlMs } from '../../../shared/protocol/ttl.js';
import { ZERO, type Incarnation, type Offset } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { expiryRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { checkIncarnation, checkWritable, isFenced, missing, pendingOf, refusal, refuseSettled, renew, type LogContext } from './context.js';
import type { Slot } from './slot.js';
import type { CreateOutcome, CreateRequest } from './types.js';

export async function create(ctx: LogContext, request: CreateRequest): Promise<CreateOutcome> {
  return ctx.core.using(request.key, async (slot) => {
    try {
      return await decide(ctx, slot, request);
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
    if (found !== null) return confirm(ctx, slot, found, request);
    if (request.precondition !== null) throw new FirnError('INCARNATION_MISMATCH');
    checkWritable(ctx, slot.partition);
    if (token !== null) return add(ctx, slot, token, request);
    // Taking a token may wait for the disk; what was true before may not be after.
    token = await ctx.cold.nextIncarnation(slot.partition);
  }
}

/** A repeated PUT: configuration only is compared, the body is never looked at but for its syntax (CRE-02 .. CRE-04, CRE-21). */
async function confirm(ctx: LogContext, slot: Slot, found: StreamRecord, request: CreateRequest): Promise<CreateOutcome> {
  // What the answer rests on may not be durable yet (I2).
  await ctx.core.settled(slot);
  const same =
    sameMediaType(found.contentType, request.contentType ?? OCTET_STREAM) &&
    found.ttl === request.ttl &&
    found.expiresAtMs === request.expiresAtMs &&
    found.closed === request.closed;
  if (!same) throw refusal(found, 'STREAM_ALREADY_EXISTS_CONFLICT');
  messagesOf(request, found.contentType);
  checkIncarnation(found, request.precondition);
  const now = slot.durable?.incarnation === found.incarnation ? slot.durable : found;
  renew(ctx, slot, now);
  return { created: false, record: now };
}

async function add(ctx: LogContext, slot: Slot, incarnation: Incarnation, request: CreateRequest): Promise<CreateOutcome> {
  const contentType = request.contentType ?? OCTET_STREAM;
  const payload = messagesOf(request, contentType);
  const now = ctx.now();
  const next: StreamRecord = {
    incarnation,
    contentType,
    createdAtMs: now,
    tail: payload.length as Offset,
    retained: ZERO,
    sealed: ZERO,
    hotStart: ZERO,
    closed: request.closed,
    closedBy: null,
    ttl: request.ttl,
    expiresAtMs: request.expiresAtMs,
    touchedAtMs: now,
    lastSeq: request.dialect === 'bucketed' ? request.seq : null,
    producers: 0,
    producerFloor: -1,
    snapshot: null,
    change: 0,
    loggedChange: 0,
  };
  slot.touchedAtMs = now;
  await ctx.core.stage({ slot, next, ops: expiryOps(slot, next, now), ...(payload.length > 0 ? { append: { payload, atMs: now } } : {}) });
  if (payload.length > 0) {
    ctx.metrics.appends.add();
    ctx.metrics.appendBytes.add(payload.length);
  }
  return { created: true, record: next };
}

/** The bytes to store: JSON in its stored form, everything else as it came. Throws INVALID_RECORD_BOUNDARIES. */
function messagesOf(request: CreateRequest, contentType: string): Buffer {
  return request.body.length > 0 && isJson(contentType) ? normalizeMessages(request.body, 'allowed') : request.body;
}

/** The row that lets the sweep find a stream that will end. */
function expiryOps(slot: Slot, record: StreamRecord, nowMs: number): HotOp[] {
  const endsAtMs = record.expiresAtMs ?? (record.ttl === null ? Infinity : nowMs + ttlMs(record.ttl));
  if (!Number.isSafeInteger(Math.ceil(endsAtMs))) return [];
  return [{ type: 'put', key: expiryRow.key(slot.partition, Math.max(0, Math.ceil(endsAtMs)), slot.slot, slot.key), value: Buffer.alloc(0) }];
}
