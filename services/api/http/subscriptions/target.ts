/**
 * What a path below `/v1/stream/__ds` names (P6, SUB-01).
 *
 * Owns: the shapes of these paths and their methods. Promises: whatever is not listed is 404 NOT_FOUND, a wrong method on what is listed 405 with `Allow`.
 */
import { FirnError } from '../../../../shared/protocol/errors.js';
import { decodeEscapes } from '../../../../shared/protocol/percent.js';
import { streamPathKey } from '../../../../shared/protocol/stream-path.js';
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { ID_BYTES_MAX } from '../../subscriptions/limits.js';

const ROOT = '/v1/stream/__ds/';
const SUBSCRIPTIONS = 'subscriptions/';
const CONTROL = /[\0-\x1f\x7f]/;

type Action = 'callback' | 'claim' | 'ack' | 'release';

export type ControlTarget =
  | { readonly kind: 'jwks' }
  | { readonly kind: 'subscription' | 'streams' | Action; readonly id: string }
  | { readonly kind: 'stream'; readonly id: string; readonly stream: StreamKey };

const ALLOW: Readonly<Record<ControlTarget['kind'], string>> = {
  jwks: 'GET, HEAD, OPTIONS',
  subscription: 'GET, HEAD, PUT, DELETE, OPTIONS',
  streams: 'POST, OPTIONS',
  stream: 'DELETE, OPTIONS',
  callback: 'POST, OPTIONS',
  claim: 'POST, OPTIONS',
  ack: 'POST, OPTIONS',
  release: 'POST, OPTIONS',
};

/** Reads a path as sent, without its query. Throws NOT_FOUND, INVALID_REQUEST, INVALID_STREAM_ID. */
export function parseControlTarget(path: string): ControlTarget {
  const rest = path.slice(ROOT.length);
  if (rest === 'jwks.json') return { kind: 'jwks' };
  if (!rest.startsWith(SUBSCRIPTIONS)) throw new FirnError('NOT_FOUND');
  const [rawId = '', name, ...more] = rest.slice(SUBSCRIPTIONS.length).split('/');
  if (rawId === '') throw new FirnError('NOT_FOUND');
  if (name === undefined) return { kind: 'subscription', id: idOf(rawId) };
  if (name === 'streams' && more.length > 0) return { kind: 'stream', id: idOf(rawId), stream: streamPathKey(decodeEscapes(more.join('/'), 'INVALID_STREAM_ID')) };
  if (more.length === 0 && (name === 'streams' || name === 'callback' || name === 'claim' || name === 'ack' || name === 'release')) return { kind: name, id: idOf(rawId) };
  throw new FirnError('NOT_FOUND');
}

/** Throws METHOD_NOT_ALLOWED. */
export function refuseControlMethod({ kind }: ControlTarget): never {
  throw new FirnError('METHOD_NOT_ALLOWED', { headers: { Allow: ALLOW[kind] } });
}

function idOf(raw: string): string {
  const id = decodeEscapes(raw, 'INVALID_REQUEST');
  if (Buffer.byteLength(id) > ID_BYTES_MAX || CONTROL.test(id)) throw new FirnError('INVALID_REQUEST', { detail: `the id of a subscription has at most ${ID_BYTES_MAX} bytes, none of them a control character` });
  return id;
}
