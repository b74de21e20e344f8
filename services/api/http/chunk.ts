/**
 * `GET …/incarnation/{token}/chunk/{offset}`: ranges that a cache can keep (requirements section 24).
 *
 * Promises: a marked answer is the same for ever; every other one is `no-store`; a chunk ends on the grid or at the tail.
 */
import { isJson, NDJSON } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { matchesIfNoneMatch, rangeTag } from '../../../shared/protocol/etag.js';
import { parsePathIncarnation } from '../../../shared/protocol/incarnation.js';
import { formatOffset, parseExactOffset } from '../../../shared/protocol/offsets.js';
import type { ReadWindow } from '../log/types.js';
import { answerBody, departure } from './answer-body.js';
import { IMMUTABLE } from './caching.js';
import type { Exchange } from './exchange.js';
import { CHUNK_GRID_BYTES } from './limits.js';
import type { Route } from './routes.js';

export async function getChunk(exchange: Exchange, route: Route): Promise<void> {
  exchange.routeClass = 'chunk';
  if (route.query !== null) throw new FirnError('QUERY_NOT_ACCEPTED');
  const token = parsePathIncarnation(route.rawToken);
  const offset = parseExactOffset(route.rawOffset);
  const maxBytes = CHUNK_GRID_BYTES - (offset % CHUNK_GRID_BYTES);
  const window = await exchange.deps.log.read({ key: route.key!, precondition: token, from: offset, maxBytes, cut: 'bytes' });
  const { record } = window;
  const tag = rangeTag({
    incarnation: record.incarnation, start: window.start, end: window.end, form: isJson(record.contentType) ? 'ndjson' : 'raw',
    at: window.closed ? 'closed' : window.upToDate ? 'tail' : 'below', session: window.session,
  });
  const headers = [
    'ETag', tag, 'Stream-Incarnation', String(record.incarnation), 'Stream-Offset', formatOffset(window.start), 'Stream-Next-Offset', formatOffset(window.end),
  ];
  if (isImmutable(window, maxBytes, exchange.deps.config.cold === 's3')) {
    headers.push('Stream-Immutable', 'true', 'Cache-Control', IMMUTABLE);
    if (window.closed) headers.push('Stream-Closed', 'true');
  } else {
    headers.push('Cache-Control', 'no-store');
  }
  if (matchesIfNoneMatch(exchange.req.headers['if-none-match'], tag)) {
    exchange.empty(304, headers);
    return;
  }
  headers.push('Content-Type', isJson(record.contentType) ? NDJSON : record.contentType);
  await answerBody(exchange, 200, headers, window.end - window.start, () => window.body(departure(exchange.res)));
}

/** `remote`: a restore could take back what lies above the logged frontier (architecture section 6). */
function isImmutable(window: ReadWindow, gridBytes: number, remote: boolean): boolean {
  const ended = window.closed || (!window.upToDate && window.end - window.start === gridBytes);
  return ended && (!remote || window.end <= window.record.sealed);
}
