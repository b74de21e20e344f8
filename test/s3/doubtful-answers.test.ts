/**
 * Answers of an S3 server, or of what stands before it, that say less than they seem to (I4, I9), and answers that come slowly (R033).
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { afterEach, describe, expect, it } from 'vitest';
import { clientOf } from '../../infra/services/s3-server.js';
import { StoreRefused, StoreUnavailable } from '../../shared/storage/object-store.js';
import { OPERATION_MS, STALL_MS } from '../../shared/storage/s3-store/limits.js';
import type { S3ObjectStore, S3StoreOptions } from '../../shared/storage/s3-store/index.js';
import { FaultProxy, PRECONDITION, type Fault } from '../support/fault-proxy.js';
import { BUCKET, storeOn, useS3 } from '../support/s3.js';

const server = await useS3();
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function storeAt(endpoint: string, more: Partial<S3StoreOptions> = {}): Promise<S3ObjectStore> {
  const store = await storeOn({ endpoint, region: server.region }, more);
  ends.push(() => store.close());
  return store;
}

async function faulty(): Promise<FaultProxy> {
  const proxy = await FaultProxy.before(server.endpoint);
  ends.push(() => proxy.close());
  return proxy;
}

/** What a server says that keeps no condition. */
const TAKEN: Fault = { kind: 'odd', status: 200, body: '', headers: { etag: '"x"' } };
const status = (code: number, name: string): Fault => ({ kind: 'status', status: code, code: name });

/** Passes what the server answers in small pieces, `bytes` of them ten times a second; null: as it comes. */
class SlowLine {
  bytes: number | null = null;
  port = 0;

  static async before(target: string): Promise<SlowLine> {
    const line = new SlowLine();
    const sockets: Socket[] = [];
    const proxy = createServer((socket) => {
      const up = connect(Number(new URL(target).port), new URL(target).hostname);
      sockets.push(socket, up);
      for (const end of [socket, up]) end.on('error', () => undefined);
      socket.pipe(up);
      socket.on('close', () => up.destroy());
      void line.#pass(up, socket).catch(() => socket.destroy());
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    line.port = (proxy.address() as AddressInfo).port;
    ends.push(() => {
      for (const socket of sockets) socket.destroy();
      proxy.close();
    });
    return line;
  }

  async #pass(up: Socket, socket: Socket): Promise<void> {
    for await (const piece of up as AsyncIterable<Buffer>) {
      for (let at = 0; at < piece.length && !socket.destroyed; ) {
        const bytes = this.bytes ?? piece.length;
        socket.write(piece.subarray(at, at + bytes));
        at += bytes;
        if (this.bytes !== null) await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
    socket.end();
  }
}

describe('a doubtful answer', () => {
  it.each([['412', PRECONDITION], ['404 NoSuchUpload', status(404, 'NoSuchUpload')]])('I9 %s to a plain GET is asked again, and never makes an object missing', { timeout: 90_000 }, async (_, fault) => {
    const proxy = await faulty();
    const store = await storeAt(proxy.endpoint);
    await store.putOnce('a/b', Buffer.from('x'));
    let left = 2;
    proxy.faultOf = ({ method }) => (method === 'GET' && left-- > 0 ? fault : null);
    expect(await store.size('a/b')).toBe(1);
    left = 2;
    expect((await store.get('a/b')).toString()).toBe('x');
    left = Infinity;
    const came = await Promise.allSettled([store.size('a/b'), store.get('a/b')]);
    for (const one of came) expect(one).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailable) });
  });

  it('I4 only a refusal of the second PUT proves that a server knows create-if-absent', async () => {
    const proxy = await faulty();
    proxy.faultOf = ({ method, nth }) => (method === 'PUT' && nth === 1 ? status(404, 'NoSuchKey') : method === 'PUT' && nth === 2 ? TAKEN : null);
    await expect((await storeAt(proxy.endpoint)).putOnce('a/b', Buffer.from('x'))).rejects.toThrow(StoreRefused);
    proxy.faultOf = ({ method, nth }) => (method === 'PUT' && nth === 1 ? status(404, 'NoSuchKey') : null);
    expect(await (await storeAt(proxy.endpoint)).putOnce('a/b', Buffer.from('x'))).toBe('created');
    expect(proxy.seen.filter(({ method }) => method === 'PUT')).toHaveLength(6);
  });

  it('a folder that a console made is no object of the store', async () => {
    const prefix = `stores/folder-${randomBytes(6).toString('hex')}`;
    const client = clientOf(server);
    ends.push(() => client.destroy());
    await client.send(new PutObjectCommand({ Bucket: BUCKET, Key: `${prefix}/`, Body: Buffer.alloc(0) }));
    const store = await storeAt(server.endpoint, { prefix });
    await store.putOnce('a/b', Buffer.from('x'));
    const found: string[] = [];
    for await (const { key } of store.list('')) found.push(key);
    expect(found).toEqual(['a/b']);
  });
});

describe('a slow answer (R033)', () => {
  it('that trickles is given up within the stated time', { timeout: 60_000 }, async () => {
    const line = await SlowLine.before(server.endpoint);
    const store = await storeAt(`http://127.0.0.1:${line.port}`);
    await store.putOnce('a/b', randomBytes(1_000_000));
    line.bytes = 100;
    const began = performance.now();
    const failed = await store.get('a/b').then(() => null, (error: unknown) => error as Error);
    expect(failed).toBeInstanceOf(StoreUnavailable);
    expect(failed?.message).toContain('bytes a second came');
    expect(performance.now() - began).toBeLessThan(OPERATION_MS + STALL_MS + 5_000);
  });

  it('to a listing may take longer than a try may stand still, as long as it moves', { timeout: 60_000 }, async () => {
    const line = await SlowLine.before(server.endpoint);
    const store = await storeAt(`http://127.0.0.1:${line.port}`);
    const keys = Array.from({ length: 600 }, (_, n) => `list/${String(n).padStart(180, '0')}`);
    await Promise.all(keys.map((key) => store.putOnce(key, Buffer.from('x'))));
    line.bytes = 2_500;
    const began = performance.now();
    const found: string[] = [];
    for await (const { key } of store.list('list/')) found.push(key);
    expect(found).toEqual(keys);
    expect(performance.now() - began).toBeGreaterThan(STALL_MS);
  });
});
