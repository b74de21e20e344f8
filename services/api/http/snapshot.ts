/**
 * Snapshots over HTTP: publish and read (requirements section 18), and the cacheable read (section 24).
 */
import type { IncomingMessage } from 'node:http';
import { OCTET_STREAM, parseContentType } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { matchesIfNoneMatch, snapshotTag } from '../../../shared/protocol/etag.js';
import { parsePathIncarnation } from '../../../shared/protocol/incarnation.js';
import { formatOffset, parseExactOffset, parsePathOffset } from '../../../shared/protocol/offsets.js';
import type { Offset } from '../../../shared/protocol/types.js';
import type { Precondition, PublishOutcome, SnapshotRead } from '../log/types.js';
import { answerBody, departure } from './answer-body.js';
import type { Bodies, BodyLimit } from './body.js';
import { declaredWithin } from './body.js';
import { IMMUTABLE } from './caching.js';
import { answer } from './errors.js';
import type { Exchange } from './exchange.js';
import { parseRange } from './range-header.js';
import { preconditionOf } from './request-headers.js';
import type { Route } from './routes.js';

/** `PUT …/snapshot/{offset}`: the body streams into the log (SNAP-01, SNAP-23). */
export async function publishSnapshot(exchange: Exchange, route: Route, bodies: Bodies, limit: BodyLimit): Promise<void> {
  exchange.routeClass = 'snapshot-put';
  const { req, deps } = exchange;
  const declared = declaredWithin(req, limit);
  const offset = parsePathOffset(route.rawOffset);
  const precondition = preconditionOf(req.headers);
  const contentType = snapshotType(req);
  const refusal = deps.log.refusingWrites(route.key!);
  if (refusal !== null) throw refusal;
  try {
    const outcome = await deps.log.publishSnapshot({
      key: route.key!, precondition, offset, contentType, declaredBytes: declared, body: bodies.readPieces(exchange, limit, declared),
    });
    answerPublish(exchange, outcome);
  } finally {
    bodies.release(exchange);
  }
}

/** 204, also before the body was read. */
export function answerPublish(exchange: Exchange, { record, offset, digest }: PublishOutcome): void {
  const headers = ['Stream-Snapshot-Offset', formatOffset(offset), 'Stream-Snapshot-Digest', digest, 'Stream-Incarnation', String(record.incarnation), 'Cache-Control', 'no-store'];
  answer(exchange, 204, headers, null);
}

/** `Content-Type` of a snapshot as it is kept. Throws what a malformed one is answered with (SNAP-15). */
export function snapshotType({ headers }: IncomingMessage): string {
  const text = headers['content-type'];
  return text === undefined ? OCTET_STREAM : parseContentType(text);
}

/** `GET …/snapshot/{offset}` (SNAP-24 .. SNAP-27, SNAP-34). */
export async function getSnapshot(exchange: Exchange, route: Route): Promise<void> {
  exchange.routeClass = 'snapshot-get';
  const offset = parsePathOffset(route.rawOffset);
  await answerSnapshot(exchange, route, offset, preconditionOf(exchange.req.headers), false);
}

/** `GET …/incarnation/{token}/snapshot/{offset}` (CINC-02, CINC-10). */
export async function getIncarnationSnapshot(exchange: Exchange, route: Route): Promise<void> {
  exchange.routeClass = 'snapshot-get';
  if (route.query !== null) throw new FirnError('QUERY_NOT_ACCEPTED');
  const token = parsePathIncarnation(route.rawToken);
  const offset = parseExactOffset(route.rawOffset);
  await answerSnapshot(exchange, route, offset, token, true);
}

/** The order is 404, 416, 412, 304 (SNAP-34): so the token is compared here, with the very state that was read. */
async function answerSnapshot(exchange: Exchange, route: Route, offset: Offset, token: Precondition, cacheable: boolean): Promise<void> {
  const { req, deps } = exchange;
  const read = await deps.log.readSnapshot(route.key!, null, offset);
  const { record, snapshot } = read;
  // A range under a condition that we do not evaluate asks for the whole.
  const range = parseRange(req.headers['if-range'] === undefined ? req.headers.range : undefined, snapshot.bytes);
  const incarnation = String(record.incarnation);
  if (range.kind === 'outside') {
    throw new FirnError('RANGE_NOT_SATISFIABLE', { headers: { 'Content-Range': `bytes */${snapshot.bytes}`, 'Stream-Incarnation': incarnation } });
  }
  if (token !== null && token !== record.incarnation) throw new FirnError('INCARNATION_MISMATCH', { headers: { 'Stream-Incarnation': incarnation } });
  const headers = snapshotHeaders(exchange, read, cacheable);
  if (matchesIfNoneMatch(req.headers['if-none-match'], snapshotTag(snapshot.digest))) {
    exchange.empty(304, headers);
    return;
  }
  headers.push('Content-Type', snapshot.contentType);
  if (range.kind === 'whole') {
    await answerBody(exchange, 200, headers, snapshot.bytes, () => read.body(0, snapshot.bytes, departure(exchange.res)));
    return;
  }
  headers.push('Content-Range', `bytes ${range.from}-${range.from + range.length - 1}/${snapshot.bytes}`);
  await answerBody(exchange, 206, headers, range.length, () => read.body(range.from, range.length, departure(exchange.res)));
}

function snapshotHeaders(exchange: Exchange, { record, snapshot }: SnapshotRead, cacheable: boolean): string[] {
  const headers = [
    'Stream-Snapshot-Offset', formatOffset(snapshot.offset), 'Stream-Snapshot-Digest', snapshot.digest, 'Stream-Next-Offset', formatOffset(snapshot.offset),
    'Stream-Incarnation', String(record.incarnation), 'ETag', snapshotTag(snapshot.digest), 'Accept-Ranges', 'bytes',
  ];
  if (!cacheable) {
    headers.push('Cache-Control', 'no-store');
    if (snapshot.offset === record.tail) headers.push('Stream-Up-To-Date', 'true');
    return headers;
  }
  // Before a log record names it, a restore from a remote store could take the publish back (architecture section 6).
  if (exchange.deps.config.cold === 's3' && snapshot.cold === null) headers.push('Cache-Control', 'no-store');
  else headers.push('Stream-Immutable', 'true', 'Cache-Control', IMMUTABLE);
  return headers;
}
