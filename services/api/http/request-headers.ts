/**
 * The typed headers of requests: syntax only, no state (requirements sections 2, 3, 13, 14, 15, 20).
 *
 * Owns: reading them from Node's lower-cased header object. Promises: what is returned was checked; a malformed value is a 400 that
 * names the header and not its value. Node joins repeated headers of ours with ", ", which none of these forms but two allow, and of
 * some common ones it takes the first: for those the raw list is consulted.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { FirnError } from '../../../shared/protocol/errors.js';
import { parseIncarnation } from '../../../shared/protocol/incarnation.js';
import { parseExpiresAt, parseTtl } from '../../../shared/protocol/ttl.js';
import type { Dialect } from '../../../shared/protocol/types.js';
import { isTrue, parseProducerClaim, parseStreamSeq } from '../../../shared/protocol/write-headers.js';
import type { Precondition, ProducerClaim } from '../log/types.js';

/** The `Stream-Incarnation` precondition. Throws INVALID_HEADER (INC-14, INC-15). */
export function preconditionOf(headers: IncomingHttpHeaders): Precondition {
  const text = headers['stream-incarnation'];
  return text === undefined ? null : parseIncarnation(text as string);
}

/** `Stream-Closed` counts only as `true`, in any case (CLO-10, CRE-18). */
export function closesStream(headers: IncomingHttpHeaders): boolean {
  return isTrue(headers['stream-closed'] as string | undefined);
}

/** The producer headers of an append; null: none. Throws INVALID_PRODUCER (PROD-01 .. PROD-03, PROD-22, PROD-25). */
export function producerOf(request: IncomingMessage, dialect: Dialect): ProducerClaim | null {
  const { headers } = request;
  const id = headers['producer-id'] as string | undefined;
  const epoch = headers['producer-epoch'] as string | undefined;
  const seq = headers['producer-seq'] as string | undefined;
  // The digest is part of the extension profile alone.
  const digest = dialect === 'bucketed' ? (headers['producer-digest'] as string | undefined) : undefined;
  const claim = parseProducerClaim({ id, epoch, seq, digest });
  if (claim !== null && claim.id.includes(',') && isRepeated(request, 'producer-id')) {
    throw new FirnError('INVALID_PRODUCER', { detail: 'producer-id is given more than once' });
  }
  return claim;
}

/** Whether any producer header is there (CRE-23). */
export function namesProducer(headers: IncomingHttpHeaders): boolean {
  return headers['producer-id'] !== undefined || headers['producer-epoch'] !== undefined || headers['producer-seq'] !== undefined || headers['producer-digest'] !== undefined;
}

/** `Stream-Seq`; null: none. Throws INVALID_HEADER (SEQ-09). */
export function seqOf(request: IncomingMessage): string | null {
  const text = request.headers['stream-seq'] as string | undefined;
  if (text === undefined) return null;
  if (text.includes(',') && isRepeated(request, 'stream-seq')) throw badHeader('stream-seq is given more than once');
  return parseStreamSeq(text);
}

export interface Lifetime {
  readonly ttl: string | null;
  readonly expiresAtMs: number | null;
}

/** `Stream-TTL` or `Stream-Expires-At`. Throws INVALID_HEADER, also for both (CRE-14). */
export function lifetimeOf(headers: IncomingHttpHeaders): Lifetime {
  const ttl = headers['stream-ttl'] as string | undefined;
  const expiresAt = headers['stream-expires-at'] as string | undefined;
  if (ttl !== undefined && expiresAt !== undefined) throw badHeader('stream-ttl and stream-expires-at do not go together');
  return { ttl: ttl === undefined ? null : parseTtl(ttl), expiresAtMs: expiresAt === undefined ? null : parseExpiresAt(expiresAt) };
}

/** Whether the client takes gzip: listed, or `*`, with a weight above 0. */
export function acceptsGzip(header: string | undefined): boolean {
  if (header === undefined || header.length === 0) return false;
  let any = false;
  for (const part of header.split(',')) {
    const [coding, ...parameters] = part.trim().toLowerCase().split(';');
    const name = (coding ?? '').trimEnd();
    if (name !== 'gzip' && name !== 'x-gzip' && name !== '*') continue;
    const weight = parameters.map((p) => p.trim()).find((p) => p.startsWith('q='));
    const taken = weight === undefined || Number(weight.slice(2)) > 0;
    if (name !== '*') return taken;
    any = taken;
  }
  return any;
}

const C = 99;
const H = 104;
const LOWER = 32;

/**
 * What holds for every request (RFC 9110 10.1.1, RFC 9112 3.2). Throws INVALID_REQUEST for no or two hosts, INVALID_HEADER for two content types,
 * EXPECTATION_FAILED. Names are told apart by length and first letter, as this is asked of each small append.
 */
export function checkHead(request: IncomingMessage): void {
  const { headers, rawHeaders } = request;
  let hosts = 0;
  let types = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!;
    if (name.length === 4 && (name.charCodeAt(0) | LOWER) === H) hosts++;
    else if (name.length === 12 && (name.charCodeAt(0) | LOWER) === C) types++;
  }
  if (types > 1 && isRepeated(request, 'content-type')) throw badHeader('content-type is given more than once');
  if (hosts !== 1 && headers.host === undefined && request.httpVersion === '1.1') throw new FirnError('INVALID_REQUEST', { detail: 'a request names its host' });
  if (hosts > 1 && isRepeated(request, 'host')) throw new FirnError('INVALID_REQUEST', { detail: 'a request names one host' });
  if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue') throw new FirnError('EXPECTATION_FAILED');
}

function isRepeated(request: IncomingMessage, name: string): boolean {
  let seen = 0;
  for (let i = 0; i < request.rawHeaders.length; i += 2) {
    const header = request.rawHeaders[i]!;
    if (header.length === name.length && header.toLowerCase() === name) seen++;
  }
  return seen > 1;
}

function badHeader(detail: string): FirnError {
  return new FirnError('INVALID_HEADER', { detail });
}
