/**
 * PUT: create a stream (requirements section 2), and the bucket route that only looks at its id.
 */
import { parseContentType } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import { formatExpiresAt } from '../../../shared/protocol/ttl.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import type { Bodies, BodyLimit } from './body.js';
import { declaredWithin } from './body.js';
import type { Exchange } from './exchange.js';
import { forkOf } from './fork-headers.js';
import { originOf } from './origin.js';
import { closesStream, lifetimeOf, namesProducer, preconditionOf, seqOf } from './request-headers.js';
import type { Route } from './routes.js';

const NO_BODY = Buffer.alloc(0);
const UNSAFE_IN_LOCATION = /[\x80-\xff]/g;

/** `PUT /{bucket}`: 201 for a valid id, whatever there is (BKT-01, BKT-03). The id was checked with the route. */
export function createBucket(exchange: Exchange): void {
  exchange.routeClass = 'bucket';
  exchange.empty(201, ['Content-Length', '0', 'Cache-Control', 'no-store']);
}

export async function create(exchange: Exchange, route: Route, bodies: Bodies, limit: BodyLimit): Promise<void> {
  exchange.routeClass = 'create';
  const { req, deps } = exchange;
  const { headers } = req;
  const declared = declaredWithin(req, limit);
  const bucketed = route.dialect === 'bucketed';
  // A key that is ignored would look like one that protects (CRE-23).
  if (bucketed && namesProducer(headers)) throw new FirnError('INVALID_PRODUCER', { detail: 'a create takes no producer headers' });
  const precondition = preconditionOf(headers);
  const fork = forkOf(headers);
  const lifetime = lifetimeOf(headers);
  const seq = bucketed ? seqOf(req) : null;
  const contentType = headers['content-type'] === undefined ? null : parseContentType(headers['content-type']);
  const refusal = deps.log.refusingWrites(route.key!);
  if (refusal !== null) throw refusal;
  try {
    const body = declared === 0 ? NO_BODY : await bodies.readWhole(exchange, limit, declared);
    const outcome = await deps.log.create({
      key: route.key!, dialect: route.dialect, precondition, contentType, ttl: lifetime.ttl, expiresAtMs: lifetime.expiresAtMs, closed: closesStream(headers), seq, body, fork,
    });
    answerCreate(exchange, route, outcome.created, outcome.record);
  } finally {
    if (exchange.heldBytes > 0) bodies.release(exchange);
  }
}

function answerCreate(exchange: Exchange, route: Route, created: boolean, record: StreamRecord): void {
  const headers = [
    'Content-Type', record.contentType, 'Stream-Next-Offset', formatOffset(record.tail), 'Location', locationOf(exchange, route),
    'Stream-Incarnation', String(record.incarnation), 'Cache-Control', 'no-store', 'Content-Length', '0',
  ];
  lifetimeHeaders(record, headers);
  if (record.closed) headers.push('Stream-Closed', 'true');
  exchange.empty(created ? 201 : 200, headers);
}

/** `Stream-TTL` or `Stream-Expires-At` where configured (HD-04). */
export function lifetimeHeaders(record: StreamRecord, headers: string[]): void {
  if (record.ttl !== null) headers.push('Stream-TTL', record.ttl);
  if (record.expiresAtMs !== null) headers.push('Stream-Expires-At', formatExpiresAt(record.expiresAtMs));
}

/** The stream's URL as the client wrote it (CRE-10): absolute when an origin is known. */
function locationOf(exchange: Exchange, route: Route): string {
  const path = route.path.replace(UNSAFE_IN_LOCATION, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`);
  return (originOf(exchange) ?? '') + path;
}
