/**
 * Compaction by workers in processes of their own: over BullMQ, without the node's disk, from S3 to S3 (architecture section 9, I5, I6).
 */
import { describe, expect, it } from 'vitest';
import { firn } from '../support/cli.js';
import { dyingWorker, workerSettings } from '../support/worker.js';
import { checkAll, usePlace, write } from './rig.js';

const place = await usePlace();

it('I3 I6 a worker puts together what many seals wrote; every byte reads back, and a restore finds it', { timeout: 120_000 }, async () => {
  const settings = place.settings({ FIRN_PARTITIONS: '4' });
  const node = place.node(settings);
  await node.start();
  for (const _ of [1, 2]) await place.worker(node, settings).ready();
  const streams = await write(node, 5, 100_000);
  await node.seal();
  for (let round = 0; round < 3; round++) {
    for (const one of streams) await one.append(Buffer.alloc(50_000, `round ${round} `));
    await node.seal();
  }
  const report = (await node.ask('POST', '/__firn/compact')) as { plans: number; streams: number; leftOut: number };
  expect(report.plans).toBeGreaterThan(0);
  expect([report.streams, report.leftOut]).toEqual([5, 0]);
  await checkAll(node, streams);
  const jobs = (await node.ask('GET', '/__firn/jobs')) as { jobs: { compact: { done: number; failed: number } } };
  expect([jobs.jobs.compact.done >= report.plans, jobs.jobs.compact.failed]).toEqual([true, 0]);
  const verified = await firn(['verify', '--deep'], { ...workerSettings(node, settings), FIRN_DATA_DIR: node.dataDir });
  expect(verified.code, verified.stdout).toBe(0);
  await place.endWorkers();
});

describe('a worker killed in the middle of a compaction (I6)', () => {
  it.each(['source', 'merged:before', 'merged:after', 'compact:before', 'compact:sent', 'compact:after'])('at %s: another one does the work, nothing is lost or doubled', async (step) => {
    const settings = place.settings();
    const node = place.node(settings);
    await node.start();
    const dying = await place.worker(node, settings, dyingWorker(step, 1)).ready();
    const streams = await write(node, 3, 60_000);
    await node.seal();
    for (const one of streams) await one.append(Buffer.alloc(20_000, 'later'));
    await node.seal();
    const compacting = node.ask('POST', '/__firn/compact') as Promise<{ plans: number; streams: number }>;
    expect(await dying.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(dying.output).toContain(`dying at ${step}`);
    await place.worker(node, settings, dyingWorker('none', 1)).ready();
    expect(await compacting).toMatchObject({ plans: 1, streams: 3 });
    await checkAll(node, streams);
    const page = (await node.ask('GET', `/__firn/streams${streams[0]!.stream.path}`)) as { cold: { segments: { object: string }[] } };
    expect(page.cold.segments.map(({ object }) => object.split('/')[2])).toEqual(['merged']);
    await node.dispose();
    await place.endWorkers();
  }, 90_000);
});
