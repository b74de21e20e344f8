import { request, type IncomingHttpHeaders } from 'node:http';
import pino from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../../shared/observability/index.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { listen, type Listener } from '../http/server.js';
import { createAdminApp } from './app.js';
import type { AdminBackend, StreamRow } from './types.js';
import { WorkRoutes } from './work-routes.js';

let listener: Listener;
const lines: string[] = [];
afterEach(() => listener.shutdown(100));

function row(key: string): StreamRow {
  return { key, contentType: 'text/plain', incarnation: '5', tail: '1', retained: '0', coldFrontier: '0', closed: false, ttl: null, expiresAt: null };
}

const calls: unknown[][] = [];
const backend: AdminBackend = {
  health: () => ({ healthy: true, ready: true, reasons: [] }),
  metrics: async () => ({ contentType: 'text/plain; version=0.0.4', text: 'firn_x 1\n' }),
  streams: async (...args) => { calls.push(args); return [row('demo/a'), row('demo/b')]; },
  stream: async (key) => (key === 'demo/a b' ? { key } : null),
  seal: async (prefix) => { calls.push(['seal', prefix]); return { segments: 1, bytes: 2, streams: 3 }; },
  checkpoint: async () => { throw new FirnError('NO_COLD_STORE'); },
  verify: async (deep) => ({ deep, problems: [] }),
  compact: async () => ({}),
  collect: async () => ({}),
  jobs: async () => ({ jobs: {} }),
  purge: async (bucket) => ({ bucket, streams: 0 }),
  rotateWebhookKey: async () => ({ kid: 'ds_x' }),
};

async function start(over: Partial<AdminBackend> = {}, token: string | null = null): Promise<void> {
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const app = createAdminApp({ backend: { ...backend, ...over }, token, logger, work: new WorkRoutes(() => null, createMetrics().workerStore) });
  listener = await listen({ host: '127.0.0.1', port: 0, handler: app.callback(), logger });
}

function send(method: string, path: string, headers: Record<string, string> = {}): Promise<{ status: number; headers: IncomingHttpHeaders; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ port: listener.port, method, path: `/__firn/${path}`, headers }, (res) => {
      let text = '';
      res.setEncoding('utf8').on('data', (piece: string) => { text += piece; });
      res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, text }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

const code = (text: string): string => (JSON.parse(text) as { error: { code: string } }).error.code;

describe('the admin listener', () => {
  it('says how the node is: degraded is 200 with reasons, refused writes are 503 for readyz alone', async () => {
    let health = { healthy: true, ready: true, reasons: [] as string[] };
    await start({ health: () => health });
    expect([await send('GET', 'healthz'), await send('GET', 'readyz')].map((answer) => [answer.status, JSON.parse(answer.text) as unknown])).toEqual([[200, { status: 'ok', reasons: [] }], [200, { status: 'ok', reasons: [] }]]);
    health = { healthy: true, ready: true, reasons: ['the store is away'] };
    expect(JSON.parse((await send('GET', 'readyz')).text)).toEqual({ status: 'degraded', reasons: ['the store is away'] });
    health = { healthy: true, ready: false, reasons: ['the disk is full'] };
    expect([(await send('GET', 'healthz')).status, (await send('GET', 'readyz')).status]).toEqual([200, 503]);
    health = { healthy: false, ready: true, reasons: ['no store'] };
    expect([(await send('GET', 'healthz')).status, (await send('GET', 'readyz')).status]).toEqual([503, 503]);
  });

  it('shows metrics, jobs, pages of streams and one stream', async () => {
    await start();
    const metrics = await send('GET', 'metrics');
    expect([metrics.text, metrics.headers['content-type']]).toEqual(['firn_x 1\n', 'text/plain; version=0.0.4']);
    const page = JSON.parse((await send('GET', 'streams?prefix=demo%2F&after=demo%2F0&limit=2')).text) as { streams: unknown[]; next: string };
    expect([page.streams.length, page.next, calls.at(-1)]).toEqual([2, 'demo/b', ['demo/', 'demo/0', 2]]);
    expect(JSON.parse((await send('GET', 'streams')).text)).toMatchObject({ next: null });
    expect((await send('GET', 'streams?limit=0')).status).toBe(400);
    expect((await send('GET', 'streams?limit=1001')).status).toBe(400);
    expect(JSON.parse((await send('GET', 'streams/demo/a%20b?x=1')).text)).toEqual({ key: 'demo/a b' });
    const missing = await send('GET', 'streams/demo/none');
    expect([missing.status, code(missing.text)]).toEqual([404, 'STREAM_NOT_FOUND']);
    expect((await send('GET', 'streams/demo/%zz')).status).toBe(400);
    expect(JSON.parse((await send('GET', 'jobs')).text)).toEqual({ jobs: {} });
  });

  it('runs work and waits for it', async () => {
    await start();
    expect(JSON.parse((await send('POST', 'seal?prefix=demo%2F')).text)).toEqual({ segments: 1, bytes: 2, streams: 3 });
    expect(calls.at(-1)).toEqual(['seal', 'demo/']);
    for (const [query, deep] of [['', false], ['?deep=1', true], ['?deep=true', true], ['?deep=0', false]] as const) expect(JSON.parse((await send('POST', `verify${query}`)).text)).toEqual({ deep, problems: [] });
    expect((await send('POST', 'verify?deep=yes')).status).toBe(400);
    const none = await send('POST', 'checkpoint');
    expect([none.status, code(none.text)]).toEqual([501, 'NO_COLD_STORE']);
    for (const route of ['compact', 'collect']) expect((await send('POST', route)).status).toBe(200);
  });

  it('answers 504 at the time-out, and gives up the work', async () => {
    let aborted = false;
    await start({ seal: (_prefix, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => { aborted = true; reject(signal.reason as Error); })) });
    const answer = await send('POST', 'seal?timeout_ms=30');
    expect([answer.status, code(answer.text), aborted]).toEqual([504, 'TIMED_OUT', true]);
    expect((await send('POST', 'seal?timeout_ms=x')).status).toBe(400);
  });

  it('BKT-07 purges by bucket id alone', async () => {
    await start();
    expect(JSON.parse((await send('DELETE', 'buckets/demo')).text)).toEqual({ bucket: 'demo', streams: 0 });
    expect((await send('DELETE', 'buckets/UPPER')).status).toBe(400);
  });

  it('asks for its token, if it has one, on every route', async () => {
    await start({}, 'secret');
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: 'Basic secret' }, { authorization: 'Bearer secretx' }] as Record<string, string>[]) {
      for (const [method, path] of [['GET', 'metrics'], ['GET', 'healthz'], ['DELETE', 'buckets/demo'], ['GET', 'nothing']] as const) {
        const answer = await send(method, path, headers);
        expect([answer.status, code(answer.text), answer.headers['www-authenticate']]).toEqual([401, 'INVALID_CREDENTIAL', 'Bearer']);
      }
    }
    expect((await send('GET', 'metrics', { authorization: 'bearer secret' })).status).toBe(200);
  });

  it('without a token answers to a name of this machine alone, so that no page can give its own name to it', async () => {
    await start();
    for (const host of ['127.0.0.1:4438', '127.8.9.1', 'localhost:4438', 'LOCALHOST', '[::1]:4438']) expect([host, (await send('GET', 'streams', { host })).status]).toEqual([host, 200]);
    for (const host of ['evil.example:4438', 'evil.example', '10.0.0.1:4438', 'localhost.evil.example', '127.0.0.1.evil.example', '[::2]', 'localhost:4438:1', '[::1']) {
      for (const [method, path] of [['GET', 'streams'], ['POST', 'seal'], ['DELETE', 'buckets/demo']] as const) {
        const answer = await send(method, path, { host });
        expect([host, answer.status, code(answer.text)]).toEqual([host, 403, 'FORBIDDEN']);
      }
    }
  });

  it('with a token answers to any name', async () => {
    await start({}, 'secret');
    expect((await send('GET', 'metrics', { host: 'logs.example', authorization: 'Bearer secret' })).status).toBe(200);
  });

  it('lets no page of another origin do anything', async () => {
    await start();
    expect((await send('POST', 'seal', { origin: 'https://evil.example' })).status).toBe(403);
    expect((await send('POST', 'seal', { origin: 'null' })).status).toBe(403);
    expect((await send('POST', 'seal', { origin: `http://127.0.0.1:${listener.port}`, host: `127.0.0.1:${listener.port}` })).status).toBe(200);
  });

  it('answers unknown routes, wrong methods and failures as JSON', async () => {
    await start({ jobs: async () => { throw new Error('jobs broke'); } });
    const unknown = await send('GET', 'nothing');
    expect([unknown.status, code(unknown.text), unknown.headers['cache-control']]).toEqual([404, 'NOT_FOUND', 'no-store']);
    const wrong = await send('GET', 'seal');
    expect([wrong.status, code(wrong.text), wrong.headers.allow]).toEqual([405, 'METHOD_NOT_ALLOWED', 'POST']);
    const failed = await send('GET', 'jobs');
    expect([failed.status, code(failed.text)]).toEqual([500, 'INTERNAL']);
    expect(lines.join('')).toContain('jobs broke');
  });
});
