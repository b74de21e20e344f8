/**
 * Stream paths inside bodies (P6): the plain text of a path below `/v1/stream/`, such as `events/abc`.
 *
 * Promises: a path is the key that the URL with the same segments, escaped, would name; nothing else becomes a key (PATH-09).
 */
import { FirnError } from './errors.js';
import { baseKey } from './ids.js';
import type { StreamKey } from './types.js';

const LONE_SURROGATE = /\p{Surrogate}/u;

/** The key of a path as it stands in a body; slashes at its ends do not count. Throws INVALID_STREAM_ID. */
export function streamPathKey(text: string): StreamKey {
  if (LONE_SURROGATE.test(text)) throw new FirnError('INVALID_STREAM_ID', { detail: 'a stream path is well-formed text' });
  return baseKey(text.replace(/^\/+|\/+$/g, '').split('/').map(encodeURIComponent).join('/'));
}
