/**
 * Rendering a window of the log: the same for a catch-up read and for a long-poll with data (requirements sections 7, 8, 16, 22).
 *
 * Promises: the first bytes are in hand before a head is written; the length is stated wherever it is known; two answers with one tag
 * are the same.
 */
import { isJson, JSON_TYPE, NDJSON } from '../../../shared/protocol/content-type.js';
import { matchesIfNoneMatch, rangeTag } from '../../../shared/protocol/etag.js';
import { arrayLength, arrayPieces } from '../../../shared/protocol/ndjson-array.js';
import { formatOffset } from '../../../shared/protocol/offsets.js';
import type { Dialect } from '../../../shared/protocol/types.js';
import type { ReadWindow } from '../log/types.js';
import { answerBody, departure, writePieces } from './answer-body.js';
import { readCacheControl } from './caching.js';
import type { Exchange } from './exchange.js';
import { gzipPieces, gzipWhole } from './gzip.js';
import { ABORTABLE_BYTES_MIN, GZIP_BYTES_MIN, GZIP_WHOLE_MAX } from './limits.js';
import { acceptsGzip } from './request-headers.js';

type BodyForm = 'raw' | 'ndjson' | 'array';

/** How a stream's bytes appear on a surface (READ-14 .. READ-16). */
function formOf(contentType: string, dialect: Dialect): BodyForm {
  if (!isJson(contentType)) return 'raw';
  return dialect === 'base' ? 'array' : 'ndjson';
}

/** Where reads of a surface may cut: only a JSON array needs whole messages; the log applies it to JSON streams alone (SIZE-12). */
export function cutOf(dialect: Dialect): 'bytes' | 'messages' {
  return dialect === 'base' ? 'messages' : 'bytes';
}

export interface WindowAnswer {
  /** `Stream-Cursor`, null: none. */
  readonly cursor: string | null;
  /** The URL names the position, so the answer has a tag and may be kept; `offset=now` does not. */
  readonly positional: boolean;
  /** `If-None-Match` counts (CACHE-04). */
  readonly revalidate: boolean;
}

/** Renders a window. Throws before a head was written, or after it: then the connection is to be cut. */
export async function answerWindow(exchange: Exchange, dialect: Dialect, window: ReadWindow, how: WindowAnswer): Promise<void> {
  const { req } = exchange;
  const { record } = window;
  const form = formOf(record.contentType, dialect);
  const bytes = window.end - window.start;
  const length = form === 'array' ? arrayLength(bytes) : bytes;
  const compressible = form !== 'raw' && length >= GZIP_BYTES_MIN;
  const headers = windowHeaders(exchange, window, how);
  if (compressible) headers.push('Vary', 'Accept-Encoding');
  if (how.positional) {
    const tag = windowTag(window, form, compressible);
    headers.push('ETag', tag);
    if (how.revalidate && matchesIfNoneMatch(req.headers['if-none-match'], tag)) {
      exchange.empty(304, headers);
      return;
    }
  }
  headers.push('Content-Type', form === 'raw' ? record.contentType : form === 'ndjson' ? NDJSON : JSON_TYPE);
  if (bytes === 0) exchange.whole(200, headers, form === 'array' ? EMPTY_ARRAY : NOTHING);
  else await writeWindow(exchange, window, form, length, headers, compressible && acceptsGzip(req.headers['accept-encoding']));
}

const NOTHING = Buffer.alloc(0);
const EMPTY_ARRAY = Buffer.from('[]');

function windowHeaders(exchange: Exchange, window: ReadWindow, how: WindowAnswer): string[] {
  const { record } = window;
  const requested = exchange.req.headers;
  const headers = ['Stream-Next-Offset', formatOffset(window.end), 'Stream-Incarnation', String(record.incarnation)];
  if (window.upToDate) headers.push('Stream-Up-To-Date', 'true');
  if (window.closed) headers.push('Stream-Closed', 'true');
  if (how.cursor !== null) headers.push('Stream-Cursor', how.cursor);
  const withToken = requested['stream-incarnation'] !== undefined;
  if (!how.positional) headers.push('Cache-Control', 'no-store');
  else headers.push('Cache-Control', readCacheControl(record, exchange.deps.now(), withToken, requested.authorization !== undefined));
  // Also where no token came: or a cache would give this answer to a request that has one, unchecked (CACHE-18).
  if (withToken || how.positional) headers.push('Vary', 'Stream-Incarnation');
  return headers;
}

function windowTag(window: ReadWindow, form: BodyForm, weak: boolean): string {
  const tag = rangeTag({
    incarnation: window.record.incarnation, start: window.start, end: window.end, form,
    at: window.closed ? 'closed' : window.upToDate ? 'tail' : 'below', session: window.session,
  });
  return weak ? `W/${tag}` : tag;
}

async function writeWindow(exchange: Exchange, window: ReadWindow, form: BodyForm, length: number, headers: string[], gzip: boolean): Promise<void> {
  const { res } = exchange;
  const bytes = window.end - window.start;
  const body = (): AsyncIterable<Buffer> => {
    const stored = window.body(bytes >= ABORTABLE_BYTES_MIN ? departure(res) : undefined);
    return form === 'array' ? arrayPieces(stored, bytes) : stored;
  };
  if (!gzip) return answerBody(exchange, 200, headers, length, body);
  headers.push('Content-Encoding', 'gzip');
  const source = body()[Symbol.asyncIterator]();
  const first = await source.next();
  if (first.done === true) throw new Error(`a window of ${bytes} bytes gave none`);
  if (length <= GZIP_WHOLE_MAX) {
    exchange.whole(200, headers, await gzipWhole(first.value, source, length));
    return;
  }
  exchange.head(200, headers);
  await writePieces(res, gzipPieces(first.value, source, length));
  res.end();
}
