/**
 * The headers that make a create a fork (requirements section 28): syntax only.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { FirnError } from '../../../shared/protocol/errors.js';
import { parsePosition } from '../../../shared/protocol/offsets.js';
import type { StreamKey } from '../../../shared/protocol/types.js';
import type { ForkRequest } from '../log/types.js';
import { parseRoute } from './routes.js';

const SUB_OFFSET = /^(?:0|[1-9][0-9]{0,15})$/;

/** null: no fork. Throws INVALID_HEADER, INVALID_OFFSET (FORK-06, FORK-13, FORK-33, FORK-40). */
export function forkOf(headers: IncomingHttpHeaders): ForkRequest | null {
  const source = headers['stream-forked-from'] as string | undefined;
  const offset = headers['stream-fork-offset'] as string | undefined;
  const sub = headers['stream-fork-sub-offset'] as string | undefined;
  if (source === undefined) {
    if (offset === undefined && sub === undefined) return null;
    throw new FirnError('INVALID_HEADER', { detail: 'stream-fork-offset and stream-fork-sub-offset go with stream-forked-from' });
  }
  // The right half of `16_16` is a position on either surface: the header belongs to the base protocol.
  return { key: sourceKey(source), offset: offset === undefined ? null : parsePosition(offset, 'base'), sub: sub === undefined ? 0 : subOffset(sub) };
}

function subOffset(text: string): number {
  const value = Number(text);
  if (!SUB_OFFSET.test(text) || !Number.isSafeInteger(value)) throw new FirnError('INVALID_HEADER', { detail: 'stream-fork-sub-offset is a number of bytes or messages in plain digits' });
  return value;
}

/** A stream of this server by its path on either surface (FORK-36). */
function sourceKey(text: string): StreamKey {
  try {
    const route = text.startsWith('/') ? parseRoute(text) : null;
    if (route !== null && route.kind === 'stream' && route.key !== null && route.query === null) return route.key;
  } catch (error) {
    if (!(error instanceof FirnError)) throw error;
    throw new FirnError('INVALID_HEADER', { detail: 'stream-forked-from is no path of a stream', cause: error });
  }
  throw new FirnError('INVALID_HEADER', { detail: 'stream-forked-from is the path of a stream on this server, as in its URL' });
}
