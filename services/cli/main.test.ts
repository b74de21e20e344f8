import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { main } from './main.js';

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command line in this process; everything it would touch of its own process is passed in. */
async function firn(args: readonly string[], env: Record<string, string> = {}, stdin = ''): Promise<Outcome> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  let code = 0;
  await main(args, { env, stdin: Readable.from(stdin === '' ? [] : [Buffer.from(stdin)]), stdout, stderr, onSignal: () => () => undefined, onFatal: () => undefined, exit: (status) => { code = status; } });
  const all = (stream: PassThrough): string => String(stream.read() ?? '');
  return { code, out: all(stdout), err: all(stderr) };
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
    for (const name of ['serve', 'worker', 'checkpoint', 'verify', 'restore', 'streams', 'tail', 'append', 'bootstrap', 'snapshot']) expect(out).toMatch(new RegExp(`^ {2}${name}\\b`, 'm'));
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

  it('refuse a snapshot of a stream that the bucketed surface does not have', async () => {
    expect(await firn(['snapshot', 'get', 'x/y/z'])).toMatchObject({ code: 1, err: expect.stringContaining('not of the form bucket/stream') });
  });
});
