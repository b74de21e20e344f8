/**
 * A node whose cold tier is an S3 server: the whole way there and back, and starts while the server is away (architecture section 7, "Start").
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { DeleteBucketCommand } from '@aws-sdk/client-s3';
import { clientOf, ensureBucket } from '../../infra/services/s3-server.js';
import { firn, settingsFor } from '../support/cli.js';
import { FaultProxy } from '../support/fault-proxy.js';
import { FirnNode, type Env } from '../support/node.js';
import { seeded } from '../support/random.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';
import { compareAll, grow, modelled } from '../tiers/model.js';

const server = await useS3();

let node: FirnNode;
let settings: Env;
afterEach(() => node.dispose());

async function start(more: Env = {}): Promise<void> {
  settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', ...s3Settings(server), ...more };
  node = new FirnNode(settings);
  await node.start();
}

async function health(): Promise<{ readonly status: number; readonly text: string }> {
  return node.admin.send('GET', '/__firn/healthz');
}

/** Asks until the answer is as wanted. */
async function until(check: () => Promise<boolean>, ms = 30_000): Promise<void> {
  const end = Date.now() + ms;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`not in time\n${node.output.slice(-3_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

for (const partitions of ['1', '4']) {
  it(`seals to S3, reads back from there, and is restored from there alone (${partitions} partitions)`, { timeout: 180_000 }, async () => {
    const random = seeded('s3 node');
    await start({ FIRN_PARTITIONS: partitions });
    const streams = await modelled(node, random, 8);
    await grow(streams, random, 80);
    for (const one of streams.slice(0, 3)) await one.publish(random, random.pick([50, 20_000, 18_000_000]));
    for (const one of streams.slice(0, 2)) await one.retain(random);
    await node.seal();
    await compareAll(streams, random);
    await node.ask('POST', '/__firn/checkpoint');
    await grow(streams, random, 30);
    await node.seal();
    const kept = await Promise.all(streams.map(({ stream }) => stream.token()));
    const metrics = (await node.admin.send('GET', '/__firn/metrics')).text;
    for (const name of ['firn_store_requests_total{op="put",outcome="ok"}', 'firn_store_requests_total{op="get",outcome="ok"}', 'firn_store_bytes_total{direction="written"}', 'firn_store_bytes_total{direction="read"}']) {
      expect(Number(metrics.split('\n').find((line) => line.startsWith(name))?.split(' ')[1]), name).toBeGreaterThan(0);
    }
    expect((await firn(['verify', '--deep'], settingsFor(node, settings))).code).toBe(0);
    await node.stop();
    for (const folder of ['hot', 'staging', 'cache', 'acked']) rmSync(join(node.dataDir, folder), { recursive: true, force: true });
    const refused = await firn(['serve'], settingsFor(node, settings));
    expect([refused.code === 0, (refused.stderr + refused.stdout).includes('firn restore')]).toEqual([false, true]);
    const restored = await firn(['restore'], settingsFor(node, settings));
    expect([restored.code, restored.code === 0 ? '' : restored.stderr]).toEqual([0, '']);
    const verified = await firn(['verify', '--deep'], settingsFor(node, settings));
    expect([verified.code, verified.code === 0 ? '' : verified.stdout + verified.stderr]).toEqual([0, '']);
    await node.start();
    await compareAll(streams, random);
    expect(await Promise.all(streams.map(({ stream }) => stream.token()))).toEqual(kept);
    await grow(streams, random, 20);
    await node.seal();
    await compareAll(streams, random);
  });
}

it('a known directory is served while S3 is away, and seals when it comes', { timeout: 120_000 }, async () => {
  const proxy = await FaultProxy.before(server.endpoint);
  try {
    await start({ FIRN_S3_ENDPOINT: proxy.endpoint, FIRN_SEAL_AGE_MS: '200' });
    const stream = new Stream(node.http, '/away/s');
    await stream.create({ type: OCTETS, body: 'cold ' });
    await node.seal();
    await node.stop();
    for (const away of ['down', 'mute'] as const) {
      if (away === 'down') await proxy.down();
      else proxy.faultOf = () => ({ kind: 'black-hole' });
      const began = Date.now();
      await node.start();
      expect(Date.now() - began).toBeLessThan(15_000);
      const tail = await stream.tail();
      expect((await stream.append('hot ')).status).toBe(204);
      const read = await stream.read({ offset: tail });
      expect([read.status, read.text]).toEqual([200, 'hot ']);
      expect((await stream.read({ offset: '0' })).status).toBe(502);
      expect((await health()).text).toContain(proxy.endpoint);
      expect((await node.admin.send('GET', '/__firn/readyz')).status).toBe(200);
      proxy.faultOf = () => null;
      if (away === 'down') await proxy.up();
      await until(async () => (await health()).text.includes('object store') === false);
      await node.seal();
      await node.stop();
    }
    await node.start();
    expect((await stream.all()).toString()).toBe('cold hot hot ');
  } finally {
    await proxy.close();
  }
});

it('an empty directory takes no writes before it has a store, and begins by itself', { timeout: 120_000 }, async () => {
  const proxy = await FaultProxy.before(server.endpoint);
  try {
    await proxy.down();
    await start({ FIRN_S3_ENDPOINT: proxy.endpoint });
    const stream = new Stream(node.http, '/fresh/s');
    expect((await stream.create({ type: OCTETS })).status).toBe(503);
    expect((await node.admin.send('GET', '/__firn/readyz')).status).toBe(503);
    await proxy.up();
    await until(async () => (await stream.create({ type: OCTETS, body: 'first' })).status === 201);
    await node.seal();
    expect((await stream.all()).toString()).toBe('first');
  } finally {
    await proxy.close();
  }
});

it('a bucket that is missing is named, and found when it was made', { timeout: 120_000 }, async () => {
  const bucket = `firn-late-${Date.now()}`;
  await start({ FIRN_S3_BUCKET: bucket });
  expect((await new Stream(node.http, '/fresh/s').create({ type: OCTETS })).status).toBe(503);
  const { text } = await health();
  expect(text).toContain(bucket);
  expect(text).toContain('NoSuchBucket');
  expect(text + node.output).not.toContain(server.secretKey);
  await ensureBucket(server, bucket);
  await until(async () => (await new Stream(node.http, '/fresh/s').create({ type: OCTETS })).status === 201);
  const client = clientOf(server);
  await expect(client.send(new DeleteBucketCommand({ Bucket: bucket }))).rejects.toThrow();
  client.destroy();
});
