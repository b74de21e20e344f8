/**
 * From a request target to what it names (requirements section 1, architecture section 1).
 *
 * Owns: the shapes of paths on the client listener, and which methods each takes. Promises: a path means one thing; whatever is not
 * listed is 404 NOT_FOUND, a wrong method on what is listed 405 with `Allow`; ids are checked before anything looks at them.
 * Written for speed: one pass over the target, no URL object.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { baseKey, bucketedKey, CONTROL_ROOT, decodeBucketId, decodeStreamId } from '../../../shared/protocol/ids.js';
import type { Dialect, StreamKey } from '../../../shared/protocol/types.js';
import { TARGET_CHARS_MAX } from './limits.js';

export type RouteKind = 'control' | 'stream' | 'bucket' | 'bootstrap' | 'snapshot' | 'snapshot-parts' | 'staged-parts' | 'retention' | 'chunk' | 'incarnation-snapshot';

export interface Route {
  readonly kind: RouteKind;
  readonly dialect: Dialect;
  /** The stream; null for a bucket and for control paths. */
  readonly key: StreamKey | null;
  /** Path as sent, without the query; safe in a header. */
  readonly path: string;
  /** Text after `?`, null without one. */
  readonly query: string | null;
  /** Offset segment of a subresource, still escaped; '' where there is none. */
  readonly rawOffset: string;
  /** Token segment of an incarnation route, still escaped; '' where there is none. */
  readonly rawToken: string;
}

/** Methods of each kind, as `Allow` names them. */
const ALLOW: Readonly<Record<Exclude<RouteKind, 'control'>, string>> = {
  stream: 'GET, HEAD, PUT, POST, DELETE, OPTIONS',
  bucket: 'PUT',
  bootstrap: 'GET, HEAD, OPTIONS',
  snapshot: 'GET, HEAD, PUT, OPTIONS',
  'snapshot-parts': 'POST, OPTIONS',
  'staged-parts': 'DELETE, OPTIONS',
  retention: 'PUT, OPTIONS',
  chunk: 'GET, HEAD, OPTIONS',
  'incarnation-snapshot': 'GET, HEAD, OPTIONS',
};

const BASE_ROOT = '/v1/stream/';
const SLASH = 47;
const QUESTION = 63;
const SPACE = 32;
const DELETE = 127;

/** Reads the target of a request. Throws NOT_FOUND, INVALID_REQUEST and the refusals of ids. */
export function parseRoute(target: string): Route {
  if (target.length > TARGET_CHARS_MAX) throw new FirnError('INVALID_REQUEST', { detail: `a request target has at most ${TARGET_CHARS_MAX} characters` });
  const origin = target.charCodeAt(0) === SLASH ? target : originForm(target);
  const question = checkCharacters(origin);
  const path = question < 0 ? origin : origin.slice(0, question);
  const query = question < 0 ? null : origin.slice(question + 1);
  return path.startsWith(BASE_ROOT) ? baseRoute(path, query) : bucketedRoute(path, query);
}

/** Throws METHOD_NOT_ALLOWED with `Allow` (BKT-06, PATH-06). */
export function refuseMethod(kind: Exclude<RouteKind, 'control'>): never {
  throw new FirnError('METHOD_NOT_ALLOWED', { headers: { Allow: ALLOW[kind] } });
}

/** Every method of the surface, for preflights. */
export const ALL_METHODS = ALLOW.stream;

/** A proxy may send the absolute form (RFC 9112 3.2.2); only its path counts. */
function originForm(target: string): string {
  const scheme = target.indexOf('://');
  if (scheme < 0) throw notFound();
  const slash = target.indexOf('/', scheme + 3);
  return slash < 0 ? '/' : target.slice(slash);
}

/** Position of `?`, -1 without; refuses what no URL holds and no header may carry. */
function checkCharacters(target: string): number {
  let question = -1;
  for (let i = 0; i < target.length; i++) {
    const code = target.charCodeAt(i);
    if (code <= SPACE || code === DELETE) throw new FirnError('INVALID_REQUEST', { detail: 'a request target holds no space and no control character' });
    if (code === QUESTION && question < 0) question = i;
  }
  return question;
}

function baseRoute(path: string, query: string | null): Route {
  const rest = path.slice(BASE_ROOT.length);
  if (rest.length === 0) throw notFound();
  if (rest.startsWith(CONTROL_ROOT) && (rest.length === CONTROL_ROOT.length || rest.charCodeAt(CONTROL_ROOT.length) === SLASH)) {
    return { kind: 'control', dialect: 'base', key: null, path, query, rawOffset: '', rawToken: '' };
  }
  return { kind: 'stream', dialect: 'base', key: baseKey(rest), path, query, rawOffset: '', rawToken: '' };
}

function bucketedRoute(path: string, query: string | null): Route {
  const slash = path.indexOf('/', 1);
  if (slash < 0) return bucketRoute(path, query);
  const next = path.indexOf('/', slash + 1);
  if (next < 0) {
    if (slash === path.length - 1) throw notFound();
    return streamRoute('stream', path, path.slice(1, slash), path.slice(slash + 1), query, '', '');
  }
  return subresource(path, path.split('/', 8), query);
}

function bucketRoute(path: string, query: string | null): Route {
  if (path.length === 1) throw notFound();
  decodeBucketId(path.slice(1));
  return { kind: 'bucket', dialect: 'bucketed', key: null, path, query, rawOffset: '', rawToken: '' };
}

/** `segments` begins with the empty text before the first slash. */
function subresource(path: string, segments: readonly string[], query: string | null): Route {
  const bucket = segments[1]!;
  const stream = segments[2]!;
  const name = segments[3]!;
  const count = segments.length - 1;
  if (name === 'bootstrap' && count === 3) return streamRoute('bootstrap', path, bucket, stream, query, '', '');
  const offset = segments[4] ?? '';
  if (name === 'snapshot' && count === 4 && offset === 'parts') return streamRoute('staged-parts', path, bucket, stream, query, '', '');
  if (name === 'snapshot' && count === 5 && offset.length > 0 && segments[5] === 'parts') return streamRoute('snapshot-parts', path, bucket, stream, query, offset, '');
  if ((name === 'snapshot' || name === 'retention') && count === 4 && offset.length > 0) return streamRoute(name, path, bucket, stream, query, offset, '');
  const last = segments[6] ?? '';
  if (name === 'incarnation' && count === 6 && last.length > 0) {
    if (segments[5] === 'chunk') return streamRoute('chunk', path, bucket, stream, query, last, offset);
    if (segments[5] === 'snapshot') return streamRoute('incarnation-snapshot', path, bucket, stream, query, last, offset);
  }
  throw notFound();
}

function streamRoute(kind: RouteKind, path: string, rawBucket: string, rawStream: string, query: string | null, rawOffset: string, rawToken: string): Route {
  const key = bucketedKey(decodeBucketId(rawBucket), decodeStreamId(rawStream));
  return { kind, dialect: 'bucketed', key, path, query, rawOffset, rawToken };
}

function notFound(): FirnError {
  return new FirnError('NOT_FOUND');
}
