/**
 * The Koa application of the admin listener: `/__firn/…` (architecture section 3).
 *
 * Owns: routes, parameters, time-outs. Promises: a route that runs work answers when it is done, or 504; the work of a client that
 * leaves is given up.
 */
import Router from '@koa/router';
import Koa, { type Context } from 'koa';
import type { Logger } from '../../../shared/observability/index.js';
import { baseKey, decodeBucketId } from '../../../shared/protocol/ids.js';
import { DeadlinePassed, withSignal } from '../../../shared/time/joined-signal.js';
import { onceOver } from '../live/over.js';
import { access } from './access.js';
import { AdminRefusal, renderFailures } from './refusal.js';
import type { AdminBackend, Health } from './types.js';
import type { WorkRoutes } from './work-routes.js';

/** Rows of one page of the listing. */
const PAGE_DEFAULT = 100;
const PAGE_MAX = 1_000;
/** Longest wait of a route that runs work, ms. */
const TIMEOUT_DEFAULT_MS = 600_000;
const TIMEOUT_MAX_MS = 3_600_000;

const STREAMS = '/__firn/streams/';

export interface AdminAppOptions {
  readonly backend: AdminBackend;
  /** null: none is asked for. */
  readonly token: string | null;
  readonly logger: Logger;
  readonly work: WorkRoutes;
}

export function createAdminApp({ backend, token, logger, work }: AdminAppOptions): Koa {
  const koa = new Koa();
  koa.on('error', (error: Error) => logger.debug({ event: 'connection-error', err: error }, 'a connection broke'));
  const router = new Router();
  healthRoutes(router, backend);
  streamRoutes(router, backend);
  operationRoutes(router, backend);
  work.mount(router);
  koa.use(renderFailures(logger));
  koa.use(access(token));
  koa.use(router.routes());
  koa.use(router.allowedMethods());
  return koa;
}

function healthRoutes(router: Router, backend: AdminBackend): void {
  router.get('/__firn/healthz', (ctx) => {
    const health = backend.health();
    answerHealth(ctx, health, health.healthy);
  });
  router.get('/__firn/readyz', (ctx) => {
    const health = backend.health();
    answerHealth(ctx, health, health.healthy && health.ready);
  });
  router.get('/__firn/metrics', async (ctx) => {
    const { contentType, text } = await backend.metrics();
    ctx.set('Content-Type', contentType);
    ctx.body = text;
  });
}

function answerHealth(ctx: Context, { reasons }: Health, ok: boolean): void {
  ctx.status = ok ? 200 : 503;
  if (!ok) ctx.set('Retry-After', '1');
  ctx.body = { status: !ok ? 'unavailable' : reasons.length > 0 ? 'degraded' : 'ok', reasons };
}

function streamRoutes(router: Router, backend: AdminBackend): void {
  router.get('/__firn/streams', async (ctx) => {
    const query = new URLSearchParams(ctx.querystring);
    const limit = numberOf(query.get('limit'), 'limit', PAGE_DEFAULT, PAGE_MAX);
    const rows = await backend.streams(query.get('prefix') ?? '', query.get('after'), limit);
    ctx.body = { streams: rows, next: rows.length < limit ? null : rows.at(-1)!.key };
  });
  router.get('/__firn/streams/*key', async (ctx) => {
    // From the target itself: a key's own escapes are decoded once, by the one place that makes keys.
    const target = ctx.req.url ?? '';
    const question = target.indexOf('?');
    const found = await backend.stream(baseKey((question < 0 ? target : target.slice(0, question)).slice(STREAMS.length)));
    if (found === null) throw new AdminRefusal(404, 'STREAM_NOT_FOUND', 'there is no such stream');
    ctx.body = found;
  });
  router.delete('/__firn/buckets/:bucket', async (ctx) => {
    ctx.body = await backend.purge(decodeBucketId((ctx.req.url ?? '').split('?')[0]!.slice('/__firn/buckets/'.length)));
  });
}

function operationRoutes(router: Router, backend: AdminBackend): void {
  router.post('/__firn/seal', (ctx) => operate(ctx, (signal, query) => backend.seal(query.get('prefix') ?? '', signal)));
  router.post('/__firn/compact', (ctx) => operate(ctx, (signal) => backend.compact(signal)));
  router.post('/__firn/collect', (ctx) => operate(ctx, (signal) => backend.collect(signal)));
  router.post('/__firn/checkpoint', (ctx) => operate(ctx, (signal) => backend.checkpoint(signal)));
  router.post('/__firn/verify', (ctx) => operate(ctx, (signal, query) => backend.verify(flagOf(query.get('deep')), signal)));
  router.post('/__firn/webhook-keys/rotate', (ctx) => operate(ctx, () => backend.rotateWebhookKey()));
  router.get('/__firn/jobs', async (ctx) => {
    ctx.body = await backend.jobs();
  });
}

/** Runs something and waits for it. Throws 504 at the time-out. */
async function operate(ctx: Context, run: (signal: AbortSignal, query: URLSearchParams) => Promise<object>): Promise<void> {
  const query = new URLSearchParams(ctx.querystring);
  const timeoutMs = numberOf(query.get('timeout_ms'), 'timeout_ms', TIMEOUT_DEFAULT_MS, TIMEOUT_MAX_MS);
  const left = new AbortController();
  const forget = onceOver(ctx.res, () => left.abort(new Error('the client left')));
  try {
    ctx.body = await withSignal([left.signal], timeoutMs, (signal) => raced(run(signal, query), signal));
  } catch (error) {
    if (error instanceof DeadlinePassed) throw new AdminRefusal(504, 'TIMED_OUT', `this was not done within ${timeoutMs} ms`);
    throw error;
  } finally {
    forget();
  }
}

/** A time-out is answered also while the work itself is slow to give up. */
function raced<T>(running: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      if (signal.reason instanceof DeadlinePassed) reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    running.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function numberOf(text: string | null, name: string, fallback: number, max: number): number {
  if (text === null) return fallback;
  const value = /^[0-9]+$/.test(text) ? Number(text) : NaN;
  if (!(value >= 1 && value <= max)) throw new AdminRefusal(400, 'INVALID_QUERY', `${name} is a whole number from 1 to ${max}`);
  return value;
}

function flagOf(text: string | null): boolean {
  if (text === null || text === '0' || text === 'false') return false;
  if (text === '1' || text === 'true' || text === '') return true;
  throw new AdminRefusal(400, 'INVALID_QUERY', 'a flag is 0, 1, false or true');
}
