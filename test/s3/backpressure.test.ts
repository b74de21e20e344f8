/**
 * A store that is away until the hot tier is full (R018, R028, R030): writes are refused, reads go on, nothing is lost or evicted, and everything is sealed when it is back.
 */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FaultProxy } from '../support/fault-proxy.js';
import { FirnNode, type Env } from '../support/node.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';

const server = await useS3();
const HOT_BYTES_MAX = 3_000_000;
const APPEND_BYTES = 100_000;

let proxy: FaultProxy;
let node: FirnNode;
let settings: Env;
beforeEach(async () => {
  proxy = await FaultProxy.before(server.endpoint);
  settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '200', FIRN_HOT_BYTES_MAX: String(HOT_BYTES_MAX), FIRN_LOG: 'warn', ...s3Settings(server, proxy.endpoint) };
  node = new FirnNode(settings);
  await node.start();
});
afterEach(async () => {
  await node.dispose();
  await proxy.close();
});

async function metric(name: string): Promise<number> {
  const { text } = await node.admin.send('GET', '/__firn/metrics');
  return Number(text.split('\n').find((line) => line.startsWith(`${name} `))?.split(' ')[1] ?? NaN);
}

async function until(check: () => Promise<boolean>, ms = 60_000): Promise<void> {
  for (const end = Date.now() + ms; !(await check()); await new Promise((resolve) => setTimeout(resolve, 100))) if (Date.now() > end) throw new Error(`not in time\n${node.output.slice(-3_000)}`);
}

/** A stream and what was acknowledged to it. */
interface Written {
  readonly stream: Stream;
  content: Buffer;
}

async function newStreams(count: number): Promise<Written[]> {
  return Promise.all(Array.from({ length: count }, async (_, n) => {
    const stream = new Stream(node.http, `/press/s${n}`);
    expect((await stream.create({ type: OCTETS, body: 'cold ' })).status).toBe(201);
    return { stream, content: Buffer.from('cold ') };
  }));
}

/** Appends to one stream after the other until a write is refused; its answer. */
async function fill(streams: readonly Written[]) {
  for (let n = 0; n < (3 * HOT_BYTES_MAX) / APPEND_BYTES; n += 1) {
    const one = streams[n % streams.length] as Written;
    const body = randomBytes(APPEND_BYTES);
    const answer = await one.stream.append(body);
    if (answer.status !== 204) return answer;
    one.content = Buffer.concat([one.content, body]);
  }
  throw new Error('no write was refused');
}

for (const [how, away] of [['down', () => proxy.down()], ['mute', async () => void (proxy.faultOf = () => ({ kind: 'black-hole' }))]] as const) {
  it(`R018 R030 a store that is ${how} until the hot tier is full: 503 COLD_BACKPRESSURE, reads exact, nothing evicted; then everything is sealed without help`, { timeout: 180_000 }, async () => {
    const streams = await newStreams(5);
    await node.seal();
    const evicted = await metric('firn_evicted_bytes_total');
    await away();
    const refused = await fill(streams);
    expect([refused.status, refused.text.includes('COLD_BACKPRESSURE'), Number(refused.need('retry-after'))]).toEqual([503, true, expect.any(Number)]);
    expect(Number(refused.need('retry-after'))).toBeGreaterThan(0);
    const unsealed = streams.reduce((sum, { content }) => sum + content.length - 'cold '.length, 0);
    const expectRefusing = async (): Promise<void> => {
      expect((await streams[0]!.stream.append('no')).status).toBe(503);
      expect([await metric('firn_writes_refused{code="COLD_BACKPRESSURE"}'), await metric('firn_unsealed_bytes{partition="0"}'), await metric('firn_unsealed_bytes_max')]).toEqual([1, unsealed, HOT_BYTES_MAX]);
      expect((await node.admin.send('GET', '/__firn/readyz')).status).toBe(503);
      // What was cold before can only be read while the store answers.
      for (const { stream, content } of streams) expect((await stream.all('5')).equals(content.subarray(5))).toBe(true);
    };
    await expectRefusing();
    expect(await metric('firn_evicted_bytes_total')).toBe(evicted);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(await metric('firn_unsealed_age_seconds{partition="0"}')).toBeGreaterThan(1);
    await node.kill();
    await node.start();
    await expectRefusing();
    expect(await metric('firn_evicted_bytes_total')).toBe(0);
    proxy.faultOf = () => null;
    if (how === 'down') await proxy.up();
    await until(async () => (await metric('firn_unsealed_bytes{partition="0"}')) === 0);
    expect([await metric('firn_writes_refused{code="COLD_BACKPRESSURE"}'), await metric('firn_unsealed_age_seconds{partition="0"}')]).toEqual([0, 0]);
    for (const one of streams) {
      expect((await one.stream.append('after')).status).toBe(204);
      expect((await one.stream.all()).equals(Buffer.concat([one.content, Buffer.from('after')]))).toBe(true);
    }
    await node.seal();
    const verified = await firn(['verify', '--deep'], settingsFor(node, settings));
    expect([verified.code, verified.code === 0 ? '' : verified.stdout + verified.stderr]).toEqual([0, '']);
  });
}
