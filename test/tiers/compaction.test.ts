/**
 * Compaction of a running node over HTTP: streams that live, die and come back while seals, evictions and compactions run all the time read as their model says, after a crash and from the objects alone too
 * (I1, I6, I7, R024). `FIRN_SEED` replays a run, `FIRN_COMPACT_MS` makes it longer.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FirnNode } from '../support/node.js';
import { seeded, type Random } from '../support/random.js';
import { OCTETS, Stream } from '../support/stream.js';
import { compareAll, grow, Modelled, modelled } from './model.js';

const RUN_MS = Number(process.env['FIRN_COMPACT_MS'] ?? 8_000);

let node: FirnNode;
afterEach(() => node.dispose());

interface Report {
  readonly plans: number;
  readonly objects: number;
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly streams: number;
  readonly leftOut: number;
}

async function compact(): Promise<Report> {
  return (await node.ask('POST', '/__firn/compact')) as Report;
}

/** Appends, snapshots, boundaries, ends and returns of one URL. */
async function live(path: string, random: Random, until: number): Promise<Modelled> {
  let tenant = new Modelled(new Stream(node.http, path), OCTETS);
  await tenant.create();
  while (Date.now() < until) {
    const dice = random.next();
    if (dice < 0.03) {
      expect((await tenant.stream.delete()).status).toBe(204);
      tenant = new Modelled(new Stream(node.http, path), OCTETS);
      await tenant.create();
    } else if (dice < 0.1 && (tenant.snapshot?.offset ?? -1) < tenant.content.length) await tenant.publish(random, 300);
    else if (dice < 0.15) await tenant.retain(random);
    else if (dice < 0.25) await tenant.compare(random);
    else await tenant.append(random, random.chance(0.05) ? 200_000 : 2_000);
  }
  return tenant;
}

for (const partitions of ['1', '4']) {
  it(`I1 I6 I7 goes on under appends, reads, seals, deletes and retention (${partitions} partitions)`, { timeout: RUN_MS + 120_000 }, async () => {
    const random = seeded('compaction');
    const settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '40', FIRN_SEAL_BYTES: '20000', FIRN_PARTITIONS: partitions, FIRN_LOG: 'warn' };
    node = new FirnNode(settings);
    await node.start();
    const end = Date.now() + RUN_MS;
    let done = 0;
    const compacting = (async () => {
      while (Date.now() < end) done += (await compact()).plans;
    })();
    const streams = await Promise.all(Array.from({ length: 6 }, (_, n) => live(`/compact/place-${n}`, random.fork(), end)));
    await compacting;
    expect(done).toBeGreaterThan(0);
    await compareAll(streams, random);
    await node.kill();
    await node.start();
    await compareAll(streams, random);
    await node.seal();
    await compact();
    await compareAll(streams, random);
    const verified = await firn(['verify', '--deep'], settingsFor(node, settings));
    expect(verified.code, verified.stdout).toBe(0);
    await node.ask('POST', '/__firn/checkpoint');
    await node.stop();
    for (const part of ['hot', 'acked', 'staging']) rmSync(join(node.dataDir, part), { recursive: true, force: true });
    expect((await firn(['restore'], settingsFor(node, settings))).code).toBe(0);
    await node.start();
    await compareAll(streams, random);
  });
}

it('POST /__firn/compact answers what it did, once; jobs, metrics and the page of a stream tell of it', { timeout: 60_000 }, async () => {
  const random = seeded('compact once');
  node = new FirnNode({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000' });
  await node.start();
  const streams = await modelled(node, random, 6);
  for (let round = 0; round < 5; round++) {
    await grow(streams, random, 12);
    for (const one of streams) await one.append(random);
    await node.seal();
  }
  const report = await compact();
  expect(report).toMatchObject({ plans: 1, objects: 1, streams: 6, leftOut: 0 });
  expect(report.bytesRead).toBeGreaterThan(0);
  expect(report.bytesWritten).toBeGreaterThan(0);
  expect(await compact()).toEqual({ plans: 0, objects: 0, bytesRead: 0, bytesWritten: 0, streams: 0, leftOut: 0 });
  await compareAll(streams, random);
  const page = (await node.ask('GET', `/__firn/streams${streams[0]!.stream.path}`)) as { cold: { segments: { object: string }[] } };
  expect(page.cold.segments.map(({ object }) => object.split('/')[2])).toEqual(['merged']);
  const jobs = (await node.ask('GET', '/__firn/jobs')) as { jobs: { compact: { done: number; failed: number } }; plans: unknown[] };
  expect([jobs.jobs.compact.done, jobs.jobs.compact.failed, jobs.plans]).toEqual([1, 0, []]);
  const metrics = (await node.admin.send('GET', '/__firn/metrics')).text;
  const value = (name: string): number => Number(metrics.split('\n').find((line) => line.startsWith(name))?.split(' ')[1]);
  expect(value('firn_compactions_total')).toBe(1);
  expect(value('firn_object_bytes_written_total{kind="merged"}')).toBe(report.bytesWritten);
  expect(value('firn_compacted_bytes_read_total')).toBe(report.bytesRead);
  expect(value('firn_cold_references{partition="0"}')).toBeGreaterThan(0);
  expect(value('firn_cold_garbage_bytes{partition="0"}')).toBeGreaterThan(0);
});

it('without a cold tier there is nothing to compact (501 NO_COLD_STORE)', async () => {
  node = new FirnNode({ FIRN_COLD: 'none' });
  await node.start();
  const answer = await node.admin.send('POST', '/__firn/compact');
  expect([answer.status, answer.text.includes('NO_COLD_STORE')]).toEqual([501, true]);
});
