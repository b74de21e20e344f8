/**
 * Who may use the admin listener.
 *
 * Promises: with a token configured nothing is answered without it, compared in constant time; a page of another site that a browser
 * has open cannot make the node do anything.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Middleware } from 'koa';
import { AdminRefusal } from './refusal.js';

const BEARER = /^Bearer +([^\s]+) *$/i;

/** Refuses requests without the token (401), and writing ones of another origin (403). `token` null: none is asked for. */
export function access(token: string | null): Middleware {
  const expected = token === null ? null : digest(token);
  return (ctx, next) => {
    if (expected !== null && !isBearer(ctx.get('authorization'), expected)) {
      throw new AdminRefusal(401, 'INVALID_CREDENTIAL', 'the admin listener asks for its bearer token', { 'WWW-Authenticate': 'Bearer' });
    }
    const origin = ctx.get('origin');
    if (origin !== '' && ctx.method !== 'GET' && ctx.method !== 'HEAD' && hostOf(origin) !== ctx.get('host')) {
      throw new AdminRefusal(403, 'FORBIDDEN', 'a page of another origin cannot use the admin listener');
    }
    return next();
  };
}

/** Digests have one length, so the comparison tells nothing about the token's. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function isBearer(header: string, expected: Buffer): boolean {
  const match = BEARER.exec(header);
  return timingSafeEqual(digest(match?.[1] ?? ''), expected);
}

function hostOf(origin: string): string {
  return URL.canParse(origin) ? new URL(origin).host : '';
}
