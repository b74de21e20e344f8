/**
 * Workers in processes of their own: what they need, what they do together, and whom they work for (architecture section 9).
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { firn } from '../support/cli.js';
import { partsOf } from '../support/multipart.js';
import { workerSettings } from '../support/worker.js';
import { checkAll, isSealed, until, usePlace, write } from './rig.js';

const place = await usePlace();

describe('several workers', () => {
  it('seal, offload and write checkpoints without the disk of the node; every byte reads back from S3 (I3)', async () => {
    const settings = place.settings({ FIRN_PARTITIONS: '4' });
    const node = place.node(settings);
    await node.start();
    for (const _ of [1, 2, 3]) await place.worker(node, settings).ready();
    const streams = await write(node, 6, 1_200_000);
    await node.seal();
    expect(await isSealed(node, streams)).toBe(true);
    expect(existsSync(join(node.dataDir, 'objects'))).toBe(false);
    expect(readdirSync(join(node.dataDir, 'staging'))).toEqual([]);
    await checkAll(node, streams);
    expect(await node.ask('POST', '/__firn/checkpoint')).toMatchObject({ checkpoints: [{ partition: 0 }, { partition: 1 }, { partition: 2 }, { partition: 3 }] });
    // A job's effect answers before BullMQ has counted the job as done.
    const jobs = async () => ((await node.ask('GET', '/__firn/jobs')) as { jobs: Record<string, { done: number; queued: number; running: number; lastRuns: { id: string; error: null }[] }> }).jobs;
    await until('every checkpoint is counted', async () => (await jobs())['checkpoint']!.lastRuns.length === 4);
    await until('the offload is counted', async () => (await jobs())['offload']!.done === 1);
    expect((await jobs())['offload']).toMatchObject({ done: 1, queued: 0, running: 0 });
    expect(await node.ask('GET', '/__firn/healthz')).toEqual({ status: 'ok', reasons: [] });
    await place.endWorkers();
  });

  it('a bootstrap whose data lies in S3 alone is partial, its snapshot whole, and its next offset readable (BOOT)', async () => {
    const settings = place.settings();
    const node = place.node(settings);
    await node.start();
    await place.worker(node, settings).ready();
    const [one] = await write(node, 1, 600_000);
    const { stream, snapshot } = one!;
    await one!.append(Buffer.from('behind the snapshot'));
    await node.seal();
    const answer = await stream.bootstrap();
    expect(answer.status).toBe(200);
    const [first] = partsOf(answer);
    expect(first!.body.equals(snapshot!.body)).toBe(true);
    const rest = await stream.all(answer.next);
    expect(Buffer.concat([one!.content.subarray(0, Number(answer.next)), rest]).equals(one!.content)).toBe(true);
    expect(answer.upToDate).toBe(false);
    await place.endWorkers();
  });
});

describe('what a worker needs', () => {
  it('waits for Redis, S3 and its node in any order, and goes on when the node is started again', async () => {
    const settings = place.settings();
    const node = place.node(settings);
    await node.start();
    await node.stop();
    await place.redis.down();
    const worker = place.worker(node, settings);
    await until('it waits', () => worker.output.includes('waiting for the node'));
    expect(worker.output).not.toContain('working');
    await node.start();
    await until('it waits for Redis', () => worker.output.includes('waiting for Redis'));
    await place.redis.up();
    await worker.ready();
    const streams = await write(node, 2, 400_000);
    await node.seal();
    await node.restart();
    await streams[1]!.append(Buffer.from('after the restart'));
    await node.seal();
    await node.kill();
    await node.start();
    await streams[1]!.append(Buffer.from('after the crash'));
    await node.seal();
    await checkAll(node, streams);
    expect(worker.output).not.toContain(settings['FIRN_ADMIN_TOKEN']);
    await place.endWorkers();
  });

  it('ends with 0 on SIGTERM, also while it waits, and what it had begun is done by another', async () => {
    const settings = place.settings();
    const node = place.node(settings);
    await node.start();
    const waiting = place.worker(node, { ...settings, FIRN_REDIS_URL: 'redis://127.0.0.1:1' });
    await until('it waits', () => waiting.output.includes('waiting for Redis'));
    expect(await waiting.end()).toEqual({ code: 0, signal: null });
    const first = await place.worker(node, settings).ready();
    const streams = await write(node, 4, 3_000_000);
    const sealing = node.seal();
    await until('it works', async () => ((await node.ask('GET', '/__firn/jobs')) as { jobs: { seal: { running: number } } }).jobs.seal.running > 0);
    const ended = first.end();
    await place.worker(node, settings).ready();
    expect(await ended).toEqual({ code: 0, signal: null });
    await sealing;
    await checkAll(node, streams);
    await place.endWorkers();
  });

  it('refuses the wrong token, another store, and what it cannot do without, each with a sentence', async () => {
    const settings = place.settings();
    const [node, other] = [place.node(settings), place.node(place.settings())];
    await node.start();
    await other.start();
    const run = (more: Record<string, string>, ...args: string[]): ReturnType<typeof firn> => firn(['worker', ...args], { ...workerSettings(node, settings), ...more });
    for (const args of [[], ['--check']]) {
      expect(await run({ FIRN_ADMIN_TOKEN: 'wrong-token' }, ...args)).toMatchObject({ code: 1, stderr: expect.stringMatching(/401 .*INVALID_CREDENTIAL/) });
      const another = await run({ FIRN_NODE_ADMIN_URL: other.adminUrl }, ...args);
      expect(another).toMatchObject({ code: 1, stderr: expect.stringMatching(/belongs to store \w+, but .* holds store \w+: name the bucket and the prefix of the node/) });
      expect(await run({ FIRN_S3_PREFIX: 'nothing/here' }, ...args)).toMatchObject({ code: 1, stderr: expect.stringMatching(/holds no store/) });
      expect(await run({ FIRN_REDIS_URL: '' }, ...args)).toMatchObject({ code: 1, stderr: expect.stringContaining('FIRN_REDIS_URL') });
      expect(await run({ FIRN_COLD: 'fs' }, ...args)).toMatchObject({ code: 1, stderr: expect.stringContaining('FIRN_S3_BUCKET') });
    }
    expect(await run({}, '--check')).toMatchObject({ code: 0, stdout: expect.stringContaining('"event":"checked"') });
    expect(await run({ FIRN_REDIS_URL: 'redis://:secret-word@127.0.0.1:1' }, '--check')).toMatchObject({ code: 1, stderr: expect.not.stringContaining('secret-word') });
    for (const odd of ['0', '13']) expect(await run({}, '--concurrency', odd), odd).toMatchObject({ code: 2 });
    await place.redis.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    expect(await run({}, '--check')).toMatchObject({ code: 1, stderr: expect.stringContaining('maxmemory-policy is allkeys-lru') });
    await place.redis.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  });
});
