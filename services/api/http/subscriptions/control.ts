/**
 * The control routes below `/v1/stream/__ds` (P6, P7; requirements section 29): parse, call, render.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { httpUrl } from '../../../../shared/config/index.js';
import { BODY_BYTES_MAX } from '../../subscriptions/limits.js';
import type { Claim, SubscriptionView } from '../../subscriptions/types.js';
import { formatCursor, wireLink } from '../../subscriptions/wake-text.js';
import { declaredWithin, type Bodies, type BodyLimit } from '../body.js';
import type { Exchange } from '../exchange.js';
import { originOf } from '../origin.js';
import type { Route } from '../routes.js';
import { createOf, releaseOf, streamsOf, ticketOf, workerOf } from './bodies.js';
import { parseControlTarget, refuseControlMethod, type ControlTarget } from './target.js';

const LIMIT: BodyLimit = { bytes: BODY_BYTES_MAX, code: 'REQUEST_TOO_LARGE', header: 'Ursula-Max-Request-Bytes' };
/** Links rendered in one turn of the event loop. */
const LINKS_PER_TURN = 2_000;
const BEARER = /^Bearer +([^ ]+) *$/i;

export async function control(exchange: Exchange, route: Route, method: string, bodies: Bodies): Promise<void> {
  exchange.routeClass = 'subscription';
  const target = parseControlTarget(route.path);
  if (target.kind === 'jwks') {
    if (method !== 'GET' && method !== 'HEAD') refuseControlMethod(target);
    return jwks(exchange);
  }
  if (target.kind === 'subscription') return subscription(exchange, target, method, bodies);
  if (target.kind === 'stream' && method === 'DELETE') {
    await exchange.deps.subscriptions.unlink(target.id, target.stream);
    return done(exchange);
  }
  if (method !== 'POST' || target.kind === 'stream') refuseControlMethod(target);
  return post(exchange, target.kind, target.id, bodies);
}

async function jwks(exchange: Exchange): Promise<void> {
  const keys = await exchange.deps.subscriptions.jwks();
  exchange.whole(200, ['Content-Type', 'application/jwk-set+json', 'Cache-Control', 'public, max-age=300'], Buffer.from(JSON.stringify({ keys })));
}

async function subscription(exchange: Exchange, target: ControlTarget & { readonly id: string }, method: string, bodies: Bodies): Promise<void> {
  const { subscriptions } = exchange.deps;
  const { id } = target;
  switch (method) {
    case 'PUT': {
      const request = await withBody(exchange, bodies, (body) => createOf(body, id, absoluteOrigin(exchange)));
      const outcome = await subscriptions.create(request);
      return json(exchange, outcome.created ? 201 : 200, await shown(exchange, outcome.subscription));
    }
    case 'GET':
    case 'HEAD':
      return json(exchange, 200, await shown(exchange, await subscriptions.get(id)));
    case 'DELETE':
      await subscriptions.delete(id);
      return done(exchange);
    default:
      return refuseControlMethod(target);
  }
}

async function post(exchange: Exchange, kind: 'streams' | 'callback' | 'claim' | 'ack' | 'release', id: string, bodies: Bodies): Promise<void> {
  const { subscriptions } = exchange.deps;
  switch (kind) {
    case 'streams':
      await subscriptions.link(id, await withBody(exchange, bodies, streamsOf));
      return done(exchange);
    case 'claim':
      return json(exchange, 200, JSON.stringify(claimed(await subscriptions.claim(id, await withBody(exchange, bodies, workerOf)))));
    case 'callback':
    case 'ack': {
      const ticket = await withBody(exchange, bodies, (body) => ticketOf(body, tokenOf(exchange)));
      return json(exchange, 200, JSON.stringify({ ok: true, next_wake: await subscriptions[kind](id, ticket) }));
    }
    case 'release':
      await subscriptions.release(id, await withBody(exchange, bodies, (body) => releaseOf(body, tokenOf(exchange))));
      return done(exchange);
  }
}

/** Reads a body and makes something of it, then gives its bytes back to the budget. */
async function withBody<T>(exchange: Exchange, bodies: Bodies, read: (body: Buffer) => T): Promise<T> {
  const declared = declaredWithin(exchange.req, LIMIT);
  try {
    return read(await bodies.readWhole(exchange, LIMIT, declared));
  } finally {
    if (exchange.heldBytes > 0) bodies.release(exchange);
  }
}

/** P12.9: tokens travel in this header alone, and of two headers none is the right one. */
function tokenOf({ req }: Exchange): string | null {
  const lines = req.headersDistinct['authorization'] ?? [];
  return lines.length === 1 ? (BEARER.exec(lines[0]!)?.[1] ?? null) : null;
}

/** A delivery and a key set need an absolute URL: that of the socket, where nothing else tells. */
function absoluteOrigin(exchange: Exchange): string {
  const { localAddress, localPort } = exchange.req.socket;
  return originOf(exchange) ?? httpUrl(localAddress ?? 'localhost', localPort ?? 0);
}

/** SUB-15, SUB-17. Links are many: other requests get their turns in between. */
async function shown(exchange: Exchange, view: SubscriptionView): Promise<string> {
  const streams: string[] = [];
  for (const { path, explicit, acked } of view.links()) {
    streams.push(JSON.stringify({ path, link_type: explicit ? 'explicit' : 'glob', acked_offset: formatCursor(acked) }));
    if (streams.length % LINKS_PER_TURN === 0) await nextTurn();
  }
  const signing = { alg: 'ed25519', kid: view.kid, jwks_url: `${absoluteOrigin(exchange)}/v1/stream/__ds/jwks.json` };
  const before = { id: view.id, subscription_id: view.id, type: view.type, pattern: view.pattern };
  const after = {
    webhook: view.webhookUrl === null ? null : { url: view.webhookUrl, signing }, wake_stream: view.wakeStream, lease_ttl_ms: view.leaseTtlMs, created_at: new Date(view.createdAtMs).toISOString(),
    status: view.status, description: view.description,
  };
  return `${JSON.stringify(before).slice(0, -1)},"streams":[${streams.join(',')}],${JSON.stringify(after).slice(1)}`;
}

function claimed({ wakeId, generation, token, links, leaseTtlMs }: Claim): object {
  return { wake_id: wakeId, generation, token, streams: links.map(wireLink), lease_ttl_ms: leaseTtlMs };
}

function json(exchange: Exchange, status: number, text: string): void {
  exchange.whole(status, ['Content-Type', 'application/json', 'Cache-Control', 'no-store'], Buffer.from(text));
}

function done(exchange: Exchange): void {
  exchange.empty(204, ['Cache-Control', 'no-store']);
}
