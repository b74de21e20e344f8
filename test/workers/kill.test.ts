/**
 * Workers that die at every step of a seal and an offload, that are frozen beyond their lock, and jobs that come twice or late (R042, R125, I6).
 */
import { randomBytes } from 'node:crypto';
import { ListMultipartUploadsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { expect, describe, it } from 'vitest';
import { clientOf } from '../../infra/services/s3-server.js';
import { UploadSweeps } from '../../services/api/upload-sweeps.js';
import { createLogger } from '../../shared/observability/index.js';
import { BUCKET, storeOn } from '../support/s3.js';
import { dyingWorker, WORKER_STEPS } from '../support/worker.js';
import { OCTETS, Stream } from '../support/stream.js';
import { checkAll, isSealed, until, usePlace, write, Written } from './rig.js';

const place = await usePlace();
/** From the death of a worker to the end of the seal that another one took over, the start of that one included. */
const TAKEN_OVER_MS_MAX = 13_000;

/** Unfinished uploads under a node's prefix. */
async function uploads(prefix: string): Promise<number> {
  const client = clientOf(place.s3);
  try {
    const { Uploads: found = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }));
    return found.filter(({ Key = '' }) => Key.startsWith(`${prefix}/`)).length;
  } finally {
    client.destroy();
  }
}

/** Keys of data objects under a node's prefix. */
async function dataObjects(prefix: string): Promise<string[]> {
  const client = clientOf(place.s3);
  try {
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: BUCKET, Prefix: `${prefix}/partitions/0000/` }));
    return Contents.map(({ Key = '' }) => Key.slice(prefix.length + 1)).filter((key) => /\/(segments|snapshots)\//.test(key));
  } finally {
    client.destroy();
  }
}

describe('a worker killed at any step', () => {
  it.each(WORKER_STEPS)('at %s, occurrence %i: another one does the work, nothing is lost or doubled', async (step, occurrence) => {
    const settings = place.settings();
    const node = place.node(settings);
    await node.start();
    const dying = await place.worker(node, settings, dyingWorker(step, occurrence)).ready();
    const streams = await write(node, 3, 900_000);
    // 36 MB make a second object of the plan.
    if (step === 'put:after') for (let n = 0; n < 12; n += 1) await streams[2]!.append(Buffer.alloc(3_000_000, n));
    const sealing = node.seal();
    expect(await dying.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(dying.output).toContain(`dying at ${step}`);
    await place.worker(node, settings, dyingWorker('none', 1)).ready();
    await sealing;
    expect(await isSealed(node, streams)).toBe(true);
    await checkAll(node, streams);
    await node.dispose();
    await place.endWorkers();
  }, 90_000);
});

describe('a killed worker', () => {
  it('has its seal and its offload done by another within seconds', async () => {
    const settings = place.settings();
    const node = place.node(settings);
    await node.start();
    const dying = await place.worker(node, settings, [...dyingWorker('put:before', 1), 'lasting']).ready();
    const streams = await write(node, 3, 900_000);
    const sealing = node.seal();
    expect(await dying.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const began = performance.now();
    await place.worker(node, settings).ready();
    await sealing;
    expect(performance.now() - began).toBeLessThan(TAKEN_OVER_MS_MAX);
    await checkAll(node, streams);
    await node.dispose();
    await place.endWorkers();
  }, 90_000);

  it('leaves an upload that is swept, and nothing that another one wrote (R041)', async () => {
    const settings = place.settings();
    const node = place.node(settings);
    await node.start();
    const dying = await place.worker(node, settings, dyingWorker('snapshot:piece', 2)).ready();
    const one = new Written(new Stream(node.http, '/jobs/large'));
    expect((await one.stream.create({ type: OCTETS, body: 'x' })).status).toBe(201);
    one.content = Buffer.from('x');
    await one.publish(randomBytes(18_000_000));
    expect(await dying.exited).toEqual({ code: null, signal: 'SIGKILL' });
    await place.worker(node, settings, dyingWorker('none', 1)).ready();
    await node.seal();
    const store = await storeOn(place.s3, { prefix: settings['FIRN_S3_PREFIX'] });
    expect(await uploads(settings['FIRN_S3_PREFIX']!)).toBe(1);
    const sweeps = new UploadSweeps({ objects: store, logger: createLogger('silent'), firstMs: 1_100, graceMs: 0 });
    await until('it is swept', async () => (await uploads(settings['FIRN_S3_PREFIX']!)) === 0);
    await sweeps.end();
    await store.close();
    await checkAll(node, [one]);
    await node.dispose();
    await place.endWorkers();
  }, 90_000);
});

describe('a worker frozen beyond its lock, and woken (R031, R042)', () => {
  it.each(['put:after', 'commit:before', 'item', 'offload:before'])('at %s: the late one changes nothing, whoever was first', async (step) => {
    const settings = place.settings({ FIRN_SEAL_AGE_MS: '300' });
    const node = place.node(settings);
    await node.start();
    const frozen = await place.worker(node, settings, [...dyingWorker(step, 1), 'freeze']).ready();
    const streams = await write(node, 3, 900_000);
    await until('it froze', () => frozen.output.includes(`frozen at ${step}`));
    await place.worker(node, settings, dyingWorker('none', 1)).ready();
    await until('everything is sealed without it', () => isSealed(node, streams));
    await streams[1]!.append(Buffer.from('while it is frozen'));
    // A stream of the plan that it holds begins another life.
    const reborn = streams[2]!;
    expect((await reborn.stream.delete()).status).toBe(204);
    expect((await reborn.stream.create({ type: 'application/octet-stream' })).status).toBe(201);
    reborn.content = Buffer.alloc(0);
    await reborn.append(Buffer.from('another life'));
    frozen.signal('SIGCONT');
    await until('everything is sealed', () => isSealed(node, streams));
    for (let n = 0; n < 5; n += 1) {
      await streams[1]!.append(Buffer.from(`after it woke ${n}`));
      await until('everything is sealed', () => isSealed(node, streams));
    }
    await checkAll(node, streams);
    await node.dispose();
    await place.endWorkers();
  }, 120_000);
});

describe('jobs that come twice, or late (R125)', () => {
  it('a job of a plan that is over, of a session before, or of nothing at all costs one question and no object', async () => {
    const settings = place.settings();
    const node = place.node(settings);
    await node.start();
    const worker = await place.worker(node, settings).ready();
    const streams = await write(node, 2, 100_000);
    await node.seal();
    const store = /"store":"(\w+)"/.exec(worker.output)![1]!;
    const before = await dataObjects(settings['FIRN_S3_PREFIX']!);
    type Jobs = { jobs: { seal: { queued: number; running: number; done: number; failed: number; lastRuns: { id: string; error: string | null }[] } } };
    const now = async () => (await node.ask('GET', '/__firn/jobs')) as Jobs;
    // A job's effect answers before BullMQ has counted the job as done.
    await until('the seals are counted', async () => {
      const { seal } = (await now()).jobs;
      return seal.lastRuns.length > 0 && seal.queued + seal.running === 0;
    });
    const { jobs } = await now();
    const old = jobs.seal.lastRuns[0]!.id;
    const connection = new Redis(place.redis.url);
    const queue = new Queue('seal', { connection, prefix: `firn:${store}` });
    await node.restart();
    for (const id of [old, old.replace(/-1$/, '-2'), '0000-000009-0000000001-1', 'nothing']) await queue.add('seal', {}, { jobId: `seal-${id}`, removeOnComplete: true, removeOnFail: true });
    await until('they were taken', async () => (await now()).jobs.seal.done === jobs.seal.done + 4);
    await queue.close();
    connection.disconnect();
    expect(await dataObjects(settings['FIRN_S3_PREFIX']!)).toEqual(before);
    await streams[1]!.append(Buffer.from('goes on'));
    await node.seal();
    await checkAll(node, streams);
    await place.endWorkers();
  });
});
