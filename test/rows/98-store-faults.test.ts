/** Rows of several sections that only a fault of the S3 server below a node can show, or the loss of everything but what that server has. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FaultProxy } from '../support/fault-proxy.js';
import type { Fault } from '../support/fault-proxy.js';
import type { Answer } from '../support/http.js';
import { FirnNode } from '../support/node.js';
import type { Env } from '../support/node.js';
import { raw, RawConnection } from '../support/raw.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { JSON_TYPE, OCTETS, sleep, Stream, twin } from '../support/stream.js';

const server = await useS3();
const ORIGIN = 'https://app.example';
const DENIED: Fault = { kind: 'status', status: 403, code: 'AccessDenied' };
const GRID = 4_194_304;

const pad = (offset: number): string => String(offset).padStart(20, '0');

let proxy: FaultProxy;
let node: FirnNode;
let settings: Env;
beforeEach(async () => {
  proxy = await FaultProxy.before(server.endpoint);
});
afterEach(async () => {
  await node.dispose();
  await proxy.close();
});

async function start(more: Env = {}): Promise<void> {
  settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', FIRN_LOG: 'warn', FIRN_CORS_ORIGINS: ORIGIN, ...s3Settings(server, proxy.endpoint), ...more };
  node = new FirnNode(settings);
  await node.start();
}

/** Reads of objects whose key has this in it meet the fault from the `after`th on. */
function failReads(part: string, fault: Fault, after = 0): void {
  let seen = 0;
  proxy.faultOf = ({ method, path }) => (method === 'GET' && path.includes(part) && (seen += 1) > after ? fault : null);
}

const noFault = (): void => {
  proxy.faultOf = () => null;
};

async function jsonStream(name: string): Promise<Stream> {
  const s = new Stream(node.http, `/faults/${name}`);
  expect((await s.create({ type: JSON_TYPE, body: '[{"a":1},{"b":2},{"c":3}]' })).status).toBe(201);
  return s;
}

/** What every refusal has that is the server's fault and passes (ERR-01, ERR-04, ERR-07, R079). */
function expectPassing(answer: Answer, status: number, code: string): void {
  expect([answer.status, answer.code]).toEqual([status, code]);
  if (status === 503) expect(Number(answer.need('retry-after'))).toBeGreaterThanOrEqual(1);
  expect([answer.header('content-type'), answer.header('cache-control'), answer.header('x-content-type-options')]).toEqual(['application/json', 'no-store', 'nosniff']);
  expect([answer.header('access-control-allow-origin'), answer.need('access-control-expose-headers')]).toEqual([ORIGIN, expect.stringContaining('Retry-After')]);
  for (const secret of [proxy.endpoint, 'firn-test', 'AccessDenied', '127.0.0.1', 'segments/']) expect(answer.text).not.toContain(secret);
}

it('SNAP-10 RET-07 ERR-04 R079 a JSON boundary that cannot be read now is answered with 503, and neither published nor applied', { timeout: 120_000 }, async () => {
  await start();
  const [published, retained] = [await jsonStream('published'), await jsonStream('retained')];
  expect((await retained.publish(pad(24), 'the whole')).status).toBe(204);
  await node.seal();
  await node.restart();
  failReads('/segments/', DENIED);
  const origin = { origin: ORIGIN };
  for (const at of [8, 3]) {
    const refused = [await published.publish(pad(at), 'up to here', OCTETS, origin), await retained.retain(pad(at), origin)];
    for (const answer of refused) expectPassing(answer, 503, 'JSON_BOUNDARY_UNVERIFIED');
    expect(refused[0]!.message).toBe(refused[1]!.message);
  }
  for (const s of [published, twin(published)]) expectPassing(await s.read({ offset: '0' }, origin), 502, 'COLD_STORE_FAILED');
  expect(proxy.count('GET', 'status')).toBeGreaterThan(0);
  expect((await published.head()).header('stream-snapshot-offset')).toBeUndefined();
  expect((await retained.head()).header('stream-retained-offset')).toBe(pad(0));
  // What needs no look at the bytes goes on.
  expect((await published.append('4')).status).toBe(204);
  noFault();
  expect([(await published.publish(pad(3), 'x')).status, (await retained.retain(pad(3))).status]).toEqual([400, 400]);
  expect([(await published.publish(pad(8), 'up to here')).status, (await retained.retain(pad(8))).status]).toEqual([204, 204]);
  expect((await published.read()).text).toBe('{"a":1}\n{"b":2}\n{"c":3}\n4\n');
  expect((await retained.head()).header('stream-retained-offset')).toBe(pad(8));
});

it('RET-08 a boundary check that straddles a delete and recreate is not applied to the new stream', { timeout: 120_000 }, async () => {
  await start();
  const [published, retained] = [await jsonStream('published'), await jsonStream('retained')];
  await retained.publish(pad(24), 'the whole');
  await node.seal();
  await node.restart();
  failReads('/segments/', { kind: 'latency', ms: 1_500 });
  const late = [published.publish(pad(8), 'of the old life'), retained.retain(pad(8))];
  for (let i = 0; i < 100 && proxy.count('GET', 'latency') === 0; i += 1) await sleep(10);
  for (const s of [published, retained]) {
    await s.delete();
    await s.create({ type: JSON_TYPE, body: '[{"x":9},{"y":8}]' });
  }
  // In the new life both would be right.
  await retained.publish(pad(16), 'the whole');
  const [publish, retention] = await Promise.all(late);
  expect(proxy.count('GET', 'latency')).toBeGreaterThan(0);
  expect(publish!.status).toBe(409);
  expect([retention!.status, retention!.code]).toEqual([503, 'JSON_BOUNDARY_UNVERIFIED']);
  expect((await published.head()).header('stream-snapshot-offset')).toBeUndefined();
  expect((await retained.head()).header('stream-retained-offset')).toBe(pad(0));
  for (const s of [published, retained]) expect((await s.read()).text).toBe('{"x":9}\n{"y":8}\n');
});

/** What came of an answer on a connection of its own before that was cut; it is whole when the stated length came, or the last chunk. */
async function partOf(path: string): Promise<{ readonly whole: boolean; readonly bodyBytes: number }> {
  const connection = await RawConnection.open(node.url);
  connection.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  await connection.until(() => false, 15_000);
  const { received } = connection;
  const headEnd = received.indexOf('\r\n\r\n');
  const bodyBytes = headEnd < 0 ? 0 : received.length - headEnd - 4;
  const declared = /content-length: (\d+)/i.exec(received)?.[1];
  const open = !connection.closed;
  connection.destroy();
  // Cut before its first bytes were under way, an answer is not to be seen at all.
  expect([path, received.slice(0, 15), open]).toEqual([path, expect.toSatisfy((text: string) => text === '' || text === 'HTTP/1.1 200 OK'), false]);
  return { whole: declared === undefined ? received.endsWith('0\r\n\r\n') : bodyBytes === Number(declared), bodyBytes };
}

it('R081 an answer whose source fails half-way is cut, never ended as if it were whole; the next one works', { timeout: 120_000 }, async () => {
  await start();
  const body = Buffer.from(Uint8Array.from({ length: 8_000_000 }, (_, i) => (i * 7 + (i >> 8) * 13) & 255));
  const s = new Stream(node.http, '/faults/half');
  await s.create({ type: OCTETS, body });
  const snapshot = Buffer.concat([body, body, body]);
  expect((await s.publish(pad(body.length), snapshot)).status).toBe(204);
  await node.seal();
  for (let i = 0; i < 100 && !proxy.seen.some(({ method, path }) => method === 'PUT' && path.includes('/snapshots/')); i += 1) await sleep(100);
  await node.restart();
  let bytes = 0;
  for (const [path, part] of [[`${s.path}?offset=0`, '/segments/'], [`/v1/stream${s.path}?offset=0`, '/segments/'], [`${s.path}/snapshot/${pad(body.length)}`, '/snapshots/'], [`${s.path}/bootstrap`, '/snapshots/']] as const) {
    let broken = false;
    proxy.faultOf = ({ method, path: object }) => {
      if (method !== 'GET' || !object.includes(part)) return null;
      if (broken) return DENIED;
      broken = true;
      return { kind: 'reset-body', at: 0.6 };
    };
    const got = await partOf(path);
    expect([path, got.whole]).toEqual([path, false]);
    bytes += got.bodyBytes;
    noFault();
    expect((await s.read({ offset: '0' })).body.equals(body)).toBe(true);
    await node.restart();
  }
  expect(bytes).toBeGreaterThan(1_000_000);
  expect((await s.sub('GET', `snapshot/${pad(body.length)}`)).body.equals(snapshot)).toBe(true);
});

it('CINC-06 CINC-10 with a remote cold tier only what a log record holds is marked, as a restore may take back the rest', { timeout: 120_000 }, async () => {
  await start();
  const s = new Stream(node.http, '/faults/marks');
  const { incarnation } = await s.create({ type: OCTETS, body: Buffer.alloc(GRID + 10, 'grid ') });
  await s.publish(pad(5), 'the snapshot');
  const small = new Stream(node.http, '/faults/closed');
  const { incarnation: closed } = await small.create({ type: OCTETS, body: 'abc', closed: true });
  const marks = async () => {
    const answers = [await s.sub('GET', `incarnation/${incarnation}/chunk/${pad(0)}`), await small.sub('GET', `incarnation/${closed}/chunk/${pad(0)}`), await s.sub('GET', `incarnation/${incarnation}/snapshot/${pad(5)}`)];
    return answers.map((answer) => [answer.status, answer.header('stream-immutable'), answer.header('cache-control')]);
  };
  expect(await marks()).toEqual(Array.from({ length: 3 }, () => [200, undefined, 'no-store']));
  await node.seal();
  const forEver = [200, 'true', 'public, max-age=31536000, immutable'];
  let seen = await marks();
  for (let i = 0; i < 100 && seen.some(([, mark]) => mark === undefined); i += 1) {
    await sleep(100);
    seen = await marks();
  }
  expect(seen).toEqual([forEver, forEver, forEver]);
});

it('INC-04 OFF-01 a restore keeps the incarnation though the tail goes back, and new offsets go on from there', { timeout: 120_000 }, async () => {
  await start();
  const s = new Stream(node.http, '/faults/restored');
  const { incarnation } = await s.create({ type: OCTETS, body: 'sealed' });
  await node.seal();
  await s.append(' and not sealed');
  await node.stop();
  for (const lost of ['hot', 'staging', 'cache', 'acked']) rmSync(join(node.dataDir, lost), { recursive: true, force: true });
  const restored = await firn(['restore'], settingsFor(node, settings));
  expect([restored.code, restored.code === 0 ? '' : restored.stderr]).toEqual([0, '']);
  await node.start();
  for (const on of [s, twin(s)]) {
    const head = await on.head();
    expect([head.incarnation, head.next]).toEqual([incarnation, pad(6)]);
  }
  const { next } = await s.append('!', { incarnation });
  expect([next, (await s.read()).text]).toEqual([pad(7), 'sealed!']);
});

it('ERR-08 WO-02 a node that owns nothing yet answers writes with 503 NO_LEADER, and none of them was applied', { timeout: 120_000 }, async () => {
  await proxy.down();
  await start();
  const s = new Stream(node.http, '/faults/early');
  const origin = { origin: ORIGIN };
  for (const on of [s, twin(s)]) {
    for (const answer of [await on.create({ type: OCTETS, body: 'too early', headers: origin }), await on.append('too early', { headers: origin }), await on.close({ headers: origin }), await on.delete(origin)]) {
      // What is not there is not there, whoever owns it.
      if (answer.status === 404) expect(answer.code).toBe('STREAM_NOT_FOUND');
      else expectPassing(answer, 503, 'NO_LEADER');
    }
    expect((await on.create({ type: OCTETS })).code).toBe('NO_LEADER');
  }
  expect((await raw(node.url, [`POST ${s.path} HTTP/1.1`, `Content-Type: ${OCTETS}`, 'Content-Length: 5', 'Expect: 100-continue'])).status).toBe(503);
  await proxy.up();
  const deadline = Date.now() + 60_000;
  while ((await new Stream(node.http, '/faults/probe').put({ type: OCTETS })).status >= 300 && Date.now() < deadline) await sleep(200);
  expect((await s.head()).status).toBe(404);
  expect((await s.create({ type: OCTETS })).status).toBe(201);
  expect((await s.read()).text).toBe('');
});

it('WO-02 ERR-07 while the cold tier is behind, writes are refused with COLD_BACKPRESSURE, and none of them was applied', { timeout: 120_000 }, async () => {
  await start({ FIRN_HOT_BYTES_MAX: '1000000', FIRN_SEAL_BYTES: '100000' });
  const s = new Stream(node.http, '/faults/behind');
  await s.create({ type: OCTETS });
  await proxy.down();
  let applied = '';
  for (let n = 0; applied.length < 2_000_000; n += 1) {
    const body = `<${n}>`.padEnd(100_000, '.');
    const answer = await s.append(body);
    if (answer.status !== 204) break;
    applied += body;
  }
  const origin = { origin: ORIGIN };
  const other = new Stream(node.http, '/faults/other');
  for (const on of [s, twin(s)]) {
    const refused = [await on.append('refused', { headers: origin }), await on.append('refused', { producer: ['p', 0, 0], headers: origin }), await on.close({ headers: origin }), await other.create({ type: OCTETS, headers: origin })];
    for (const answer of refused) expectPassing(answer, 503, 'COLD_BACKPRESSURE');
  }
  for (const answer of [await s.publish(pad(1), 'refused', OCTETS, origin), await s.publish(pad(1), Buffer.alloc(2_000_000), OCTETS, origin)]) expectPassing(answer, 503, 'COLD_BACKPRESSURE');
  expect((await s.read({ offset: pad(applied.length - 5) })).text).toBe('.....');
  await proxy.up();
  const deadline = Date.now() + 60_000;
  while ((await other.put({ type: OCTETS })).status !== 201 && Date.now() < deadline) await sleep(200);
  const head = await s.head();
  expect([head.closed, head.header('stream-snapshot-offset'), Number(head.next)]).toEqual([false, undefined, applied.length]);
  expect((await s.append('!', { producer: ['p', 0, 0] })).status).toBe(200);
  expect((await s.all()).toString()).toBe(`${applied}!`);
});
