/**
 * Tokens of callbacks and claims (P12.9, SUB-33, SUB-35, SUB-48).
 *
 * Owns: their form: what it says in base64url, a dot, an HMAC of that. Promises: only the holder of the node's secret makes one; signatures are compared in constant time. Whether what a token says
 * still holds is the subscription's to judge.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { FirnError } from '../../../shared/protocol/errors.js';
import { TOKEN_CHARS_MAX, TOKEN_MS } from './limits.js';

export type TokenUse = 'callback' | 'claim';

export interface TokenClaims {
  readonly subscription: string;
  /** Tells a subscription from a later one of the same id. */
  readonly number: number;
  readonly generation: number;
  readonly use: TokenUse;
}

const CONTEXT = 'firn subscription token 1\0';

export function makeToken(secret: Buffer, claims: TokenClaims, nowMs: number): string {
  const said = Buffer.from(JSON.stringify({ sub: claims.subscription, n: claims.number, gen: claims.generation, use: claims.use, exp: nowMs + TOKEN_MS })).toString('base64url');
  return `${said}.${sumOf(secret, said).toString('base64url')}`;
}

/** What a token of this subscription and use says. Throws TOKEN_INVALID, TOKEN_EXPIRED. */
export function readToken(secret: Buffer, token: string | null, subscription: string, use: TokenUse, nowMs: number): TokenClaims {
  const dot = token === null || token.length > TOKEN_CHARS_MAX ? -1 : token.lastIndexOf('.');
  if (token === null || dot < 0) throw invalid();
  const said = token.slice(0, dot);
  const sum = Buffer.from(token.slice(dot + 1), 'base64url');
  const right = sumOf(secret, said);
  // One text a token: the decoder takes others for the same bytes.
  if (sum.length !== right.length || !timingSafeEqual(sum, right) || sum.toString('base64url') !== token.slice(dot + 1)) throw invalid();
  const claims = JSON.parse(Buffer.from(said, 'base64url').toString('utf8')) as { sub: string; n: number; gen: number; use: TokenUse; exp: number };
  if (claims.sub !== subscription || claims.use !== use) throw invalid();
  if (claims.exp <= nowMs) throw new FirnError('TOKEN_EXPIRED', { headers: CHALLENGE });
  return { subscription, number: claims.n, generation: claims.gen, use };
}

function sumOf(secret: Buffer, said: string): Buffer {
  return createHmac('sha256', secret).update(CONTEXT).update(said).digest();
}

/** RFC 9110 11.6.1. */
const CHALLENGE = { 'WWW-Authenticate': 'Bearer' };

function invalid(): FirnError {
  return new FirnError('TOKEN_INVALID', { headers: CHALLENGE });
}
