/**
 * Access from pages of other origins (SEC-08, `FIRN_CORS_ORIGINS`).
 *
 * Promises: no `Access-Control-Allow-Origin` unless the operator named the origin, or `*`; answers that depend on the origin say so
 * in `Vary`; preflights are always answered with the methods and headers of the surface.
 */
import { ALL_METHODS } from './routes.js';

const REQUEST_HEADERS = [
  'Authorization', 'Content-Type', 'If-None-Match', 'If-Range', 'Range', 'Stream-Incarnation', 'Stream-Closed', 'Stream-Seq', 'Stream-TTL', 'Stream-Expires-At',
  'Stream-Forked-From', 'Stream-Fork-Offset', 'Stream-Fork-Sub-Offset', 'Producer-Id', 'Producer-Epoch', 'Producer-Seq', 'Producer-Digest',
  'Stream-Snapshot-Parts', 'Stream-Snapshot-Digest',
].join(', ');

/** Every header of an answer that a script may want to see. */
const EXPOSED_HEADERS = [
  'Stream-Next-Offset', 'Stream-Offset', 'Stream-Cursor', 'Stream-Up-To-Date', 'Stream-Closed', 'Stream-Incarnation', 'Stream-Retained-Offset',
  'Stream-Snapshot-Offset', 'Stream-Snapshot-Digest', 'Stream-Snapshot-Part', 'Stream-Immutable', 'Stream-TTL', 'Stream-Expires-At', 'Stream-Last-Seq', 'Stream-Sse-Data-Encoding',
  'Stream-Data-Content-Type', 'Stream-Cold-Hot-Start-Offset', 'Producer-Epoch', 'Producer-Seq', 'Producer-Expected-Seq', 'Producer-Received-Seq',
  'Producer-Outcome', 'Producer-Closed-Epoch', 'Producer-Closed-Seq', 'Ursula-Max-Request-Bytes', 'Ursula-Max-Snapshot-Bytes', 'Ursula-Max-Staged-Parts', 'Ursula-Max-Staged-Bytes', 'Ursula-Protocol', 'Ursula-Cluster-Id', 'ETag', 'Location',
  'Retry-After', 'Accept-Ranges', 'Content-Range', 'Content-Length', 'Allow',
].join(', ');

/** How long a browser may keep the answer of a preflight, seconds. */
const PREFLIGHT_AGE_S = '86400';

/** Adds what an answer to a request from `origin` needs. */
export function corsHeaders(allowed: readonly string[], origin: string | undefined, headers: string[]): void {
  if (allowed[0] === '*') {
    headers.push('Access-Control-Allow-Origin', '*', 'Access-Control-Expose-Headers', EXPOSED_HEADERS);
    return;
  }
  headers.push('Vary', 'Origin');
  if (origin !== undefined && allowed.includes(origin)) headers.push('Access-Control-Allow-Origin', origin, 'Access-Control-Expose-Headers', EXPOSED_HEADERS);
}

/** Headers of the answer to a preflight. */
export function preflightHeaders(): string[] {
  return [
    'Access-Control-Allow-Methods', ALL_METHODS, 'Access-Control-Allow-Headers', REQUEST_HEADERS, 'Access-Control-Max-Age', PREFLIGHT_AGE_S, 'Cache-Control', 'no-store',
  ];
}
