/**
 * Snapshots in parts over HTTP: upload of a part, commit, discard.
 */
import type { IncomingMessage } from 'node:http';
import { FirnError } from '../../../shared/protocol/errors.js';
import { parsePathOffset } from '../../../shared/protocol/offsets.js';
import type { Bodies, BodyLimit } from './body.js';
import { declaredWithin } from './body.js';
import { answer } from './errors.js';
import type { Exchange } from './exchange.js';
import { COMMIT_PARTS_MAX, PARTS_LIST_BYTES_MAX } from './limits.js';
import { preconditionOf } from './request-headers.js';
import type { Route } from './routes.js';
import { answerPublish, snapshotType } from './snapshot.js';
import { parsePartsList } from './snapshot-parts-list.js';

const COUNT = /^[1-9][0-9]{0,3}$/;
const DIGEST = /^[0-9a-f]{64}$/;
const LIST_LIMIT: BodyLimit = { bytes: PARTS_LIST_BYTES_MAX, code: 'REQUEST_TOO_LARGE', header: 'Ursula-Max-Request-Bytes' };

/** `POST …/snapshot/{offset}/parts`: the body is one part, and streams into the log. */
export async function uploadPart(exchange: Exchange, route: Route, bodies: Bodies, limit: BodyLimit): Promise<void> {
  exchange.routeClass = 'snapshot-put';
  const { req, deps } = exchange;
  const declared = declaredWithin(req, limit);
  const offset = parsePathOffset(route.rawOffset);
  const precondition = preconditionOf(req.headers);
  refuseUnwritable(exchange, route);
  try {
    const { id, record } = await deps.log.stagePart({ key: route.key!, precondition, offset, declaredBytes: declared, body: bodies.readPieces(exchange, limit, declared) });
    exchange.empty(201, ['Stream-Snapshot-Part', id, 'Stream-Incarnation', String(record.incarnation), 'Cache-Control', 'no-store', 'Content-Length', '0']);
  } finally {
    bodies.release(exchange);
  }
}

/** Whether a PUT of a snapshot lists parts and does not bring the snapshot itself. */
export function listsParts({ headers }: IncomingMessage): boolean {
  return headers['stream-snapshot-parts'] !== undefined;
}

/** `PUT …/snapshot/{offset}` with `Stream-Snapshot-Parts`: the body lists staged parts. What was begun is finished, whether the client stays or not. */
export async function commitParts(exchange: Exchange, route: Route, bodies: Bodies): Promise<void> {
  exchange.routeClass = 'snapshot-put';
  const { req, deps } = exchange;
  const declared = declaredWithin(req, LIST_LIMIT);
  const offset = parsePathOffset(route.rawOffset);
  const precondition = preconditionOf(req.headers);
  const contentType = snapshotType(req);
  const { count, digest } = commitOf(req);
  refuseUnwritable(exchange, route);
  const ids = async (): Promise<readonly string[]> => {
    try {
      return parsePartsList(await bodies.readWhole(exchange, LIST_LIMIT, declared), count);
    } finally {
      bodies.release(exchange);
    }
  };
  answerPublish(exchange, await deps.log.commitParts({ key: route.key!, precondition, offset, contentType, digest, ids }));
}

/** Throws INVALID_PARTS_COMMIT. */
function commitOf({ headers }: IncomingMessage): { readonly count: number; readonly digest: string } {
  const countText = headers['stream-snapshot-parts'] as string;
  const digest = headers['stream-snapshot-digest'] as string | undefined;
  if (!COUNT.test(countText) || Number(countText) > COMMIT_PARTS_MAX) throw new FirnError('INVALID_PARTS_COMMIT', { detail: `stream-snapshot-parts is a number from 1 to ${COMMIT_PARTS_MAX}` });
  if (digest === undefined || !DIGEST.test(digest)) throw new FirnError('INVALID_PARTS_COMMIT', { detail: 'stream-snapshot-digest is 64 lower-case hex digits, and needed with stream-snapshot-parts' });
  return { count: Number(countText), digest };
}

/** `DELETE …/snapshot/parts`: drops every staged part of the stream. Takes no room, so a full disk does not refuse it. */
export async function discardParts(exchange: Exchange, route: Route): Promise<void> {
  exchange.routeClass = 'snapshot-put';
  const record = await exchange.deps.log.discardParts(route.key!, preconditionOf(exchange.req.headers));
  answer(exchange, 204, ['Stream-Incarnation', String(record.incarnation), 'Cache-Control', 'no-store'], null);
}

function refuseUnwritable({ deps }: Exchange, route: Route): void {
  const refusal = deps.log.refusingWrites(route.key!);
  if (refusal !== null) throw refusal;
}
