import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough, Readable, Writable } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { main } from './main.js';

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command line in this process; everything it would touch of its own process is passed in. */
async function firn(args: readonly string[], env: Record<string, string> = {}, stdin = '', output: Writable | null = null): Promise<Outcome> {
  const [read, stderr] = [new PassThrough(), new PassThrough()];
  const stdout = output ?? read;
  let code = 0;
  await main(args, { env, stdin: Readable.from(stdin === '' ? [] : [Buffer.from(stdin)]), stdout, stderr, now: Date.now, onSignal: () => () => undefined, onFatal: () => undefined, exit: (status) => { code = status; } });
  const all = (stream: PassThrough): string => String(stream.read() ?? '');
  return { code, out: all(read), err: all(stderr) };
}

let server: Server | null = null;
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => (server === null ? resolve(null) : server.close(resolve)));
  server = null;
});

/** A listener that answers by `handle`; what a command sends is looked at here, what a node answers in the tests of whole processes. */
async function listener(handle: (request: IncomingMessage, response: ServerResponse, body: string) => void): Promise<string> {
  server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    handle(request, response, Buffer.concat(pieces).toString('utf8'));
  });
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  return String((server.address() as AddressInfo).port);
}

describe('command line', () => {
  it('lists every command, and every setting of serve as a flag', async () => {
    const { code, out } = await firn(['--help']);
    expect(code).toBe(0);
    for (const name of ['serve', 'worker', 'checkpoint', 'collect', 'verify', 'restore', 'streams', 'tail', 'append', 'bootstrap', 'snapshot']) expect(out).toMatch(new RegExp(`^ {2}${name}\\b`, 'm'));
    const serve = await firn(['serve', '--help']);
    for (const flag of ['--seal-age-ms', '--data-dir', '--s3-force-path-style', '--hot-keep-ms']) expect(serve.out).toContain(flag);
  });

  it('ends with 2 and a sentence for wrong arguments and wrong settings', async () => {
    expect(await firn(['melt'])).toMatchObject({ code: 2, err: expect.stringContaining('unknown command') });
    expect(await firn(['serve', '--seal-age', '5'])).toMatchObject({ code: 2, err: expect.stringContaining('unknown option') });
    expect(await firn(['append'])).toMatchObject({ code: 2, err: expect.stringContaining('missing required argument') });
    expect(await firn(['snapshot', 'put', 'demo/a'])).toMatchObject({ code: 2, err: expect.stringContaining('missing required argument') });
    const { code, err } = await firn(['serve', '--port', 'seven'], { FIRN_SEAL_AGE_MS: 'soon' });
    expect(code).toBe(2);
    expect(err).toContain('firn: --port is "seven": allowed is a whole number from 0 to 65535\n');
    expect(err).toContain('firn: FIRN_SEAL_AGE_MS is "soon"');
  });

  it('says what a worker needs', async () => {
    expect(await firn(['worker'])).toEqual({ code: 1, out: '', err: 'firn: a worker needs FIRN_REDIS_URL: without Redis a node runs its jobs itself\n' });
    const fs = await firn(['worker'], { FIRN_REDIS_URL: 'redis://127.0.0.1:1' });
    expect(fs).toEqual({ code: 1, out: '', err: 'firn: a worker needs the bucket of its node (FIRN_S3_BUCKET): with FIRN_COLD=fs only the node itself reaches its objects, and runs its jobs\n' });
    for (const count of ['0', '13', 'x', '1.5']) expect(await firn(['worker', '--concurrency', count])).toMatchObject({ code: 2, err: expect.stringContaining('a whole number from 1 to 12') });
    const { out } = await firn(['worker', '--help']);
    for (const flag of ['--redis-url', '--s3-bucket', '--node-admin-url', '--concurrency', '--check']) expect(out).toContain(flag);
    for (const flag of ['--data-dir', '--seal-bytes']) expect(out).not.toContain(flag);
  });

  it('says that no node answers', async () => {
    const port = await listener(() => undefined);
    await new Promise((resolve) => server?.close(resolve));
    expect(await firn(['checkpoint', '--admin-port', port])).toEqual({ code: 1, out: '', err: `firn: no node answers at http://127.0.0.1:${port}\n` });
  });
});

describe('calls to a node', () => {
  it('go to the admin listener with the token, and show its answer', async () => {
    const seen: string[] = [];
    const port = await listener((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers.authorization}`);
      response.end('{"checkpoints":[]}');
    });
    expect(await firn(['checkpoint'], { FIRN_ADMIN_PORT: port, FIRN_ADMIN_TOKEN: 's3cret' })).toEqual({ code: 0, out: '{"checkpoints":[]}\n', err: '' });
    expect(seen).toEqual(['POST /__firn/checkpoint?timeout_ms=3600000 Bearer s3cret']);
  });

  it('show the sentence of a refusal, and never the token', async () => {
    const port = await listener((_request, response) => {
      response.writeHead(501).end('{"error":{"code":"NO_COLD_STORE","message":"this server has no cold store"}}');
    });
    const { code, err } = await firn(['checkpoint'], { FIRN_ADMIN_PORT: port, FIRN_ADMIN_TOKEN: 's3cret' });
    expect(code).toBe(1);
    expect(err).toBe('firn: POST /__firn/checkpoint: 501 NO_COLD_STORE: this server has no cold store\n');
  });

  it('append from the argument or standard input, on the surface that the key belongs to', async () => {
    const seen: string[] = [];
    const port = await listener((request, response, body) => {
      seen.push(`${request.method} ${request.url} ${request.headers['content-type']} ${request.headers['stream-closed'] ?? '-'} ${body}`);
      response.writeHead(request.method === 'PUT' ? 201 : 204, { 'Stream-Next-Offset': '00000000000000000003' }).end();
    });
    const env = { FIRN_PORT: port };
    expect(await firn(['append', 'demo/a b', 'one', '--create'], env)).toEqual({ code: 0, out: '00000000000000000003\n', err: '' });
    expect((await firn(['append', 'x/y/z', '--content-type', 'application/json', '--close'], env, '{"a":1}')).code).toBe(0);
    expect(seen).toEqual([
      'PUT /demo/a%20b text/plain - ', 'POST /demo/a%20b text/plain - one', 'POST /v1/stream/x/y/z application/json true {"a":1}',
    ]);
  });

  it('list all pages of streams, up to a limit', async () => {
    const seen: string[] = [];
    const port = await listener((request, response) => {
      seen.push(request.url ?? '');
      const second = (request.url ?? '').includes('after=demo%2Fb');
      response.end(JSON.stringify(second ? { streams: [{ key: 'demo/c' }], next: null } : { streams: [{ key: 'demo/a' }, { key: 'demo/b' }], next: 'demo/b' }));
    });
    expect(await firn(['streams', '--prefix', 'demo/'], { FIRN_ADMIN_PORT: port })).toMatchObject({ code: 0, out: '{"key":"demo/a"}\n{"key":"demo/b"}\n{"key":"demo/c"}\n' });
    expect(seen).toEqual(['/__firn/streams?prefix=demo%2F&limit=1000', '/__firn/streams?prefix=demo%2F&limit=1000&after=demo%2Fb']);
    expect((await firn(['streams', '--limit', '2'], { FIRN_ADMIN_PORT: port })).out).toBe('{"key":"demo/a"}\n{"key":"demo/b"}\n');
  });

  it('follow a stream over a cut connection without repeating a byte', async () => {
    const seen: string[] = [];
    const port = await listener((request, response) => {
      seen.push(request.url ?? '');
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      if (seen.length === 1) {
        response.write('event: data\ndata:one\ndata:\n\nevent: control\ndata:{"streamNextOffset":"00000000000000000004"}\n\n');
        response.write('event: data\ndata:tw', () => response.destroy());
      } else {
        response.end('event: data\ndata:two\ndata:\n\nevent: control\ndata:{"streamNextOffset":"00000000000000000008","upToDate":true,"streamClosed":true}\n\n');
      }
    });
    expect(await firn(['tail', 'demo/a'], { FIRN_PORT: port })).toEqual({ code: 0, out: 'one\ntwo\n', err: 'firn: connection lost, trying again\n' });
    expect(seen).toEqual(['/demo/a?offset=-1&live=sse', '/demo/a?offset=00000000000000000004&live=sse']);
  });

  it('follow goes on after a refusal that passes, and from where it was', async () => {
    const seen: string[] = [];
    const port = await listener((request, response) => {
      seen.push(request.url ?? '');
      const event = (data: object): string => `event: control\ndata:${JSON.stringify(data)}\n\n`;
      if (seen.length === 1) response.writeHead(503).end('{"error":{"code":"LIVE_READ_BACKPRESSURE","message":"too many"}}');
      else if (seen.length === 2) response.writeHead(200, { 'content-type': 'text/event-stream' }).end('event: error\ndata:{"error":{"code":"GROUP_RESTARTING","message":"restarting"}}\n\n');
      else if (seen.length === 3) response.writeHead(200, { 'content-type': 'text/event-stream' }).end(event({ streamNextOffset: '5', streamClosed: true }));
    });
    const run = await firn(['tail', 'demo/a', '--from', '5'], { FIRN_PORT: port });
    expect([run.code, run.err.split('trying again').length]).toEqual([0, 3]);
    expect(run.err).toContain('503 LIVE_READ_BACKPRESSURE: too many');
    expect(seen).toHaveLength(3);
  });

  it('follow ends at a refusal that stays, also in mid-stream', async () => {
    const port = await listener((_request, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end('event: error\ndata:{"error":{"code":"STREAM_NOT_FOUND","message":"gone"}}\n\n'));
    expect(await firn(['tail', 'demo/a'], { FIRN_PORT: port })).toMatchObject({ code: 1, err: expect.stringContaining('STREAM_NOT_FOUND') });
  });

  it('end quietly when nobody reads their output any more', async () => {
    const port = await listener((request, response) => {
      if (request.url?.startsWith('/__firn') === true) return void response.end(JSON.stringify({ streams: Array.from({ length: 1_000 }, (_, n) => ({ key: `demo/${n}` })), next: 'demo/999' }));
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const more = setInterval(() => response.write('event: data\ndata:x\n\nevent: control\ndata:{"streamNextOffset":"1"}\n\n'), 5);
      response.on('close', () => clearInterval(more));
    });
    for (const args of [['tail', 'demo/a'], ['streams']]) {
      const closed = new Writable({ write: (_chunk, _encoding, done) => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })) });
      expect([args, await firn(args, { FIRN_PORT: port, FIRN_ADMIN_PORT: port }, '', closed)]).toEqual([args, { code: 0, out: '', err: '' }]);
    }
  });

  it('take a key to the surface that has it, by the rules of keys', async () => {
    const seen: string[] = [];
    const port = await listener((request, response) => {
      seen.push(request.url ?? '');
      response.writeHead(204, { 'Stream-Next-Offset': '1' }).end();
    });
    for (const key of ['demo/a', 'demo/streams', 'demo/$a', '__up/a', 'abc/a', 'DEMO/a', 'a', 'demo/ä?#%']) expect((await firn(['append', key, 'x'], { FIRN_PORT: port })).code).toBe(0);
    expect(seen).toEqual(['/demo/a', '/v1/stream/demo/streams', '/v1/stream/demo/%24a', '/v1/stream/__up/a', '/v1/stream/abc/a', '/v1/stream/DEMO/a', '/v1/stream/a', '/demo/%C3%A4%3F%23%25']);
    for (const key of ['', 'a//b', 'demo/..', '/a', `demo/${'x'.repeat(130)}`]) expect(await firn(['append', key, 'x'], { FIRN_PORT: port })).toMatchObject({ code: 1, err: expect.stringContaining('names no stream') });
    expect(await firn(['snapshot', 'get', 'demo/streams'])).toMatchObject({ code: 1, err: expect.stringContaining('not of the form bucket/stream') });
  });

  it('refuse a count that is none', async () => {
    for (const count of ['abc', '0', '-1', '1.5', '']) expect(await firn(['streams', '--limit', count])).toMatchObject({ code: 2, out: '', err: expect.stringContaining('whole number') });
  });

  it('refuse a snapshot of a stream that the bucketed surface does not have', async () => {
    expect(await firn(['snapshot', 'get', 'x/y/z'])).toMatchObject({ code: 1, err: expect.stringContaining('not of the form bucket/stream') });
  });
});
