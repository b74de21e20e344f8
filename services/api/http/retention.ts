/**
 * `PUT …/retention/{offset}`: the earliest readable offset (requirements section 19).
 */
import { formatOffset, parsePathOffset } from '../../../shared/protocol/offsets.js';
import type { Exchange } from './exchange.js';
import { preconditionOf } from './request-headers.js';
import type { Route } from './routes.js';

export async function retain(exchange: Exchange, route: Route): Promise<void> {
  exchange.routeClass = 'retention';
  const { deps, req } = exchange;
  const offset = parsePathOffset(route.rawOffset);
  const precondition = preconditionOf(req.headers);
  const refusal = deps.log.refusingWrites(route.key!);
  if (refusal !== null) throw refusal;
  const record = await deps.log.retain(route.key!, precondition, offset);
  exchange.empty(204, ['Stream-Retained-Offset', formatOffset(record.retained), 'Stream-Incarnation', String(record.incarnation), 'Cache-Control', 'no-store']);
}
