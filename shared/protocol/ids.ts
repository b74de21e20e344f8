/**
 * Names: bucket ids, stream ids, base paths, and the one key behind them (requirements section 1, architecture section 1).
 *
 * Owns: the only places where a `StreamKey` is made. Promises: a key has 1 to 122 bytes of UTF-8, no NUL, no `..`, no empty or `.`
 * segment; two names are one stream exactly when their keys are equal byte for byte (ID-14, ID-17). Nothing else may build a path
 * from a request (PATH-09).
 */
import { FirnError } from './errors.js';
import { decodeEscapes } from './percent.js';
import type { StreamKey } from './types.js';

/** Bytes of a key, the slash included (ID-02, ID-03, ID-18). */
export const KEY_BYTES_MAX = 122;
/** First segment of the control paths on the base surface (SUB-01). */
export const CONTROL_ROOT = '__ds';
const BUCKET_ID = /^(?!__)[a-z0-9_-]{4,64}$/;

/** Checks a bucket id given as it stands in the path. Throws INVALID_BUCKET_ID (ID-01, ID-12, ID-16). */
export function decodeBucketId(rawSegment: string): string {
  const id = decodeEscapes(rawSegment, 'INVALID_BUCKET_ID');
  if (!BUCKET_ID.test(id)) throw new FirnError('INVALID_BUCKET_ID');
  return id;
}

/** Checks a stream id given as it stands in the path, on the bucketed surface. Throws INVALID_STREAM_ID (ID-02 .. ID-10, ID-15). */
export function decodeStreamId(rawSegment: string): string {
  const id = decodeEscapes(rawSegment, 'INVALID_STREAM_ID');
  checkSegment(id);
  if (id.startsWith('$')) throw badName('a stream id does not begin with "$"');
  if (id === 'streams') throw badName('the stream id "streams" is reserved');
  checkLength(id);
  return id;
}

/** Joins two checked ids. Throws INVALID_STREAM_ID when they are too long together (ID-03). */
export function bucketedKey(bucket: string, stream: string): StreamKey {
  const key = `${bucket}/${stream}`;
  checkLength(key);
  return key as StreamKey;
}

/** Checks the path after `/v1/stream/`, given as it stands there. Throws INVALID_STREAM_ID (ID-17, ID-18). */
export function baseKey(rawPath: string): StreamKey {
  const segments = rawPath.split('/', KEY_BYTES_MAX);
  for (let i = 0; i < segments.length; i++) {
    const segment = decodeEscapes(segments[i]!, 'INVALID_STREAM_ID');
    checkSegment(segment);
    segments[i] = segment;
  }
  if (segments[0] === CONTROL_ROOT) throw badName(`a path does not begin with "${CONTROL_ROOT}"`);
  const key = segments.join('/');
  checkLength(key);
  return key as StreamKey;
}

/**
 * The bucket that a purge or fence must name to reach this stream: the first segment when it is a bucket id and more follows, also
 * for a path that only the base surface can name (BKT-10). null: none.
 */
export function bucketOf(key: StreamKey): string | null {
  const slash = key.indexOf('/');
  if (slash < 0) return null;
  const first = key.slice(0, slash);
  return BUCKET_ID.test(first) ? first : null;
}

/** The request target of a key under a surface's prefix: segments escaped, slashes kept. */
export function keyPath(key: StreamKey): string {
  return key.split('/').map(encodeURIComponent).join('/');
}

function checkSegment(segment: string): void {
  if (segment.length === 0) throw badName('a stream id is not empty');
  if (segment.includes('/')) throw badName('a stream id holds no "/"');
  if (segment.includes('\0')) throw badName('a stream id holds no NUL');
  if (segment === '.' || segment.includes('..')) throw badName('a stream id is not "." and holds no ".."');
}

function checkLength(name: string): void {
  // A character has at least one byte a UTF-16 unit, so short names need no count.
  if (name.length * 3 <= KEY_BYTES_MAX) return;
  if (Buffer.byteLength(name) > KEY_BYTES_MAX) throw badName(`a bucket and stream id have at most ${KEY_BYTES_MAX} bytes together`);
}

function badName(detail: string): FirnError {
  return new FirnError('INVALID_STREAM_ID', { detail });
}
