/**
 * Redis flushed, full, frozen, down, restarted and away at the start, under a node and workers elsewhere: no client waits, nothing is lost, and what is due is sealed in
 * the end without a restart (R044, R045, R046, R048; I5).
 */
import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Env, FirnNode } from '../support/node.js';
import { OCTETS, Stream } from '../support/stream.js';
import { dyingWorker } from '../support/worker.js';
import { checkAll, isSealed, until, usePlace, Written, write } from './rig.js';

const place = await usePlace();
/** Sealing is due at once. */
const EAGER: Env = { FIRN_SEAL_AGE_MS: '200', FIRN_SEAL_BYTES: '500000' };

/** One of each request that changes something; each has to be answered within 2 s. */
async function everyWrite(node: FirnNode): Promise<Written> {
  const stream = new Stream(node.http, `/jobs/w-${randomBytes(4).toString('hex')}`);
  const one = new Written(stream);
  const timed = async (what: string, status: number, work: () => Promise<{ status: number }>): Promise<void> => {
    const began = performance.now();
    expect([what, (await work()).status, performance.now() - began < 2_000]).toEqual([what, status, true]);
  };
  await timed('create', 201, () => stream.create({ type: OCTETS }));
  await one.append(randomBytes(20_000));
  await timed('snapshot', 204, async () => {
    await one.publish(randomBytes(1_200_000));
    return { status: 204 };
  });
  await timed('close', 204, () => stream.close());
  const gone = new Stream(node.http, `${stream.path}-gone`);
  await timed('create', 201, () => gone.create({ type: OCTETS, body: 'x' }));
  await timed('delete', 204, () => gone.delete());
  return one;
}

async function reasons(node: FirnNode): Promise<string> {
  const answer = await node.admin.send('GET', '/__firn/readyz', { headers: { authorization: `Bearer ${node.token}` } });
  expect(answer.status).toBe(200);
  return (answer.json() as { reasons: string[] }).reasons.join('\n');
}

/** Something that goes wrong with Redis, and its end. */
interface Trouble {
  readonly name: string;
  readonly begin: () => Promise<unknown>;
  readonly end: () => Promise<unknown>;
  /** What `readyz` says meanwhile. */
  readonly said: RegExp;
}

const { redis } = place;
const TROUBLES: readonly Trouble[] = [
  { name: 'killed', begin: () => redis.kill(), end: () => redis.up(), said: /does not answer/ },
  { name: 'shut down', begin: () => redis.down(), end: () => redis.up(), said: /does not answer/ },
  { name: 'frozen', begin: () => redis.freeze(), end: () => redis.thaw(), said: /does not answer/ },
  { name: 'full', begin: () => redis.command('CONFIG', 'SET', 'maxmemory', '1'), end: () => redis.command('CONFIG', 'SET', 'maxmemory', '0'), said: /maxmemory/ },
  { name: 'a read-only replica', begin: () => redis.command('REPLICAOF', '127.0.0.1', '1'), end: () => redis.command('REPLICAOF', 'NO', 'ONE'), said: /read-only replica/ },
];

describe('a node that only enqueues', () => {
  it.each(TROUBLES)('Redis $name: clients do not wait, it is said, and seals go on within 30 s of its return', async ({ begin, end, said }) => {
    const settings = place.settings(EAGER);
    const node = place.node(settings);
    await node.start();
    await place.worker(node, settings, dyingWorker('none', 1)).ready();
    const streams = await write(node, 2, 700_000);
    await begin();
    try {
      streams.push(await everyWrite(node), await everyWrite(node));
      await until('it is said', async () => said.test(await reasons(node)), 15_000);
    } finally {
      await end();
    }
    await until('everything is sealed', () => isSealed(node, streams), 30_000);
    await until('all is well', async () => (await reasons(node)) === '', 15_000);
    await checkAll(node, streams);
    await node.dispose();
    await place.endWorkers();
  }, 120_000);

  it('Redis flushed with jobs queued, and again while they run: all is queued again by itself (R044)', async () => {
    const settings = place.settings({ ...EAGER, FIRN_PARTITIONS: '4' });
    const node = place.node(settings);
    await node.start();
    const streams = await write(node, 8, 400_000);
    type Jobs = { jobs: { seal: { queued: number } } };
    await until('jobs wait', async () => ((await node.ask('GET', '/__firn/jobs')) as Jobs).jobs.seal.queued > 0);
    await redis.command('FLUSHALL');
    await until('they are queued again', async () => ((await node.ask('GET', '/__firn/jobs')) as Jobs).jobs.seal.queued > 0, 15_000);
    await redis.command('FLUSHALL');
    await place.worker(node, settings).ready();
    const flushes = setInterval(() => void redis.command('FLUSHALL').catch(() => undefined), 300);
    try {
      for (let n = 0; n < 5; n += 1) {
        for (const one of streams) await one.append(randomBytes(60_000));
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
      await until('everything is sealed', () => isSealed(node, streams));
    } finally {
      clearInterval(flushes);
    }
    await checkAll(node, streams);
    await node.dispose();
    await place.endWorkers();
  }, 120_000);

  it('says when no worker takes its jobs', async () => {
    const settings = place.settings(EAGER);
    const node = place.node(settings);
    await node.start();
    const streams = await write(node, 2, 100_000);
    await until('it is said', async () => /no worker takes them/.test(await reasons(node)), 60_000);
    await place.worker(node, settings).ready();
    await until('everything is sealed', () => isSealed(node, streams));
    await until('all is well', async () => (await reasons(node)) === '', 15_000);
    await node.dispose();
    await place.endWorkers();
  }, 120_000);
});

describe('a node that runs jobs too', () => {
  it('is started without Redis: it seals by itself, and uses the queues once Redis comes', async () => {
    await redis.down();
    const settings = place.settings({ ...EAGER, FIRN_JOBS: 'both' });
    const node = place.node(settings);
    await node.start();
    const streams = [...(await write(node, 2, 700_000)), await everyWrite(node)];
    await until('everything is sealed', () => isSealed(node, streams), 30_000);
    expect(await reasons(node)).toMatch(/does not answer .*jobs run in this process/);
    await redis.up();
    await redis.command('FLUSHALL');
    await until('all is well', async () => (await reasons(node)) === '', 15_000);
    await streams[0]!.append(randomBytes(600_000));
    await until('everything is sealed', () => isSealed(node, streams), 30_000);
    await until('over the queue', async () => ((await redis.command('KEYS', 'firn:*:seal:counts')) as string[]).length > 0);
    await checkAll(node, streams);
    await node.dispose();
  }, 120_000);

  it.each(TROUBLES)('Redis $name: it goes on sealing meanwhile', async ({ begin, end }) => {
    const settings = place.settings({ ...EAGER, FIRN_JOBS: 'both' });
    const node = place.node(settings);
    await node.start();
    const streams = await write(node, 2, 700_000);
    await until('everything is sealed', () => isSealed(node, streams), 30_000);
    await begin();
    try {
      streams.push(await everyWrite(node));
      await streams[0]!.append(randomBytes(600_000));
      await until('everything is sealed', () => isSealed(node, streams), 30_000);
    } finally {
      await end();
    }
    await streams[0]!.append(randomBytes(600_000));
    await until('everything is sealed', () => isSealed(node, streams), 30_000);
    await checkAll(node, streams);
    await node.dispose();
  }, 120_000);
});
