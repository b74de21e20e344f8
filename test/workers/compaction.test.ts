/**
 * Compaction by workers in processes of their own: over BullMQ, without the node's disk, from S3 to S3 (design section 9, I5, I6).
 */
import { expect, it } from 'vitest';
import { firn } from '../support/cli.js';
import { workerSettings } from '../support/worker.js';
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
