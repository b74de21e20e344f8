/**
 * A node under single faults of its S3 server (`faults.md`, object store and sealing): what a client sees, and that everything is sealed once the fault is over.
 */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FaultProxy, SLOW_DOWN, type Fault } from '../support/fault-proxy.js';
import { FirnNode, type Env } from '../support/node.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';

const server = await useS3();

let proxy: FaultProxy;
let node: FirnNode;
beforeEach(async () => {
  proxy = await FaultProxy.before(server.endpoint);
});
afterEach(async () => {
  await node.dispose();
  await proxy.close();
});

async function start(settings: Env = {}): Promise<void> {
  node = new FirnNode({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '200', FIRN_LOG: 'warn', ...s3Settings(server, proxy.endpoint), ...settings });
  await node.start();
}

async function stream(name: string, body: Buffer | string = ''): Promise<Stream> {
  const made = new Stream(node.http, `/story/${name}`);
  expect((await made.create({ type: OCTETS, body: body.length === 0 ? undefined : body })).status).toBe(201);
  return made;
}


async function metric(name: string): Promise<number> {
  const { text } = await node.admin.send('GET', '/__firn/metrics');
  return Number(text.split('\n').find((line) => line.startsWith(name))?.split(' ').at(-1) ?? 0);
}

/** Waits until nothing is unsealed, without asking for a seal. */
async function sealedByItself(ms = 60_000): Promise<void> {
  const end = Date.now() + ms;
  while ((await metric('firn_unsealed_bytes{partition="0"}')) > 0) {
    if (Date.now() > end) throw new Error(`not sealed in time\n${node.output.slice(-3_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const isSegment = (path: string): boolean => path.includes('/segments/');

it('R016 R028 a segment that cannot be uploaded keeps its hot copy, is read exactly, and is sealed when the fault ends, also after a kill', { timeout: 120_000 }, async () => {
  await start({ FIRN_SEAL_BYTES: '50000' });
  const one = await stream('gap');
  let content = Buffer.alloc(0);
  const append = async (bytes: number): Promise<void> => {
    const body = randomBytes(bytes);
    expect((await one.append(body)).status).toBe(204);
    content = Buffer.concat([content, body]);
  };
  await append(60_000);
  await sealedByItself();
  let failing = '';
  proxy.faultOf = ({ method, path }) => {
    if (method !== 'PUT' || !isSegment(path)) return null;
    const name = /segments\/(\d+-\d+-\d+)/.exec(path)?.[1] ?? '';
    failing ||= name;
    return name === failing ? SLOW_DOWN : null;
  };
  await append(60_000);
  for (let n = 0; n < 10; n += 1) {
    await append(20_000);
    expect((await one.all('0', { max_bytes: 37_000 })).equals(content)).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  expect(failing).not.toBe('');
  await node.kill();
  await node.start();
  expect((await one.all()).equals(content)).toBe(true);
  proxy.faultOf = () => null;
  await sealedByItself();
  expect((await one.all()).equals(content)).toBe(true);
  expect(await metric('firn_read_bytes_total{tier="cold"}')).toBeGreaterThanOrEqual(content.length);
});

it('R018 a store of 1 MB/s makes writes wait with 503 and Retry-After before more is hot than allowed, and they go on by themselves', { timeout: 180_000 }, async () => {
  await start({ FIRN_HOT_BYTES_MAX: '8000000', FIRN_SEAL_BYTES: '2000000' });
  const one = await stream('brake');
  proxy.bytesPerSecond = 1_000_000;
  const pieces: Buffer[] = [];
  let refused = 0;
  const end = Date.now() + 12_000;
  while (Date.now() < end) {
    const body = randomBytes(500_000);
    const answer = await one.append(body);
    if (answer.status === 204) pieces.push(body);
    else {
      expect([answer.status, answer.text.includes('COLD_BACKPRESSURE'), Number(answer.need('retry-after')) > 0]).toEqual([503, true, true]);
      refused += 1;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  expect(refused).toBeGreaterThan(0);
  proxy.bytesPerSecond = null;
  await sealedByItself();
  expect((await one.append('after')).status).toBe(204);
  expect((await one.all()).equals(Buffer.concat([...pieces, Buffer.from('after')]))).toBe(true);
});

it('R024 R030 a store that is mute or down longer than all quick retries loses nothing, and nothing has to be asked for', { timeout: 180_000 }, async () => {
  await start();
  const one = await stream('pause');
  const seen: number[] = [];
  let content = 0;
  const writers = async (ms: number): Promise<void> => {
    const end = Date.now() + ms;
    const write = async (letter: string): Promise<void> => {
      while (Date.now() < end) {
        const answer = await one.append(letter.repeat(500));
        expect(answer.status).toBe(204);
        seen.push(Number(answer.next));
        content += 500;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    await Promise.all([write('a'), write('b')]);
  };
  await writers(1_000);
  proxy.faultOf = () => ({ kind: 'black-hole' });
  await writers(10_000);
  proxy.faultOf = () => null;
  await proxy.down();
  await writers(25_000);
  await proxy.up();
  await sealedByItself(90_000);
  expect(new Set(seen).size).toBe(seen.length);
  expect((await one.all()).length).toBe(content);
});

it('R033 a cold read whose body stalls ends within its time, and the next one works', { timeout: 90_000 }, async () => {
  await start();
  const body = randomBytes(900_000);
  const one = await stream('stall', body);
  await node.seal();
  await node.restart();
  proxy.faultOf = ({ method, path }) => (method === 'GET' && isSegment(path) ? { kind: 'stalled', at: 0.5 } : null);
  const began = Date.now();
  const answer = await one.read({ offset: '0' }).catch(() => null);
  expect(answer === null || answer.status >= 500 || answer.body.equals(body)).toBe(true);
  // A frame has 30 s; stalls of 8 s that still brought a frame each may lie before.
  expect(Date.now() - began).toBeLessThan(55_000);
  expect(proxy.count('GET', 'stalled')).toBeGreaterThan(0);
  proxy.faultOf = () => null;
  expect((await one.all()).equals(body)).toBe(true);
});

it('R035 R041 a large snapshot and its stream reach a store that refuses the first two PUTs of every key', { timeout: 180_000 }, async () => {
  await start();
  proxy.faultOf = ({ method, nth }) => (method === 'PUT' && nth < 2 ? SLOW_DOWN : null);
  const one = await stream('snap', 'x'.repeat(50_000));
  const snapshot = randomBytes(50_000_000);
  expect((await one.publish('50000', snapshot)).status).toBe(204);
  await node.seal();
  const read = await one.sub('GET', 'snapshot/50000');
  expect([read.status, read.body.equals(snapshot)]).toEqual([200, true]);
  expect((await one.all()).toString()).toBe('x'.repeat(50_000));
  expect(proxy.seen.some(({ method, path }) => method === 'GET' && path.includes('/snapshots/'))).toBe(true);
});

it('R115 200 parallel reads of one cold range are about one GET, and a failure is not kept', { timeout: 120_000 }, async () => {
  await start();
  const body = randomBytes(8_000_000);
  const one = await stream('herd', body);
  await node.seal();
  await node.restart();
  const refusal: Fault = { kind: 'status', status: 403, code: 'AccessDenied' };
  proxy.faultOf = ({ method, path }) => (method === 'GET' && isSegment(path) ? refusal : null);
  expect((await one.read({ offset: '0' })).status).toBe(502);
  proxy.faultOf = () => null;
  const before = proxy.seen.length;
  const answers = await Promise.all(Array.from({ length: 200 }, () => one.read({ offset: '0' })));
  for (const answer of answers) expect([answer.status, answer.body.equals(body)]).toEqual([200, true]);
  const ranges = proxy.seen.slice(before).filter(({ method, path }) => method === 'GET' && isSegment(path)).map(({ headers }) => headers.range);
  // Each stretch of a megabyte once, and a few again where the slowest came after it had left the cache.
  expect(ranges.length).toBeLessThan(3 * new Set(ranges).size);
});
