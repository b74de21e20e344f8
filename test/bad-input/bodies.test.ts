/** Bodies that are too large, cut, slow or nonsense, and clients that go away in the midst of an answer. */
import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { raw, RawConnection } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, sleep, TEXT } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

const node = useNode({ FIRN_REQUEST_BYTES_MAX: '1000000' });
const LIMIT = 1_000_000;

/** Descriptors that the node has open; 0 when it is no process of ours. */
const openFiles = (): number => (node.pid === 0 ? 0 : readdirSync(`/proc/${node.pid}/fd`).length);

const stream = async (type = OCTETS): Promise<Stream> => {
  const s = fresh(node);
  await s.create({ type, body: type === JSON_TYPE ? '1' : 'abc' });
  return s;
};
const expectUnchanged = async (s: Stream): Promise<void> => {
  const read = await s.read();
  expect([read.status, read.text]).toEqual([200, read.header('content-type') === 'application/x-ndjson' ? '1\n' : 'abc']);
};

describe('size', () => {
  it('a body over the limit is refused before it is read, declared or chunked; the connection stays usable or ends', async () => {
    const s = await stream();
    const declared = await raw(node.url, [`POST ${s.path} HTTP/1.1`, `Content-Type: ${OCTETS}`, `Content-Length: ${LIMIT + 1}`]);
    expect(declared.status).toBe(413);
    const connection = await RawConnection.open(node.url);
    connection.write(`POST ${s.path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${OCTETS}\r\nTransfer-Encoding: chunked\r\n\r\n`);
    for (let i = 0; i < 12 && !connection.closed; i += 1) connection.write(Buffer.concat([Buffer.from('186a0\r\n'), Buffer.alloc(100_000, 'x'), Buffer.from('\r\n')]));
    const answer = await connection.answer();
    expect(answer?.status).toBe(413);
    connection.destroy();
    await expectUnchanged(s);
    expect((await s.append(Buffer.alloc(LIMIT, 'y'))).status).toBe(204);
  });

  it('bad framing is refused', async () => {
    const s = await stream();
    for (const framing of [['Content-Length: -1'], ['Content-Length: abc'], ['Content-Length: 1', 'Content-Length: 2'], ['Content-Length: 3', 'Transfer-Encoding: chunked'], ['Transfer-Encoding: gzip'], ['Content-Length: 99999999999999999999'], ['Transfer-Encoding: identity, chunked, chunked']]) {
      const answer = await raw(node.url, [`POST ${s.path} HTTP/1.1`, `Content-Type: ${OCTETS}`, ...framing], 'xyz').catch(() => null);
      if (answer !== null) expect([framing, [400, 411, 413, 501].includes(answer.status)], `answered ${answer.status}`).toEqual([framing, true]);
    }
    const chunk = await raw(node.url, [`POST ${s.path} HTTP/1.1`, `Content-Type: ${OCTETS}`, 'Transfer-Encoding: chunked'], 'zz\r\nabc\r\n0\r\n\r\n').catch(() => null);
    if (chunk !== null) expect(chunk.status).toBe(400);
    await expectUnchanged(s);
  });
});

describe('cut', () => {
  it('R011 a body that is half sent is not stored', async () => {
    const s = await stream();
    const j = await stream(JSON_TYPE);
    for (const [target, type] of [[s, OCTETS], [j, JSON_TYPE]] as const) {
      for (const framing of ['Content-Length: 1000', 'Transfer-Encoding: chunked']) {
        const connection = await RawConnection.open(node.url);
        const body = framing.startsWith('C') ? '[1,2,3' : '6\r\n[1,2,3\r\n';
        connection.write(`POST ${target.path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nProducer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n${framing}\r\n\r\n${body}`);
        await sleep(30);
        connection.destroy();
      }
    }
    const p = fresh(node);
    const connection = await RawConnection.open(node.url);
    connection.write(`PUT ${p.path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${OCTETS}\r\nContent-Length: 1000\r\n\r\nhalf`);
    await sleep(30);
    connection.destroy();
    await sleep(200);
    await expectUnchanged(s);
    await expectUnchanged(j);
    expect((await p.head()).status).toBe(404);
    expect((await s.append('whole', { producer: ['p', 0, 0] })).status).toBe(200);
  });

  it('a snapshot that is half sent is not published', async () => {
    const s = await stream();
    const connection = await RawConnection.open(node.url);
    connection.write(`PUT ${s.path}/snapshot/3 HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n${'x'.repeat(2_000_000)}`);
    await sleep(100);
    connection.destroy();
    await sleep(200);
    expect((await s.head()).header('stream-snapshot-offset')).toBeUndefined();
    expect((await s.publish('3', 'whole')).status).toBe(204);
  });

  it('R053 clients that go away in mid-answer leave nothing behind', { timeout: 60_000 }, async () => {
    const s = await stream();
    for (let i = 0; i < 30; i += 1) await s.append(Buffer.alloc(900_000, 'z'));
    // The client of this test and the store may open a few meanwhile.
    const before = [openFiles() + 8, 0, 0, 0];
    const opened = await Promise.all(Array.from({ length: 60 }, () => RawConnection.open(node.url)));
    const paths = [`${s.path}?offset=-1`, `${s.path}?offset=-1&live=sse`, `${s.path}?offset=now&live=sse`, `${s.path}?offset=now&live=long-poll&timeout_ms=30000`, `${s.path}/bootstrap`, `/v1/stream${s.path}?offset=-1`];
    opened.forEach((connection, i) => {
      connection.write(`GET ${paths[i % paths.length]} HTTP/1.1\r\nHost: x\r\n\r\n`);
      if (i % 2 === 0) connection.socket.pause();
    });
    await sleep(400);
    for (const connection of opened) connection.socket.resetAndDestroy();
    const metric = async (name: string): Promise<number> => Number((await node.admin.send('GET', '/__firn/metrics')).text.split('\n').find((line) => line.startsWith(name))?.split(' ').at(-1));
    const left = async (): Promise<number[]> => [openFiles(), await metric('firn_live_readers{kind="sse"}'), await metric('firn_live_readers{kind="long-poll"}'), await metric('firn_request_bodies_in_flight_bytes')];
    for (let i = 0; i < 100 && (await left()).some((value, at) => value > before[at]!); i += 1) await sleep(100);
    for (const [at, value] of (await left()).entries()) expect([at, value <= before[at]!]).toEqual([at, true]);
    const startedAt = Date.now();
    expect((await s.append('after')).status).toBe(204);
    expect((await s.head()).status).toBe(200);
    expect(Date.now() - startedAt).toBeLessThan(2_000);
  });
});

describe('nonsense', () => {
  it('JSON-17 a million brackets, NUL and control bytes in JSON answer 400', async () => {
    const j = await stream(JSON_TYPE);
    const bodies = ['['.repeat(999_999), `${'['.repeat(400_000)}${']'.repeat(400_000)}`, '\u0000', '"\u0000"', '"\u0001"', '1\u0000', '{"a\u0000":1}', '"'.repeat(500_000), '\\', `"${'\\'.repeat(99_999)}"`, '{'.repeat(500_000), `[${'1,'.repeat(400_000)}`, 'e'.repeat(100_000), `${'1'.repeat(500_000)}e`];
    for (const body of bodies) expect([body.slice(0, 10), (await j.append(body)).status]).toEqual([body.slice(0, 10), 400]);
    await expectUnchanged(j);
    const long = `${'9'.repeat(900_000)}`;
    expect((await j.append(long)).status).toBe(204);
    expect((await j.all()).toString()).toBe(`1\n${long}\n`);
  });

  it('any bytes are fine in a stream that is not JSON', async () => {
    const s = await stream(TEXT);
    const bytes = Buffer.from(Array.from({ length: 512 }, (_, i) => i & 0xff));
    expect((await s.append(bytes)).status).toBe(204);
    expect((await s.all('3')).equals(bytes)).toBe(true);
  });

  it('garbage, pipelined and upgraded connections do no harm', async () => {
    const s = await stream();
    for (const text of ['\r\n\r\n', '\x16\x03\x01\x02', 'GET', `GET ${s.path} HTTP/9.9\r\n\r\n`, `POST ${s.path} HTTP/1.0\r\n\r\n`, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', `GET ${s.path} HTTP/1.1\r\n\r\n`, `GET ${s.path}?offset=-1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n`, `${'X: y\r\n'.repeat(5_000)}\r\n`]) {
      const connection = await RawConnection.open(node.url);
      connection.write(text);
      await sleep(20);
      connection.destroy();
    }
    const connection = await RawConnection.open(node.url);
    const one = `POST ${s.path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${OCTETS}\r\nContent-Length: 1\r\n\r\n`;
    connection.write(Array.from({ length: 9 }, (_, i) => `${one}${i}`).join(''));
    await connection.until((text) => (text.match(/HTTP\/1.1 204/g) ?? []).length === 9);
    connection.destroy();
    expect((await s.read()).text).toBe('abc012345678');
  });

  it('a request with very many or very long headers is refused, not fatal', async () => {
    const s = await stream();
    const many = await raw(node.url, [`GET ${s.path}?offset=-1 HTTP/1.1`, ...Array.from({ length: 3_000 }, (_, i) => `X-${i}: y`)]).catch(() => null);
    if (many !== null) expect([200, 400, 431]).toContain(many.status);
    const long = await raw(node.url, [`GET ${s.path}?offset=-1 HTTP/1.1`, `X-Long: ${'x'.repeat(100_000)}`]).catch(() => null);
    if (long !== null) expect([400, 431]).toContain(long.status);
    await expectUnchanged(s);
  });
});
