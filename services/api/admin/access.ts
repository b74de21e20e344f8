/**
 * Who may use the admin listener.
 *
 * Promises: with a token configured nothing is answered without it, compared in constant time; a page of another site that a browser
 * has open cannot make the node do anything, nor read anything: also not by a name of its own that leads to this machine.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, Middleware } from 'koa';
import { isLoopback } from '../../../shared/config/index.js';
import { AdminRefusal } from './refusal.js';

const BEARER = /^Bearer +([^\s]+) *$/i;

/**
 * Refuses requests without the token (401), and writing ones of another origin (403). `token` null: none is asked for, and the listener is on loopback, so
 * any other name in `Host` is a page that took this machine's address (403).
 */
export function access(token: string | null): Middleware {
  const expected = token === null ? null : digest(token);
  return (ctx, next) => {
    refuseMissingHost(ctx);
    if (expected === null && !isHere(ctx.get('host'))) throw new AdminRefusal(403, 'FORBIDDEN', 'without a token the admin listener is used by a loopback address or localhost');
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

const HOST = /^(\[[^\]]*\]|[^:]*)(?::[0-9]*)?$/;

/** Without the port; '' for what is no host. */
function hostName(host: string): string {
  return HOST.exec(host)?.[1] ?? '';
}

/** HTTP/1.0 needs no host, and no browser speaks it. */
function isHere(host: string): boolean {
  return host === '' || isLoopback(hostName(host));
}

/** RFC 9112 3.2. */
function refuseMissingHost(ctx: Context): void {
  if (ctx.get('host') === '' && ctx.req.httpVersion === '1.1') throw new AdminRefusal(400, 'INVALID_REQUEST', 'a request names its host');
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
