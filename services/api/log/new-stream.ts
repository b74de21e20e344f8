/**
 * What plain creates and forks share: the record of a new stream, its first bytes, and the answer to a repeated PUT.
 */
import { isJson, OCTET_STREAM, sameMediaType } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { normalizeMessages } from '../../../shared/protocol/json-text.js';
import { ttlMs } from '../../../shared/protocol/ttl.js';
import { ZERO, type Incarnation } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { expiryRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { checkIncarnation, refusal, renew, type LogContext } from './context.js';
import type { Slot } from './slot.js';
import type { CreateOutcome, CreateRequest } from './types.js';

/** A repeated PUT: configuration only is compared, the body is never looked at but for its syntax (CRE-02 .. CRE-04, CRE-21). */
export async function confirm(ctx: LogContext, slot: Slot, found: StreamRecord, request: CreateRequest): Promise<CreateOutcome> {
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

/** A stream without a byte. */
export function newRecord(incarnation: Incarnation, request: CreateRequest, contentType: string, nowMs: number): StreamRecord {
  return {
    incarnation,
    contentType,
    createdAtMs: nowMs,
    tail: ZERO,
    retained: ZERO,
    sealed: ZERO,
    hotStart: ZERO,
    closed: request.closed,
    closedBy: null,
    ttl: request.ttl,
    expiresAtMs: request.expiresAtMs,
    touchedAtMs: nowMs,
    lastSeq: request.dialect === 'bucketed' ? request.seq : null,
    producers: 0,
    producerFloor: -1,
    snapshot: null,
    change: 0,
    loggedChange: 0,
    origin: null,
    forks: 0,
    softDeleted: false,
  };
}

/** A path that was deleted is free once the last fork of its stream is gone (FORK-24, FORK-26). Throws STREAM_ALREADY_EXISTS_CONFLICT. */
export function refuseSoftDeleted(slot: Slot): void {
  if (slot.pending?.softDeleted === true) throw new FirnError('STREAM_ALREADY_EXISTS_CONFLICT', { detail: 'the stream was deleted, and its forks keep its path' });
}

/** The bytes to store: JSON in its stored form, everything else as it came. Throws INVALID_RECORD_BOUNDARIES. */
export function messagesOf(request: CreateRequest, contentType: string): Buffer {
  return request.body.length > 0 && isJson(contentType) ? normalizeMessages(request.body, 'allowed') : request.body;
}

/** A create with a body is an append too, one without is none. */
export function countFirstBytes({ metrics }: LogContext, payload: Buffer): void {
  if (payload.length === 0) return;
  metrics.appends.add();
  metrics.appendBytes.add(payload.length);
}

/** The row that lets the sweep find a stream that will end. */
export function expiryOps(slot: Slot, record: StreamRecord, nowMs: number): HotOp[] {
  const endsAtMs = record.expiresAtMs ?? (record.ttl === null ? Infinity : nowMs + ttlMs(record.ttl));
  if (!Number.isSafeInteger(Math.ceil(endsAtMs))) return [];
  return [{ type: 'put', key: expiryRow.key(slot.partition, Math.max(0, Math.ceil(endsAtMs)), slot.slot, slot.key), value: Buffer.alloc(0) }];
}
