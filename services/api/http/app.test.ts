import type { Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { FirnError } from '../../../shared/protocol/errors.js';
import { advance, ZERO, type Offset } from '../../../shared/protocol/types.js';
import type { AppendRequest, LiveHandle, StreamLog } from '../log/types.js';
import { INCARNATION, piecesOf, record, ScriptedServer, windowOf, type Answer } from './testing/scripted.test-support.js';

let server: ScriptedServer;
afterEach(() => server.stop());

const OCTETS = { 'content-type': 'application/octet-stream' };
const errorOf = (answer: Answer): { code: string; message: string } => (JSON.parse(answer.body.toString()) as { error: { code: string; message: string } }).error;

function appended(request: AppendRequest) {
  const tail = advance(ZERO, request.body.length);
  return { kind: 'applied' as const, record: record({ tail }), range: { start: ZERO, end: tail }, closedHere: false, producer: null, replacedEpoch: false };
}

describe('failures', () => {
  it('R081 I9 cuts an answer whose source fails after the head', async () => {
    server = await ScriptedServer.start({ read: async () => windowOf([Buffer.alloc(100_000), new Error('the disk is gone')], {}, 200_000) });
    await expect(server.send('GET', '/demo/s')).rejects.toThrow();
    expect(server.lines.join('')).toContain('answer-cut');
  });

  it('R081 I9 cuts an answer whose source ends short, compressed or not', async () => {
    server = await ScriptedServer.start({ read: async () => windowOf([Buffer.alloc(70_000, 10)], { contentType: 'application/json' }, 100_000) });
    await expect(server.send('GET', '/demo/s')).rejects.toThrow();
    await expect(server.send('GET', '/demo/s', { 'accept-encoding': 'gzip' })).rejects.toThrow();
  });

  it('I9 answers 5xx when the source fails before its first piece', async () => {
    server = await ScriptedServer.start({ read: async () => windowOf([new FirnError('COLD_STORE_FAILED', { detail: 'bucket b1 timed out' })], {}, 10) });
    const answer = await server.send('GET', '/demo/s');
    expect([answer.status, errorOf(answer)]).toEqual([502, { code: 'COLD_STORE_FAILED', message: 'the cold store failed' }]);
  });

  it('ERR-04 tells the log and nobody else what went wrong inside', async () => {
    server = await ScriptedServer.start({ append: async () => { throw new Error('secret path'); } });
    const answer = await server.send('POST', '/demo/s', OCTETS, 'x');
    expect([answer.status, errorOf(answer).code]).toEqual([500, 'INTERNAL']);
    expect(answer.body.toString()).not.toContain('secret');
    expect(server.lines.join('')).toContain('secret path');
  });

  it('R079 ERR-13 SEC-01 gives every error its headers and those of every answer', async () => {
    const refusal = new FirnError('STREAM_CLOSED', { headers: { 'Stream-Closed': 'true', 'Stream-Next-Offset': '5' } });
    server = await ScriptedServer.start({ append: async () => { throw refusal; } }, { corsOrigins: ['https://a.example'] });
    const answer = await server.send('POST', '/demo/s', { ...OCTETS, origin: 'https://a.example' }, 'x');
    expect(answer.headers).toMatchObject({
      'stream-closed': 'true', 'stream-next-offset': '5', 'content-type': 'application/json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', 'cross-origin-resource-policy': 'cross-origin',
      'access-control-allow-origin': 'https://a.example', vary: 'Origin',
    });
    expect(answer.headers['access-control-expose-headers']).toContain('Stream-Closed');
    const other = await server.send('POST', '/demo/s', { ...OCTETS, origin: 'https://b.example' }, 'x');
    expect([other.headers['access-control-allow-origin'], other.headers.vary]).toEqual([undefined, 'Origin']);
  });

  it('HD-12 gives a refused HEAD no body', async () => {
    server = await ScriptedServer.start({ head: async () => { throw new FirnError('STREAM_NOT_FOUND'); } });
    const text = await server.raw('HEAD /demo/s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    expect(text).toMatch(/^HTTP\/1.1 404 [\s\S]*Ursula-Protocol: 11[\s\S]*\r\n\r\n$/);
  });
});

describe('bodies', () => {
  it('R011 stores nothing of a half-sent body', async () => {
    const append = vi.fn<StreamLog['append']>(async (request) => appended(request));
    server = await ScriptedServer.start({ append });
    const socket = await server.connect();
    socket.write('POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nabc');
    await vi.waitFor(() => expect(server.app.bodies.heldBytes).toBe(10));
    socket.destroy();
    await vi.waitFor(() => expect(server.app.bodies.heldBytes).toBe(0));
    expect(append).not.toHaveBeenCalled();
    expect([...server.metrics.requests.samples()]).toEqual([{ labels: { route: 'append', status: '499' }, value: 1 }]);
  });

  it('APP-11 joins the pieces of declared and chunked bodies', async () => {
    const bodies: string[] = [];
    server = await ScriptedServer.start({ append: async (request) => { bodies.push(request.body.toString()); return appended(request); } });
    for (const head of ['Content-Length: 6', 'Transfer-Encoding: chunked']) {
      const socket = await server.connect();
      const chunked = head.startsWith('T');
      socket.write(`POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n${head}\r\n\r\n`);
      for (const piece of ['ab', 'cd', 'ef']) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        socket.write(chunked ? `2\r\n${piece}\r\n` : piece);
      }
      if (chunked) socket.write('0\r\n\r\n');
    }
    await vi.waitFor(() => expect(bodies).toEqual(['abcdef', 'abcdef']));
  });

  it('APP-10 APP-18 ERR-06 refuses one byte over the limit, by its length and while it grows', async () => {
    server = await ScriptedServer.start({ append: async (request) => appended(request) }, { requestBytesMax: 1000 });
    expect((await server.send('POST', '/demo/s', OCTETS, 'x'.repeat(1000))).status).toBe(204);
    for (const headers of [{ ...OCTETS, 'content-length': '1001' }, { ...OCTETS, 'transfer-encoding': 'chunked' }]) {
      const answer = await server.send('POST', '/demo/s', headers, 'x'.repeat(1001));
      expect([answer.status, errorOf(answer).code, answer.headers['ursula-max-request-bytes']]).toEqual([413, 'REQUEST_TOO_LARGE', '1000']);
    }
    expect(server.app.bodies.heldBytes).toBe(0);
  });

  it('I11 refuses bodies beyond the budget of the node with 503, also while they grow, and takes them again', async () => {
    server = await ScriptedServer.start({ append: async (request) => appended(request) }, {}, { ingressBytesMax: 1_100_000 });
    const head = (bytes: number): string => `POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: ${bytes}\r\n\r\n`;
    const socket = await server.connect();
    socket.write(`${head(1_000_000)}${'x'.repeat(600_000)}`);
    await vi.waitFor(() => expect(server.app.bodies.heldBytes).toBe(1_000_000));
    for (const bytes of [200_000, 110_000]) {
      const text = await server.raw(`${head(bytes)}${'x'.repeat(bytes - 1_000)}`, (got) => got.includes('}}'));
      expect(text).toMatch(/^HTTP\/1.1 503 [\s\S]*Retry-After: 1[\s\S]*INGRESS_BODY_BYTES_LIMIT_REACHED/);
    }
    await vi.waitFor(() => expect(server.app.bodies.heldBytes).toBe(1_000_000));
    socket.destroy();
    await vi.waitFor(() => expect(server.app.bodies.heldBytes).toBe(0));
    expect((await server.send('POST', '/demo/s', OCTETS, 'x')).status).toBe(204);
  });

  it('I11 bodies that announce much and bring little leave the budget to the others', async () => {
    server = await ScriptedServer.start({ append: async (request) => appended(request), publishSnapshot: async (request) => { for await (const piece of request.body) if (piece.length === 0) break; return { record: record(), offset: request.offset, digest: 'd' }; } });
    for (let i = 0; i < 600; i++) {
      const socket = await server.connect();
      socket.write(`${i % 2 === 0 ? 'POST /demo/s' : 'PUT /demo/s/snapshot/0'} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\nabc`);
    }
    await vi.waitFor(() => expect(server.app.bodies.heldBytes).toBe(600 * 65_536));
    expect((await server.send('POST', '/demo/s', OCTETS, 'x')).status).toBe(204);
  });

  it('APP-11 a large body arrives whole, however it is cut', async () => {
    const bodies: Buffer[] = [];
    server = await ScriptedServer.start({ append: async (request) => { bodies.push(request.body); return appended(request); } });
    for (const bytes of [65_536, 65_537, 262_144, 262_145, 900_001]) {
      const sent = Buffer.from(Uint8Array.from({ length: bytes }, (_, i) => (i * 7 + (i >> 8)) & 255));
      expect((await server.send('POST', '/demo/s', OCTETS, sent)).status).toBe(204);
      expect(bodies.pop()!.equals(sent)).toBe(true);
    }
    expect(server.app.bodies.heldBytes).toBe(0);
  });

  it('WO-08 cuts a large body that would take longer than ten minutes', async () => {
    // 60,000,000 bytes in 600 s are 10,000 in this window of 100 ms.
    server = await ScriptedServer.start({ append: async (request) => appended(request) }, { requestBytesMax: 100_000_000 }, { bodyWindowMs: 100 });
    const socket = await server.connect();
    let text = '';
    socket.setEncoding('latin1').on('data', (piece: string) => { text += piece; });
    socket.write('POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 60000000\r\n\r\n');
    const trickle = setInterval(() => socket.write('x'.repeat(1_000)), 20);
    await vi.waitFor(() => expect(text).toMatch(/^HTTP\/1.1 408 [\s\S]*BODY_TOO_SLOW/), { timeout: 3_000 });
    clearInterval(trickle);
  });

  it('WO-08 R139 cuts a stalled body with 408 and closes, and takes a slow one', async () => {
    const append = vi.fn<StreamLog['append']>(async (request) => appended(request));
    server = await ScriptedServer.start({ append }, {}, { bodyWindowMs: 100 });
    const stalled = await server.raw('POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nabc');
    expect(stalled).toMatch(/^HTTP\/1.1 408 [\s\S]*Connection: close[\s\S]*BODY_TOO_SLOW/);
    expect(append).not.toHaveBeenCalled();
    const socket = await server.connect();
    socket.write('POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 5000\r\n\r\n');
    for (let sent = 0; sent < 5000; sent += 500) {
      socket.write('x'.repeat(500));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await vi.waitFor(() => expect(append).toHaveBeenCalledTimes(1));
  });

  it('asks for a body only when it is worth reading (Expect: 100-continue)', async () => {
    let refusal: Error | null = new FirnError('WAL_DISK_PRESSURE');
    server = await ScriptedServer.start({ append: async (request) => appended(request), refusingWrites: () => refusal });
    const head = 'POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n';
    expect(await server.raw(head)).toMatch(/^HTTP\/1.1 503 [\s\S]*WAL_DISK_PRESSURE/);
    refusal = null;
    const socket = await server.connect();
    let text = '';
    socket.setEncoding('latin1').on('data', (piece: string) => { text += piece; });
    socket.write(head);
    await vi.waitFor(() => expect(text).toBe('HTTP/1.1 100 Continue\r\n\r\n'));
    socket.write('abc');
    await vi.waitFor(() => expect(text).toContain('HTTP/1.1 204 '));
  });

  it('SNAP-11 ERR-06 streams a snapshot, refuses one that grows over the limit, and one that breaks off', async () => {
    const outcomes: string[] = [];
    const publishSnapshot: StreamLog['publishSnapshot'] = async (request) => {
      let bytes = 0;
      try {
        for await (const piece of request.body) bytes += piece.length;
        outcomes.push(`${bytes}`);
      } catch (error) {
        outcomes.push((error as FirnError).code);
        throw error;
      }
      return { record: record(), offset: request.offset, digest: 'd' };
    };
    server = await ScriptedServer.start({ publishSnapshot }, { snapshotBytesMax: 300_000 });
    expect((await server.send('PUT', '/demo/s/snapshot/0', {}, Buffer.alloc(300_000))).status).toBe(204);
    const large = await server.send('PUT', '/demo/s/snapshot/0', { 'transfer-encoding': 'chunked' }, Buffer.alloc(300_001));
    expect([large.status, large.headers['ursula-max-snapshot-bytes'], large.headers['ursula-max-request-bytes']]).toEqual([413, '300000', undefined]);
    const socket = await server.connect();
    socket.write(`PUT /demo/s/snapshot/0 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n${'x'.repeat(500)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
    socket.destroy();
    await vi.waitFor(() => expect(outcomes).toEqual(['300000', 'SNAPSHOT_TOO_LARGE', 'BODY_UNREADABLE']));
    expect(server.app.bodies.heldBytes).toBe(0);
  });
});

describe('answers', () => {
  it('READ-15 JSON-19 makes one array of pieces cut anywhere, of known length', async () => {
    const pieces = ['{"a":1', '}\n{"', 'b":2}\n'].map((text) => Buffer.from(text));
    server = await ScriptedServer.start({ read: async () => windowOf(pieces, { contentType: 'application/json' }) });
    const base = await server.send('GET', '/v1/stream/demo/s');
    expect([base.body.toString(), base.headers['content-length'], base.headers['content-type']]).toEqual(['[{"a":1},{"b":2}]', '17', 'application/json']);
    const bucketed = await server.send('GET', '/demo/s');
    expect([bucketed.body.toString(), bucketed.headers['content-type']]).toEqual(['{"a":1}\n{"b":2}\n', 'application/x-ndjson']);
    expect(base.headers.etag).not.toBe(bucketed.headers.etag);
    expect(pieces[1]!.toString()).toBe('}\n{"');
  });

  it('compresses JSON from 256 bytes when asked, with a weak tag and Vary, and nothing else', async () => {
    const line = Buffer.from(`${JSON.stringify({ pad: 'x'.repeat(400) })}\n`);
    const contents = { 'application/json': [line], 'text/plain': [line] };
    server = await ScriptedServer.start({ read: async ({ key }) => windowOf(key.endsWith('big') ? Array.from({ length: 500 }, () => line) : contents[key.endsWith('t') ? 'text/plain' : 'application/json'], { contentType: key.endsWith('t') ? 'text/plain' : 'application/json' }) });
    const gzip = { 'accept-encoding': 'gzip' };
    const small = await server.send('GET', '/demo/json', gzip);
    expect([small.headers['content-encoding'], small.headers.vary, small.headers['content-length']]).toEqual(['gzip', 'Stream-Incarnation, Accept-Encoding', String(small.body.length)]);
    expect(gunzipSync(small.body).equals(line)).toBe(true);
    const big = await server.send('GET', '/demo/big', gzip);
    expect(gunzipSync(big.body)).toHaveLength(500 * line.length);
    const array = await server.send('GET', '/v1/stream/demo/big', gzip);
    expect(JSON.parse(gunzipSync(array.body).toString())).toHaveLength(500);
    const plain = await server.send('GET', '/demo/json');
    expect([plain.headers['content-encoding'], plain.headers.etag]).toEqual([undefined, small.headers.etag]);
    expect(plain.headers.etag).toMatch(/^W\/"/);
    expect((await server.send('GET', '/demo/t', gzip)).headers['content-encoding']).toBeUndefined();
    const again = await server.send('GET', '/demo/json', { ...gzip, 'if-none-match': small.headers.etag! });
    expect([again.status, again.body.length, again.headers['stream-next-offset']]).toEqual([304, 0, small.headers['stream-next-offset']]);
  });

  it('R053 stops reading for a client that stopped, and gives the source back when it leaves', async () => {
    let given = 0;
    let returned = false;
    const window = windowOf([], {}, 8_000_000);
    async function* body(): AsyncGenerator<Buffer> {
      try {
        for (; given < 8; given++) yield Buffer.alloc(1_000_000);
      } finally {
        returned = true;
      }
    }
    server = await ScriptedServer.start({ read: async () => ({ ...window, body }) });
    const socket = await server.connect();
    socket.pause();
    socket.write('GET /demo/s HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(8));
    await vi.waitFor(() => expect(given).toBeGreaterThan(0));
    await new Promise((resolve) => setTimeout(resolve, 100));
    const stoppedAt = given;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(given).toBe(stoppedAt);
    socket.resetAndDestroy();
    await vi.waitFor(() => expect(returned).toBe(true));
  });

  it('R053 a pipelined answer whose turn never comes gives its source back when the connection ends', async () => {
    const returned: string[] = [];
    async function* body(name: string): AsyncGenerator<Buffer> {
      try {
        for (let i = 0; i < 8; i++) yield Buffer.alloc(1_000_000);
      } finally {
        returned.push(name);
      }
    }
    const opened: LiveHandle = { key: 'demo/s' as LiveHandle['key'], incarnation: INCARNATION, record: record(), subscribe: () => () => undefined, read: async () => windowOf([]), close: () => undefined };
    const snapshot = { offset: ZERO, contentType: 'text/plain', digest: 'a'.repeat(64), bytes: 8_000_000, crc: 0, publishedAtMs: 0, hot: { at: 'inline' as const }, cold: null };
    server = await ScriptedServer.start({
      openLive: async () => ({ handle: opened, start: ZERO }), read: async () => ({ ...windowOf([], {}, 8_000_000), body: () => body('window') }), readSnapshot: async () => ({ record: record(), snapshot, body: () => body('snapshot') }),
    });
    const socket = await server.connect();
    socket.write(['/demo/s?offset=now&live=long-poll&timeout_ms=60000', '/demo/s', '/demo/s/snapshot/0'].map((target) => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''));
    await vi.waitFor(() => expect(server.app.live.polls.waiting).toBe(1));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(returned).toEqual([]);
    socket.destroy();
    await vi.waitFor(() => expect(returned.sort()).toEqual(['snapshot', 'window']));
  });

  it('R053 cuts a client that takes nothing, also of answers that have ended; keeps one that takes a little', async () => {
    const content = Buffer.alloc(1_000_000);
    server = await ScriptedServer.start({ read: async ({ key }) => windowOf(key.endsWith('many') ? Array.from({ length: 30 }, () => content) : [content]) }, {}, { answerStallMs: 300 });
    const idle = await server.connect();
    const still = await server.connect();
    still.pause();
    still.write('GET /demo/s HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(12));
    const slow = await server.connect();
    let got = 0;
    slow.on('data', (piece: Buffer) => {
      got += piece.length;
      slow.pause();
      setTimeout(() => slow.resume(), piece.length / 20_000);
    });
    slow.write('GET /demo/many HTTP/1.1\r\nHost: x\r\n\r\n');
    const connections = (): Promise<number> => new Promise((resolve, reject) => server.listener.server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))));
    const startedMs = performance.now();
    await vi.waitFor(async () => expect(await connections()).toBe(2), { timeout: 3_000 });
    expect(performance.now() - startedMs).toBeGreaterThan(250);
    await vi.waitFor(() => expect(got).toBeGreaterThan(30_000_000), { timeout: 10_000 });
    expect(performance.now() - startedMs).toBeGreaterThan(900);
    expect([await connections(), idle.destroyed]).toEqual([2, false]);
  });

  it('R072 R093 closes a connection that was silent between two requests, and none that has one', async () => {
    let answer = (): void => undefined;
    const held = new Promise<void>((resolve) => { answer = resolve; });
    server = await ScriptedServer.start({ read: async ({ key }) => {
      if (key.endsWith('slow')) await held;
      return windowOf([Buffer.from('content')]);
    } }, {}, { keepAliveMs: 300 });
    const request = (name: string): string => `GET /demo/${name} HTTP/1.1\r\nHost: x\r\n\r\n`;
    const texts = ['', '', ''];
    const [idle, busy, slow] = await Promise.all(texts.map(async (_, index) => {
      const socket = await server.connect();
      socket.on('data', (piece: Buffer) => { texts[index] += piece.toString(); });
      return socket;
    })) as [Socket, Socket, Socket];
    idle.write(request('s'));
    slow.write(request('slow'));
    const again = setInterval(() => busy.write(request('s')), 100);
    const startedMs = performance.now();
    await vi.waitFor(() => expect(idle.destroyed).toBe(true), { timeout: 3_000 });
    expect(performance.now() - startedMs).toBeGreaterThan(250);
    expect(texts[0]).toContain('content');
    await new Promise((resolve) => setTimeout(resolve, 900));
    clearInterval(again);
    expect([busy.destroyed, slow.destroyed]).toEqual([false, false]);
    answer();
    await vi.waitFor(() => expect(texts[2]).toContain('content'));
  });

  it('CACHE-18 keeps an answer to a checked read private', async () => {
    server = await ScriptedServer.start({ read: async () => windowOf([Buffer.from('a')]) });
    const answer = await server.send('GET', '/demo/s', { 'stream-incarnation': String(INCARNATION) });
    expect([answer.headers['cache-control'], answer.headers.vary]).toEqual(['private, no-cache', 'Stream-Incarnation']);
    const unchecked = await server.send('GET', '/demo/s');
    expect([unchecked.headers['cache-control'], unchecked.headers.vary]).toEqual(['public, max-age=60, stale-while-revalidate=300', 'Stream-Incarnation']);
    expect((await server.send('GET', '/demo/s', { 'if-none-match': unchecked.headers.etag! })).headers.vary).toBe('Stream-Incarnation');
  });

  it('CINC-06 marks a chunk of a remote cold tier only at or below the logged frontier', async () => {
    const bytes = 4_194_304;
    for (const [cold, sealed, tail, closed, marked] of [
      ['fs', 0, bytes + 1, false, true], ['s3', 0, bytes + 1, false, false], ['s3', bytes, bytes + 1, false, true], ['fs', 0, bytes, false, false], ['fs', 0, bytes, true, true], ['s3', 0, bytes, true, false],
    ] as const) {
      server = await ScriptedServer.start({ read: async () => windowOf([Buffer.alloc(bytes)], { tail: tail as Offset, sealed: sealed as Offset, closed }) }, { cold });
      const answer = await server.send('GET', `/demo/s/incarnation/${INCARNATION}/chunk/00000000000000000000`);
      expect([cold, sealed, tail, closed, answer.headers['stream-immutable'], answer.headers['cache-control']]).toEqual([cold, sealed, tail, closed, marked ? 'true' : undefined, marked ? 'public, max-age=31536000, immutable' : 'no-store']);
      await server.stop();
    }
  });

  it('SNAP-34 orders 416 before 412 before 304, and gives ranges', async () => {
    const snapshot = { offset: ZERO, contentType: 'text/plain', digest: 'a'.repeat(64), bytes: 10, crc: 0, publishedAtMs: 0, hot: { at: 'inline' as const }, cold: null };
    const content = Buffer.from('0123456789');
    server = await ScriptedServer.start({ readSnapshot: async () => ({ record: record(), snapshot, body: (from, length) => piecesOf([content.subarray(from, from + 1), content.subarray(from + 1, from + length)]) }) });
    const get = (headers: Record<string, string>) => server.send('GET', '/demo/s/snapshot/0', headers);
    const old = { 'stream-incarnation': '5', 'if-none-match': `"${snapshot.digest}"` };
    const outside = await get({ ...old, range: 'bytes=10-' });
    expect([outside.status, errorOf(outside).code, outside.headers['content-range']]).toEqual([416, 'RANGE_NOT_SATISFIABLE', 'bytes */10']);
    expect((await get({ ...old, range: 'bytes=0-1' })).status).toBe(412);
    expect((await get({ 'if-none-match': old['if-none-match'], range: 'bytes=0-1' })).status).toBe(304);
    const part = await get({ range: 'bytes=2-5' });
    expect([part.status, part.body.toString(), part.headers['content-range'], part.headers['content-length']]).toEqual([206, '2345', 'bytes 2-5/10', '4']);
    const whole = await get({ range: 'bytes=2-5', 'if-range': 'x' });
    expect([whole.status, whole.body.toString(), whole.headers['stream-up-to-date']]).toEqual([200, '0123456789', 'true']);
    const head = await server.send('HEAD', '/demo/s/snapshot/0');
    expect([head.status, head.headers['content-length'], head.body.length]).toEqual([200, '10', 0]);
  });

  it('BOOT-06 BOOT-13 BOOT-27 gives the snapshot, then one part a message; R081 cuts a broken one', async () => {
    const snapshot = { offset: ZERO, contentType: 'text/x', digest: 'a', bytes: 4, crc: 0, publishedAtMs: 0, hot: null, cold: null };
    let broken = false;
    server = await ScriptedServer.start({
      bootstrap: async () => ({
        record: record({ contentType: 'application/json', tail: 8 as Offset }), snapshot: { record: record(), snapshot, body: () => piecesOf([Buffer.from('snap')]) }, start: ZERO, end: 8 as Offset, upToDate: true, closed: false,
        parts: () => piecesOf([Buffer.from('"a"\n'), broken ? new Error('gone') : Buffer.from('"b"\n')]),
      }),
    });
    const answer = await server.send('GET', '/demo/s/bootstrap');
    const boundary = /boundary=(firn-bootstrap-[0-9a-f]{32})$/.exec(answer.headers['content-type']!)![1]!;
    const part = (type: string, body: string) => `--${boundary}\r\nContent-Type: ${type}\r\n\r\n${body}\r\n`;
    expect(answer.body.toString()).toBe(`${part('text/x', 'snap')}${part('application/json', '"a"\n')}${part('application/json', '"b"\n')}--${boundary}--\r\n`);
    broken = true;
    await expect(server.send('GET', '/demo/s/bootstrap')).rejects.toThrow();
  });

  it('BOOT-13 makes room for other work between the parts of many small messages', async () => {
    const messages = 100_000;
    const perTurn: number[] = [0];
    async function* parts(): AsyncGenerator<Buffer> {
      for (let i = 0; i < messages; i++) {
        perTurn[perTurn.length - 1]!++;
        yield Buffer.from('1\n');
      }
    }
    server = await ScriptedServer.start({
      bootstrap: async () => ({ record: record({ contentType: 'application/json', tail: (2 * messages) as Offset }), snapshot: null, start: ZERO, end: (2 * messages) as Offset, upToDate: true, closed: false, parts }),
    });
    let counting = true;
    const count = (): void => {
      perTurn.push(0);
      if (counting) setImmediate(count);
    };
    count();
    const answer = await server.send('GET', '/demo/s/bootstrap');
    counting = false;
    const part = /--firn-bootstrap-[0-9a-f]{32}\r\nContent-Type: application\/json\r\n\r\n1\n\r\n/g;
    expect(answer.body.toString('latin1').match(part)).toHaveLength(messages);
    expect(Math.max(...perTurn)).toBeLessThan(2 * 262_144 / 80);
  });

  it('CRE-10 names the stream by the public origin, by the request\'s host, or by its path alone', async () => {
    for (const [publicUrl, host, location] of [['https://f.example/', 'x', 'https://f.example/demo/s'], [null, 'h.example:81', 'http://h.example:81/demo/s'], [null, 'a b', '/demo/s']] as const) {
      server = await ScriptedServer.start({ create: async () => ({ created: true, record: record() }) }, { publicUrl });
      expect(await server.raw(`PUT /demo/s HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)).toContain(`\r\nLocation: ${location}\r\n`);
      await server.stop();
    }
  });
});

describe('live reads', () => {
  function handle(over: Partial<LiveHandle> = {}): LiveHandle {
    return { key: 'demo/s' as LiveHandle['key'], incarnation: INCARNATION, record: record(), subscribe: () => () => undefined, read: async () => windowOf([Buffer.from('x')]), close: vi.fn<() => void>(), ...over };
  }

  it('LP-04 LP-15 answers 204 with its facts after the time, and gives its place back', async () => {
    const opened = handle();
    server = await ScriptedServer.start({ openLive: async () => ({ handle: opened, start: ZERO }) });
    const answer = await server.send('GET', '/demo/s?offset=-1&live=long-poll&timeout_ms=20');
    expect(answer.status).toBe(204);
    expect(answer.headers).toMatchObject({ 'stream-next-offset': '0'.repeat(20), 'stream-up-to-date': 'true', 'cache-control': 'no-store' });
    expect(answer.headers['stream-cursor']).toMatch(/^[0-9]+$/);
    expect([opened.close, server.app.live.gate.open]).toEqual([expect.objectContaining({ mock: expect.objectContaining({ calls: [[]] }) as unknown }), 0]);
  });

  it('I11 refuses live readers beyond the limit, and counts those that left as gone', async () => {
    server = await ScriptedServer.start({ openLive: async () => ({ handle: handle(), start: ZERO }) }, {}, { liveReadersMax: 1 });
    const socket = await server.connect();
    socket.write('GET /demo/s?offset=now&live=sse HTTP/1.1\r\nHost: x\r\n\r\n');
    await vi.waitFor(() => expect(server.app.live.hub.size).toBe(1));
    const refused = await server.send('GET', '/demo/s?offset=now&live=long-poll');
    expect([refused.status, errorOf(refused).code, refused.headers['retry-after']]).toEqual([503, 'LIVE_READ_BACKPRESSURE', '1']);
    socket.destroy();
    await vi.waitFor(() => expect(server.app.live.gate.open).toBe(0));
    expect(server.metrics.liveReaders.sse.value).toBe(0);
  });

  it.each(['sse', 'long-poll'])('R053 counts a pipelined %s behind another live read as gone when the connection ends', async (kind) => {
    const closed: string[] = [];
    server = await ScriptedServer.start({ openLive: async () => ({ handle: handle({ close: () => void closed.push('closed') }), start: ZERO }) });
    const socket = await server.connect();
    socket.write(['long-poll&timeout_ms=60000', kind, kind].map((live) => `GET /demo/s?offset=now&live=${live} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''));
    await vi.waitFor(() => expect([server.app.live.gate.open, server.app.live.polls.waiting + server.app.live.hub.size]).toEqual([3, 3]));
    socket.destroy();
    await vi.waitFor(() => expect([server.app.live.gate.open, server.app.live.polls.waiting, server.app.live.hub.size]).toEqual([0, 0, 0]));
    expect([server.metrics.liveReaders.sse.value, server.metrics.liveReaders['long-poll'].value, closed.length]).toEqual([0, 0, 3]);
  });

  it('a handle that fails to close ends neither the process nor the count of readers', async () => {
    const close = (): void => { throw new Error('closed twice'); };
    server = await ScriptedServer.start({ openLive: async () => ({ handle: handle({ close }), start: ZERO }) });
    const socket = await server.connect();
    socket.write('GET /demo/s?offset=now&live=sse HTTP/1.1\r\nHost: x\r\n\r\n');
    await vi.waitFor(() => expect(server.app.live.hub.size).toBe(1));
    socket.destroy();
    await vi.waitFor(() => expect(server.app.live.gate.open).toBe(0));
    expect(server.lines.join('')).toContain('live-read-failed');
    await server.send('GET', '/demo/s?offset=now&live=long-poll&timeout_ms=10').catch(() => undefined);
    expect(server.app.live.gate.open).toBe(0);
  });

  it('SSE-03 answers plainly what is wrong before the stream opens', async () => {
    server = await ScriptedServer.start({ openLive: async () => { throw new FirnError('STREAM_GONE'); } });
    const answer = await server.send('GET', '/demo/s?offset=0&live=sse');
    expect([answer.status, answer.headers['content-type']]).toEqual([410, 'application/json']);
    expect(server.app.live.gate.open).toBe(0);
  });
});

describe('the server', () => {
  it('R083 drains what is under way, ends live reads, and is over in time', async () => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => { release = resolve; });
    const opened: LiveHandle = { key: 'demo/s' as LiveHandle['key'], incarnation: INCARNATION, record: record(), subscribe: () => () => undefined, read: async () => windowOf([]), close: () => undefined };
    server = await ScriptedServer.start({ append: async (request) => { await released; return appended(request); }, openLive: async () => ({ handle: opened, start: ZERO }) });
    const live = [server.raw('GET /demo/s?offset=now&live=sse HTTP/1.1\r\nHost: x\r\n\r\n'), server.raw('GET /demo/s?offset=now&live=long-poll&timeout_ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n')];
    await vi.waitFor(() => expect(server.app.live.gate.open).toBe(2));
    const post = server.send('POST', '/demo/s', OCTETS, 'x');
    await vi.waitFor(() => expect(server.app.bodies.heldBytes).toBe(1));
    const stopping = server.listener.shutdown(5_000);
    const [sse, poll] = await Promise.all(live);
    expect(sse).toMatch(/event: control\ndata:\{"streamNextOffset":"0{20}",[^\n]*\}\n\n\r\n0\r\n\r\n$/);
    expect(poll).toMatch(/^HTTP\/1.1 204 /);
    release();
    expect((await post).status).toBe(204);
    await stopping;
  });

  it('R083 cuts what does not end within the grace time', async () => {
    server = await ScriptedServer.start({ append: () => new Promise(() => undefined) });
    const post = server.send('POST', '/demo/s', OCTETS, 'x').catch(() => 'cut');
    await vi.waitFor(() => expect(server.app.bodies.heldBytes).toBe(1));
    const startedMs = performance.now();
    await server.listener.shutdown(50);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
    expect(await post).toBe('cut');
  });

  it('R093 refuses connections beyond its bound with 503, and takes them again', async () => {
    server = await ScriptedServer.start({ head: async () => record() }, {}, { connectionsMax: 1 });
    const first = await server.connect();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await server.raw('')).toMatch(/^HTTP\/1.1 503 Service Unavailable\r\n[\s\S]*Retry-After: 1\r\n/);
    first.destroy();
    await vi.waitFor(async () => expect((await server.send('HEAD', '/demo/s')).status).toBe(200));
  });

  it('R085 answers what is no HTTP with the error body and closes', async () => {
    server = await ScriptedServer.start({});
    expect(await server.raw('NONSENSE\r\n\r\n')).toMatch(/^HTTP\/1.1 400 Bad Request\r\n[\s\S]*"code":"INVALID_REQUEST"/);
    expect(await server.raw(`GET /demo/s HTTP/1.1\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`)).toMatch(/^HTTP\/1.1 400 [\s\S]*too long/);
  });

  it('ERR-01 SEC-01 gives what Node would answer by itself the error body and headers too', async () => {
    server = await ScriptedServer.start({ append: async (request) => appended(request), head: async () => record() });
    const post = 'POST /demo/s HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n';
    for (const [text, status, code] of [
      [`${post}Host: x\r\nExpect: a-pony\r\n\r\nx`, 417, 'EXPECTATION_FAILED'],
      [`${post}Connection: close\r\n\r\nx`, 400, 'INVALID_REQUEST'],
      [`${post}Host: x\r\nhost: y\r\nConnection: close\r\n\r\nx`, 400, 'INVALID_REQUEST'],
      ['CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 400, 'INVALID_REQUEST'],
    ] as const) {
      const answer = await server.raw(text);
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*X-Content-Type-Options: nosniff\\r\\n[\\s\\S]*\\{"error":\\{"code":"${code}"`));
      expect(answer).toContain('Content-Type: application/json\r\n');
      expect(answer).toContain('Cache-Control: no-store\r\n');
    }
    expect(await server.raw('HEAD /demo/s HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1.1 200 /);
    expect(await server.raw(`${post}Host: x\r\nExpect: 100-Continue\r\nConnection: close\r\n\r\nx`)).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 204 /);
  });

  it('ERR-03 refuses a second Content-Type, which no reader of the first would see', async () => {
    server = await ScriptedServer.start({ append: async (request) => appended(request), create: async () => ({ created: true, record: record() }) });
    for (const method of ['POST', 'PUT']) {
      const answer = await server.raw(`${method} /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\ncontent-type: text/html\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx`);
      expect(answer).toMatch(/^HTTP\/1.1 400 [\s\S]*"INVALID_HEADER"[\s\S]*content-type is given more than once/);
    }
    expect(await server.raw('POST /demo/s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nCustom-Twelv: 1\r\nDate: 1\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx')).toMatch(/^HTTP\/1.1 204 /);
  });

  it('answers preflights with the methods and headers of the surface', async () => {
    server = await ScriptedServer.start({});
    const answer = await server.send('OPTIONS', '/demo/s', { origin: 'https://x', 'access-control-request-method': 'PUT' });
    expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([204, undefined]);
    expect(answer.headers['access-control-allow-methods']).toBe('GET, HEAD, PUT, POST, DELETE, OPTIONS');
    expect(answer.headers['access-control-allow-headers']).toContain('If-None-Match');
  });
});
