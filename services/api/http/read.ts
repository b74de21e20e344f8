/**
 * GET of a stream: parsing of a read, and the way into live reads (requirements sections 7, 8, 9).
 */
import type { Exchange } from './exchange.js';
import type { LiveReads } from './live-read.js';
import { parseReadQuery } from './query.js';
import { preconditionOf } from './request-headers.js';
import type { Route } from './routes.js';
import { answerWindow, cutOf } from './window.js';

export async function read(exchange: Exchange, route: Route, live: LiveReads): Promise<void> {
  exchange.routeClass = 'read';
  const { headers } = exchange.req;
  const query = parseReadQuery(route.query, route.dialect);
  const precondition = preconditionOf(headers);
  if (query.live !== null) {
    await live.open(exchange, route, query, precondition);
    return;
  }
  const from = query.offset ?? 'start';
  const window = await exchange.deps.log.read({ key: route.key!, precondition, from, maxBytes: query.maxBytes, cut: cutOf(route.dialect) });
  if (from === 'now') await answerWindow(exchange, route.dialect, window, { cursor: null, positional: false, revalidate: false });
  else await answerWindow(exchange, route.dialect, window, { cursor: null, positional: true, revalidate: true });
}
