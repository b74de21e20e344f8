/**
 * HEAD and DELETE of a stream (requirements sections 5, 6).
 */
import { formatOffset } from '../../../shared/protocol/offsets.js';
import { lifetimeHeaders } from './create.js';
import type { Exchange } from './exchange.js';
import { preconditionOf } from './request-headers.js';
import type { Route } from './routes.js';

/** Metadata of a stream; on the bucketed surface also its snapshot and retention (HD-07 .. HD-09). */
export async function head(exchange: Exchange, route: Route): Promise<void> {
  exchange.routeClass = 'head';
  const { deps, req } = exchange;
  const record = await deps.log.head(route.key!, preconditionOf(req.headers));
  const headers = [
    'Content-Type', record.contentType, 'Stream-Next-Offset', formatOffset(record.tail), 'Stream-Incarnation', String(record.incarnation),
    'Stream-Retained-Offset', formatOffset(record.retained), 'Stream-Up-To-Date', 'true', 'Cache-Control', 'no-store',
  ];
  if (record.closed) headers.push('Stream-Closed', 'true');
  lifetimeHeaders(record, headers);
  if (route.dialect === 'bucketed') {
    if (record.snapshot !== null) headers.push('Stream-Snapshot-Offset', formatOffset(record.snapshot.offset), 'Stream-Snapshot-Digest', record.snapshot.digest);
    headers.push('Stream-Cold-Hot-Start-Offset', formatOffset(record.sealed), 'Ursula-Max-Request-Bytes', String(deps.config.requestBytesMax));
    if (deps.config.cold !== 'none') headers.push('Ursula-Max-Snapshot-Bytes', String(deps.config.snapshotBytesMax));
  }
  exchange.empty(200, headers);
}

/** 204 with the token that was deleted (DEL-01, DEL-08). */
export async function remove(exchange: Exchange, route: Route): Promise<void> {
  exchange.routeClass = 'delete';
  const incarnation = await exchange.deps.log.delete(route.key!, preconditionOf(exchange.req.headers));
  exchange.empty(204, ['Stream-Incarnation', String(incarnation), 'Cache-Control', 'no-store']);
}
