/**
 * Webhooks delivered as jobs, by workers in processes of their own: once a wake, whatever becomes of workers, Redis and node (architecture section 9; I5, I6).
 */
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import type { Env, FirnNode } from '../support/node.js';
import { Stream, TEXT } from '../support/stream.js';
import { checkSignature, DONE, jwksOf, receivers, Sub, type Receiver } from '../support/webhooks.js';
import { dyingWorker } from '../support/worker.js';
import { until, usePlace } from './rig.js';

const place = await usePlace();
const receiver = receivers();
const { redis } = place;

/** A delivery that no worker takes is made by the node after 1 s; with what else takes time here. */
const HERE_MS_MAX = 4_000;
/** Median from an append to the receiver over Redis, on a machine that does other things too. In one process it is a few ms. */
const MEDIAN_MS_MAX = 50;

interface Jobs {
  readonly jobs: { readonly deliver: { readonly done: number; readonly failed: number; readonly queued: number; readonly lastRuns: readonly { readonly id: string; readonly error: string | null }[] } };
}

async function jobs(node: FirnNode): Promise<Jobs['jobs']['deliver']> {
  return ((await node.ask('GET', '/__firn/jobs')) as Jobs).jobs.deliver;
}

interface Scene {
  readonly node: FirnNode;
  readonly settings: Env;
  readonly hook: Receiver;
  readonly sub: Sub;
  readonly streams: readonly Stream[];
}

async function scene(more: Env = {}, subscription: object = {}): Promise<Scene> {
  const settings = place.settings(more);
  const node = place.node(settings);
  await node.start();
  const hook = await receiver();
  const sub = new Sub(node, 'sub');
  const streams = Array.from({ length: 20 }, (_, n) => new Stream(node.http, `/v1/stream/ev/${n}`));
  for (const stream of streams) expect((await stream.create({ type: TEXT, body: 'x' })).status).toBe(201);
  await sub.webhook(hook, 'ev/*', subscription);
  return { node, settings, hook, sub, streams };
}

async function end({ node }: Scene): Promise<void> {
  await node.dispose();
  await place.endWorkers();
}

describe('deliveries by a worker', () => {
  it('SUB-28 SUB-29 are made once a wake, signed by the node, soon, and nothing of them lies in Redis', async () => {
    const all = await scene();
    const { node, settings, hook, sub, streams } = all;
    await place.worker(node, settings).ready();
    const keys = await jwksOf(node.http);
    const waits: number[] = [];
    const seen: string[] = [];
    const connection = new Redis(redis.url);
    const monitor = await connection.monitor();
    monitor.on('monitor', (_time: string, args: string[]) => seen.push(args.join(' ')));
    for (let n = 0; n < 40; n++) {
      const began = Date.now();
      const { next } = await streams[n % 20]!.append('more');
      const received = await hook.next();
      waits.push(received.atMs - began);
      expect(checkSignature(received, keys).valid).toBe(true);
      expect(received.body.generation).toBe(n + 1);
      await until('it is acknowledged', async () => (await sub.acked(`ev/${n % 20}`)) === next);
    }
    monitor.disconnect();
    connection.disconnect();
    expect(await hook.silence(500)).toBe(true);
    expect(new Set(hook.received.map(({ body }) => body.wake_id)).size).toBe(40);
    await until('all are counted', async () => (await jobs(node)).done === 40);
    expect((await jobs(node)).failed).toBe(0);
    expect(seen.length).toBeGreaterThan(40);
    for (const secret of [hook.received[0]!.body.callback_token, hook.url, 'ed25519', 'ev/1']) expect(seen.some((command) => command.includes(secret)), secret).toBe(false);
    const median = waits.sort((a, b) => a - b)[20]!;
    expect(median).toBeLessThan(MEDIAN_MS_MAX);
    await end(all);
  }, 90_000);

  it('SUB-56 go where the worker itself may send them', async () => {
    const all = await scene({}, { lease_ttl_ms: 10_000 });
    const { node, settings, hook, sub, streams } = all;
    await place.worker(node, { ...settings, FIRN_WEBHOOK_ALLOW: 'none' }).ready();
    await streams[0]!.append('more');
    await until('it failed', async () => (await sub.shown()).status === 'failed');
    expect(hook.received).toEqual([]);
    await end(all);
  }, 60_000);

  it('to a thousand subscriptions on one pattern reach every one of them', async () => {
    const all = await scene();
    const { node, settings, hook, streams } = all;
    for (let n = 0; n < 1_000; n += 50) await Promise.all(Array.from({ length: 50 }, (_, m) => new Sub(node, `many-${n + m}`).webhook(hook, 'ev/*')));
    await Promise.all([1, 2].map(() => place.worker(node, settings).ready()));
    await streams[3]!.append('more');
    await until('all were told', () => hook.received.length >= 1_001);
    expect(new Set(hook.received.map(({ body }) => body.subscription_id)).size).toBe(1_001);
    expect(await hook.silence(0)).toBe(false);
    await until('nothing is left in the queue', async () => (await jobs(node)).queued === 0);
    await end(all);
  }, 90_000);
});

describe('a worker killed in the middle of a delivery', () => {
  it.each([['delivery:taken', 1], ['delivered:before', 2], ['delivered:after', 1]] as const)('at %s: another one makes it, the receiver is told %i times of one wake', async (step, times) => {
    const all = await scene();
    const { node, settings, hook, sub, streams } = all;
    const dying = await place.worker(node, settings, dyingWorker(step, 1)).ready();
    const { next } = await streams[5]!.append('more');
    expect(await dying.exited).toEqual({ code: null, signal: 'SIGKILL' });
    await place.worker(node, settings, dyingWorker('none', 1)).ready();
    await until('it is acknowledged', async () => (await sub.acked('ev/5')) === next, 20_000);
    expect(await hook.silence(500)).toBe(false);
    expect(hook.received.map(({ body }) => [body.generation, body.wake_id])).toEqual(Array.from({ length: times }, () => [1, hook.received[0]!.body.wake_id]));
    await streams[6]!.append('more');
    await until('the next wake comes', () => hook.received.length === times + 1);
    expect(hook.received.at(-1)!.body.generation).toBe(2);
    await end(all);
  }, 60_000);

  it('with none to take over: the wake fails in time and is told again by the node', async () => {
    const all = await scene({}, { lease_ttl_ms: 3_000 });
    const { node, settings, sub, streams } = all;
    const dying = await place.worker(node, settings, dyingWorker('delivery:taken', 1)).ready();
    const { next } = await streams[5]!.append('more');
    expect(await dying.exited).toEqual({ code: null, signal: 'SIGKILL' });
    await until('it is acknowledged', async () => (await sub.acked('ev/5')) === next, 30_000);
    await end(all);
  }, 60_000);
});

describe('a worker frozen beyond its lock, and woken (I6)', () => {
  it.each(['delivery:taken', 'delivered:before'])('at %s: its outcome counts no more, later wakes go on', async (step) => {
    const all = await scene();
    const { node, settings, hook, sub, streams } = all;
    const frozen = await place.worker(node, settings, [...dyingWorker(step, 1), 'freeze']).ready();
    const { next } = await streams[5]!.append('more');
    await until('it froze', () => frozen.output.includes(`frozen at ${step}`));
    await place.worker(node, settings, dyingWorker('none', 1)).ready();
    await until('it is acknowledged without it', async () => (await sub.acked('ev/5')) === next, 20_000);
    // The next wake is under way, and not acknowledged, when the other one comes back with an outcome of the first.
    hook.reply = (res) => void setTimeout(() => res.end('{}'), 1_000);
    await streams[6]!.append('more');
    await until('the next wake is told', () => hook.received.some(({ body }) => body.generation === 2));
    frozen.signal('SIGCONT');
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    const told = hook.received.find(({ body }) => body.generation === 2)!.body;
    expect(await sub.acked('ev/6')).toBe('00000000000000000001');
    expect((await sub.tell('callback', { token: told.callback_token, wake_id: told.wake_id, generation: 2, done: true })).status).toBe(200);
    hook.reply = DONE;
    const { next: last } = await streams[7]!.append('more');
    await until('wakes go on', async () => (await sub.acked('ev/7')) === last);
    // A generation names one wake, however often it was told.
    const wakes = new Set(hook.received.map(({ body }) => `${body.generation} ${body.wake_id}`));
    expect(wakes.size).toBe(new Set(hook.received.map(({ body }) => body.generation)).size);
    await end(all);
  }, 90_000);
});

describe('without Redis or workers', () => {
  it('the node makes a delivery itself when no worker takes it, and leaves no job behind', async () => {
    const all = await scene();
    const { node, hook, sub, streams } = all;
    const began = performance.now();
    const { next } = await streams[0]!.append('more');
    await hook.next(HERE_MS_MAX);
    expect(performance.now() - began).toBeLessThan(HERE_MS_MAX);
    await until('it is acknowledged', async () => (await sub.acked('ev/0')) === next);
    for (let n = 1; n < 20; n++) {
      await streams[n]!.append('more');
      await hook.next(HERE_MS_MAX);
    }
    expect((await jobs(node)).queued).toBe(0);
    await end(all);
  }, 60_000);

  it.each([
    ['flushed all the time', () => redis.command('FLUSHALL'), () => Promise.resolve()],
    ['killed', () => redis.kill(), () => redis.up()],
    ['frozen', () => redis.freeze(), () => redis.thaw()],
    ['full', () => redis.command('CONFIG', 'SET', 'maxmemory', '1'), () => redis.command('CONFIG', 'SET', 'maxmemory', '0')],
  ] as const)('Redis %s: every wake arrives, once, and workers are used again afterwards (R044, R046)', async (name, begin, over) => {
    const all = await scene();
    const { node, settings, hook, sub, streams } = all;
    await place.worker(node, settings, dyingWorker('none', 1)).ready();
    await streams[0]!.append('more');
    await hook.next();
    await begin();
    const flushes = name === 'flushed all the time' ? setInterval(() => void begin().catch(() => undefined), 20) : null;
    try {
      for (let n = 1; n < 8; n++) {
        const began = performance.now();
        const { next } = await streams[n]!.append('more');
        expect(performance.now() - began).toBeLessThan(2_000);
        await hook.next(HERE_MS_MAX);
        await until('it is acknowledged', async () => (await sub.acked(`ev/${n}`)) === next);
      }
    } finally {
      if (flushes !== null) clearInterval(flushes);
      await over();
    }
    expect(await hook.silence(500)).toBe(true);
    await until('workers are used again', async (): Promise<boolean> => {
      const before: number = (await jobs(node)).done;
      const { next } = await streams[9]!.append('more');
      await until('it is acknowledged', async () => (await sub.acked('ev/9')) === next);
      await new Promise((resolve) => setTimeout(resolve, 300));
      return (await jobs(node)).done > before;
    });
    expect(new Set(hook.received.map(({ body }) => body.wake_id)).size).toBe(hook.received.length);
    await end(all);
  }, 90_000);

  it('a node that runs jobs too delivers from the queue, and a job that comes twice, late, or of nothing does no harm (R125)', async () => {
    const all = await scene({ FIRN_JOBS: 'both' });
    const { node, hook, sub, streams } = all;
    const { next } = await streams[0]!.append('more');
    await hook.next();
    await until('it is acknowledged', async () => (await sub.acked('ev/0')) === next);
    await until('it is counted', async () => (await jobs(node)).done === 1);
    const [{ id: old } = { id: '' }] = (await jobs(node)).lastRuns;
    const prefixes = (await redis.command('KEYS', 'firn:*:deliver:meta')) as string[];
    const connection = new Redis(redis.url);
    const queues = prefixes.map((key) => new Queue('deliver', { connection, prefix: key.slice(0, -':deliver:meta'.length) }));
    for (const queue of queues) for (const id of [old, `${old}0`, 'nothing']) await queue.add('deliver', {}, { jobId: `deliver-${id}`, removeOnComplete: true, removeOnFail: true });
    await until('they ran', async () => (await jobs(node)).done === 4);
    for (const queue of queues) await queue.close();
    connection.disconnect();
    expect((await jobs(node)).failed).toBe(0);
    expect(await hook.silence(300)).toBe(true);
    await end(all);
  }, 60_000);
});

it('SUB-25 a node killed while a worker has its delivery tells the same wake again after its start', async () => {
  const all = await scene();
  const { node, settings, hook, sub, streams } = all;
  const frozen = await place.worker(node, settings, [...dyingWorker('delivery:taken', 1), 'freeze']).ready();
  const { next } = await streams[5]!.append('more');
  await until('it froze', () => frozen.output.includes('frozen at'));
  await node.kill();
  await node.start();
  await until('it is acknowledged', async () => (await sub.acked('ev/5')) === next, 20_000);
  frozen.signal('SIGCONT');
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const [first] = hook.received;
  for (const { body } of hook.received) expect([body.generation, body.wake_id]).toEqual([1, first!.body.wake_id]);
  const { next: last } = await streams[6]!.append('more');
  await until('wakes go on', async () => (await sub.acked('ev/6')) === last);
  await end(all);
}, 60_000);
