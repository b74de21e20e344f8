/**
 * POST: append, append and close, close (requirements sections 3, 4, 13, 14).
 *
 * Owns: parsing and rendering of appends on both surfaces; the log decides. Promises: nothing is read of a body that cannot be taken;
 * the answer is written after the log made the write durable (I2).
 */
import { parseContentType } from '../../../shared/protocol/content-type.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import type { AppendOutcome, AppendRequest } from '../log/types.js';
import type { Bodies, BodyLimit } from './body.js';
import { declaredWithin, unreadBytes } from './body.js';
import { answer } from './errors.js';
import type { Exchange } from './exchange.js';
import { closesStream, preconditionOf, producerOf, seqOf } from './request-headers.js';
import type { Route } from './routes.js';

/** Answers to an append that changed or would have changed nothing but the stream's own state. */
export async function append(exchange: Exchange, route: Route, bodies: Bodies, limit: BodyLimit): Promise<void> {
  const { req, deps } = exchange;
  const { headers } = req;
  const close = closesStream(headers);
  exchange.routeClass = close ? 'close' : 'append';
  const declared = declaredWithin(req, limit);
  const precondition = preconditionOf(headers);
  const producer = producerOf(req, route.dialect);
  const seq = seqOf(req);
  const typeText = headers['content-type'];
  // A close without a body is never refused for its type (CLO-05), so the type waits for the body.
  let contentType = typeText === undefined || close ? null : parseContentType(typeText);
  const key = route.key!;
  const refusal = deps.log.refusingWrites(key);
  if (refusal !== null) throw refusal;
  const early = producer !== null && precondition !== null && (req.headers.expect !== undefined || (declared ?? 0) >= EARLY_ANSWER_BYTES)
    ? await deps.log.answerEarly({ key, dialect: route.dialect, precondition, contentType, producer, seq, close })
    : null;
  if (early !== null) {
    const request = { key, dialect: route.dialect, precondition, contentType, producer, seq, close, body: NO_BODY };
    if (route.dialect === 'bucketed') answerBucketed(exchange, request, early);
    else answerBase(exchange, request, early);
    return;
  }
  try {
    const body = declared === 0 ? NO_BODY : await bodies.readWhole(exchange, limit, declared);
    if (close && body.length > 0 && typeText !== undefined) contentType = parseContentType(typeText);
    const request: AppendRequest = { key, dialect: route.dialect, precondition, contentType, producer, seq, close, body };
    const outcome = await deps.log.append(request);
    if (route.dialect === 'bucketed') answerBucketed(exchange, request, outcome);
    else answerBase(exchange, request, outcome);
  } finally {
    if (exchange.heldBytes > 0) bodies.release(exchange);
  }
}

const NO_BODY = Buffer.alloc(0);
/** Declared length from which a repeat is answered without reading its body. */
const EARLY_ANSWER_BYTES = 65_536;

/** 200 for a keyed write that brought bytes, else 204 (APP-01, PROD-04, CLO-12). */
function statusOf(request: AppendRequest, outcome: AppendOutcome): number {
  return request.producer !== null && outcome.kind === 'applied' && request.body.length > 0 ? 200 : 204;
}

function answerBucketed(exchange: Exchange, request: AppendRequest, outcome: AppendOutcome): void {
  const { record } = outcome;
  const headers = ['Stream-Incarnation', String(record.incarnation), 'Cache-Control', 'no-store'];
  if (request.producer === null) {
    headers.push('Stream-Next-Offset', formatOffset(record.tail));
    if (record.closed) headers.push('Stream-Closed', 'true');
  } else {
    producerHeaders(outcome, headers);
    // A receipt says where this very write lies, or that this is no longer known (PROD-24).
    if (outcome.range === null) headers.push('Producer-Outcome', 'receipt-evicted');
    else headers.push('Stream-Offset', formatOffset(outcome.range.start), 'Stream-Next-Offset', formatOffset(outcome.range.end));
    if (outcome.closedHere) headers.push('Stream-Closed', 'true');
  }
  finish(exchange, statusOf(request, outcome), headers);
}

function answerBase(exchange: Exchange, request: AppendRequest, outcome: AppendOutcome): void {
  const { record } = outcome;
  const headers = ['Stream-Next-Offset', formatOffset(record.tail), 'Stream-Incarnation', String(record.incarnation), 'Cache-Control', 'no-store'];
  if (request.producer !== null) producerHeaders(outcome, headers);
  if (record.closed) headers.push('Stream-Closed', 'true');
  finish(exchange, statusOf(request, outcome), headers);
}

/** A 200 states that it has no body; a 204 cannot have one. */
function finish(exchange: Exchange, status: number, headers: string[]): void {
  if (status === 200) headers.push('Content-Length', '0');
  if (unreadBytes(exchange.req) > 0) answer(exchange, status, headers, null);
  else exchange.empty(status, headers);
}

/** Epoch and highest accepted seq; with a replaced epoch where that one ended (PROD-12, PROD-23). */
function producerHeaders(outcome: AppendOutcome, headers: string[]): void {
  const { producer } = outcome;
  if (producer === null) throw new Error('a keyed write has a producer record');
  headers.push('Producer-Epoch', String(producer.epoch), 'Producer-Seq', String(producer.lastSeq));
  if (outcome.replacedEpoch) headers.push('Producer-Closed-Epoch', String(producer.closedEpoch), 'Producer-Closed-Seq', String(producer.closedSeq));
}
