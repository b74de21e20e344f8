/**
 * Append and close (POST): requirements sections 3, 4, 13, 14 and the order of checks in ERR-14.
 *
 * A write is judged against the pending state and staged in the same turn. What refuses it, or makes it a repeat, may rest on a write that is
 * not durable yet: the answer then waits for it (I2).
 */
import { isJson, sameMediaType } from '../../../shared/protocol/content-type.js';
import { contentDigest } from '../../../shared/protocol/digest.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { normalizeMessages } from '../../../shared/protocol/json-text.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import { judgeProducer, nextProducerRecord } from '../../../shared/protocol/producers.js';
import { advance, type StreamKey } from '../../../shared/protocol/types.js';
import { copyStreamRecord } from '../../../shared/storage/records/stream-record.js';
import type { ProducerRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { checkIncarnation, checkWritable, missing, pendingOf, refusal, refuseSettled, renew, type LogContext } from './context.js';
import { refusalOf } from './failures.js';
import { PRODUCER_FORGET_MS, PRODUCERS_MAX } from './limits.js';
import { forgetIdleProducers } from './producers-forget.js';
import type { Slot } from './slot.js';
import type { AppendOutcome, AppendRequest, ProducerClaim } from './types.js';

type Verdict = ReturnType<typeof judgeProducer>;

/** What a write comes to: a staged change to wait for, or an answer that rests on what is already staged. */
interface Decision {
  readonly done: Promise<void>;
  readonly outcome: AppendOutcome;
}

/** The hottest path: one turn without an await up to the staging when the stream's state is in memory and no producer has to be looked up. */
export async function append(ctx: LogContext, request: AppendRequest): Promise<AppendOutcome> {
  const slot = ctx.core.acquireLoaded(request.key) ?? (await loaded(ctx, request.key));
  try {
    const decision = judgeNow(ctx, slot, request, false) ?? (await judgeLater(ctx, slot, request, request.producer!));
    await decision.done;
    return decision.outcome;
  } catch (error) {
    return await refuseSettled(ctx, slot, refusalOf(ctx, request.key, error));
  } finally {
    ctx.core.release(slot);
  }
}

async function loaded(ctx: LogContext, key: StreamKey): Promise<Slot> {
  try {
    return await ctx.core.acquire(key);
  } catch (error) {
    throw refusalOf(ctx, key, error);
  }
}

/** Judges by what is in memory; null: the producer has to be looked up, or room to be made for it. `roomMade`: that was tried. */
function judgeNow(ctx: LogContext, slot: Slot, request: AppendRequest, roomMade: boolean): Decision | null {
  const record = pendingOf(ctx, slot);
  if (record === null) throw missing(ctx, slot);
  const { producer } = request;
  if (producer === null) return judge(ctx, slot, record, request, null, null);
  const known = slot.producers?.get(producer.id);
  if (known === undefined) return null;
  const forgotten = known !== null && known.lastAtMs + PRODUCER_FORGET_MS < ctx.now();
  if ((known === null || forgotten) && record.producers >= PRODUCERS_MAX && !roomMade) return null;
  return judge(ctx, slot, record, request, forgotten ? null : known, forgotten ? known : null);
}

async function judgeLater(ctx: LogContext, slot: Slot, request: AppendRequest, producer: ProducerClaim): Promise<Decision> {
  let roomMade = false;
  for (;;) {
    const record = pendingOf(ctx, slot);
    if (record === null) throw missing(ctx, slot);
    if (slot.producers?.get(producer.id) === undefined) {
      await ctx.core.producer(slot, record.incarnation, producer.id);
    } else {
      await forgetIdleProducers(ctx, slot, record.incarnation);
      roomMade = true;
    }
    const decision = judgeNow(ctx, slot, request, roomMade);
    if (decision !== null) return decision;
  }
}

/**
 * What the producer's record alone settles, before a body is read: a repeat, or a refusal of its key. null: the body is needed. Only for a claim
 * that names the incarnation.
 */
export async function answerEarly(ctx: LogContext, request: Omit<AppendRequest, 'body'>): Promise<AppendOutcome | null> {
  const { producer, precondition } = request;
  if (producer === null || precondition === null) return null;
  return ctx.core.using(request.key, async (slot) => {
    // Forgotten producers and closed streams have more rules: those writes are judged with their body.
    const seen = pendingOf(ctx, slot);
    if (seen === null || seen.closed) return null;
    const known = await ctx.core.producer(slot, seen.incarnation, producer.id);
    const record = pendingOf(ctx, slot);
    if (known === null || record === null || record.closed || record.incarnation !== precondition || known.lastAtMs + PRODUCER_FORGET_MS < ctx.now()) return null;
    const verdict = judgeProducer({ record: slot.producers?.get(producer.id) ?? known, floor: record.producerFloor, claim: producer, tokened: true });
    if (verdict.kind === 'apply') return null;
    await ctx.core.settled(slot);
    if (verdict.kind === 'duplicate') return repeat(ctx, slot, record, { ...request, body: EMPTY_BODY }, known, verdict.newest).outcome;
    if (verdict.error.code === 'PRODUCER_KEY_CONFLICT') throw withToken(verdict.error, record);
    return null;
  });
}

const EMPTY_BODY = Buffer.alloc(0);

/** Runs in one turn: nothing may be awaited between the look at `record` and the staging. */
function judge(ctx: LogContext, slot: Slot, record: StreamRecord, request: AppendRequest, known: ProducerRecord | null, forgotten: ProducerRecord | null): Decision {
  const { producer } = request;
  const floor = forgotten === null ? record.producerFloor : Math.max(record.producerFloor, forgotten.epoch);
  const verdict = producer === null ? null : judgeProducer({ record: known, floor, claim: producer, tokened: request.precondition !== null });
  if (verdict?.kind === 'duplicate' && repeatAnswered(record, request)) return repeat(ctx, slot, record, request, known!, verdict.newest);
  if (record.closed) return onClosed(ctx, slot, record, request, verdict);
  const payload = payloadOf(record, request);
  if (verdict?.kind === 'refuse') throw withToken(verdict.error, record);
  if (producer !== null && producer.digest !== null && contentDigest(request.body) !== producer.digest) throw refusal(record, 'PRODUCER_DIGEST_MISMATCH');
  checkSeq(record, request.seq);
  checkIncarnation(record, request.precondition);
  checkWritable(ctx, slot.partition);
  if (producer !== null && known === null && record.producers >= PRODUCERS_MAX && forgotten === null) throw refusal(record, 'PRODUCER_LIMIT');
  return apply(ctx, slot, record, request, payload, known, forgotten, floor);
}

function apply(ctx: LogContext, slot: Slot, record: StreamRecord, request: AppendRequest, payload: Buffer, known: ProducerRecord | null, forgotten: ProducerRecord | null, floor: number): Decision {
  const { producer } = request;
  const now = ctx.now();
  const range = { start: record.tail, end: advance(record.tail, payload.length) };
  const next = copyStreamRecord(record);
  next.tail = range.end;
  next.closed = request.close;
  if (request.close && producer !== null) next.closedBy = { producerId: producer.id, epoch: producer.epoch, seq: producer.seq };
  if (request.seq !== null) next.lastSeq = request.seq;
  if (record.ttl !== null) next.touchedAtMs = now;
  if (producer !== null && known === null && forgotten === null) next.producers++;
  next.producerFloor = floor;
  if (record.ttl !== null) slot.touchedAtMs = now;
  const producerAfter = producer === null ? null : nextProducerRecord(known, producer, range, request.close, now);
  const done = ctx.core.stage({
    slot,
    next,
    append: payload.length > 0 ? { payload, atMs: now } : undefined,
    producer: producerAfter === null ? undefined : { id: producer!.id, record: producerAfter },
  });
  ctx.metrics.appends.add();
  ctx.metrics.appendBytes.add(payload.length);
  return {
    done,
    outcome: {
      kind: 'applied',
      record: next,
      range,
      closedHere: request.close,
      producer: producerAfter,
      replacedEpoch: known !== null && producer !== null && producer.epoch > known.epoch,
    },
  };
}

/** On the base surface a closed stream knows only its closing tuple (CLO-13, CLO-17). */
function repeatAnswered(record: StreamRecord, request: AppendRequest): boolean {
  return request.dialect === 'bucketed' || !record.closed || isClosing(record, request.producer);
}

function isClosing(record: StreamRecord, producer: ProducerClaim | null): boolean {
  const by = record.closedBy;
  return by !== null && producer !== null && by.producerId === producer.id && by.epoch === producer.epoch && by.seq === producer.seq;
}

/** A write that is on record already: nothing is appended (PROD-06, PROD-24, INC-20). */
function repeat(ctx: LogContext, slot: Slot, record: StreamRecord, request: AppendRequest, known: ProducerRecord, newest: boolean): Decision {
  checkIncarnation(record, request.precondition);
  renew(ctx, slot, record);
  return {
    done: ctx.core.settled(slot),
    outcome: {
      kind: 'duplicate',
      record,
      range: newest ? { start: known.lastStart, end: known.lastEnd } : null,
      closedHere: isClosing(record, request.producer),
      producer: known,
      replacedEpoch: request.producer!.seq === 0 && known.closedEpoch >= 0,
    },
  };
}

/** Requirements CLO-02, CLO-04, CLO-13, CLO-16, CLO-18: the closed signal is never hidden. */
function onClosed(ctx: LogContext, slot: Slot, record: StreamRecord, request: AppendRequest, verdict: Verdict | null): Decision {
  const closedHeaders = { 'Stream-Closed': 'true', 'Stream-Next-Offset': formatOffset(record.tail) };
  if (verdict?.kind === 'refuse' && verdict.error.status === 403) throw withToken(verdict.error, record, { 'Stream-Closed': 'true' });
  const closeOnly = request.close && request.body.length === 0;
  if (!closeOnly || request.producer !== null) throw refusal(record, 'STREAM_CLOSED', closedHeaders);
  checkIncarnation(record, request.precondition);
  renew(ctx, slot, record);
  return {
    done: ctx.core.settled(slot),
    outcome: { kind: 'duplicate', record, range: { start: record.tail, end: record.tail }, closedHere: true, producer: null, replacedEpoch: false },
  };
}

/** The bytes to store, after the checks of content type and body (APP-04 .. APP-07, APP-14 .. APP-16, CLO-05, CLO-15). */
function payloadOf(record: StreamRecord, request: AppendRequest): Buffer {
  if (request.body.length === 0) {
    if (request.close) return request.body;
    throw refusal(record, 'EMPTY_APPEND');
  }
  if (request.contentType === null) throw refusal(record, 'MISSING_CONTENT_TYPE');
  if (!sameMediaType(record.contentType, request.contentType)) throw refusal(record, 'CONTENT_TYPE_MISMATCH');
  if (!isJson(record.contentType)) return request.body;
  try {
    return normalizeMessages(request.body, 'refused');
  } catch (error) {
    throw error instanceof FirnError ? withToken(error, record) : error;
  }
}

/** Bytewise, values are visible ASCII (SEQ-01, SEQ-02). */
function checkSeq(record: StreamRecord, seq: string | null): void {
  if (seq === null || record.lastSeq === null || seq > record.lastSeq) return;
  throw refusal(record, 'STREAM_SEQ_CONFLICT', { 'Stream-Last-Seq': record.lastSeq, 'Stream-Next-Offset': formatOffset(record.tail) });
}

function withToken(error: FirnError, record: StreamRecord, headers: Record<string, string> = {}): FirnError {
  Object.assign(error.headers, headers, { 'Stream-Incarnation': String(record.incarnation) });
  return error;
}
