/** The object store alone is enough (architecture section 6): a lost `hot/` comes back by `firn restore`; what it refuses, and `FIRN_COLD=none`. */
import { cpSync, existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FirnNode } from '../support/node.js';
import type { Env } from '../support/node.js';
import { seeded } from '../support/random.js';
import { OCTETS, Stream } from '../support/stream.js';
import { compareAll, grow, modelled } from './model.js';

let node: FirnNode;
afterEach(() => node.dispose());

const start = async (settings: Env = {}): Promise<void> => {
  node = new FirnNode({ FIRN_SEAL_AGE_MS: '3600000', FIRN_HOT_KEEP_MS: '0', ...settings });
  await node.start();
};
const lose = (...folders: string[]): void => folders.forEach((folder) => rmSync(join(node.dataDir, folder), { recursive: true, force: true }));

for (const [title, settings, checkpoint] of [
  ['from the log', {}, false],
  ['from a checkpoint and the log after it', {}, true],
  ['of four partitions', { FIRN_PARTITIONS: '4' }, true],
] as const) {
  it(`a restore ${title} gives back every stream with its state`, { timeout: 180_000 }, async () => {
    const random = seeded(`restore ${title}`);
    await start(settings);
    const streams = await modelled(node, random, 8);
    await grow(streams, random, 80);
    for (const one of streams.slice(0, 3)) await one.publish(random, random.pick([50, 20_000, 1_200_000]));
    for (const one of streams.slice(0, 2)) await one.retain(random);
    await streams[5]!.close();
    const keyed = new Stream(node.http, '/back/keyed');
    await keyed.create({ type: OCTETS, ttl: 3_600 });
    await keyed.append('a', { producer: ['p', 2, 0], seq: '7' });
    await keyed.append('b', { producer: ['p', 2, 1] });
    const gone = new Stream(node.http, '/back/gone');
    await gone.create({ type: OCTETS, body: 'gone' });
    await node.seal();
    if (checkpoint) await node.ask('POST', '/__firn/checkpoint');
    await gone.delete();
    const grownAtMs = Date.now();
    await grow(streams, random, 30);
    await node.seal();
    const { incarnation } = await keyed.head();
    await node.stop();
    // With and without the side file that knows of acknowledged batches: both name the way out, and neither stands in it.
    lose('hot', 'staging', 'cache', ...(checkpoint ? [] : ['acked']));

    const refused = await firn(['serve'], settingsFor(node));
    expect(refused.code).not.toBe(0);
    expect(refused.stderr + refused.stdout).toContain('firn restore');
    const run = await firn(['restore'], settingsFor(node, settings));
    expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
    const report = JSON.parse(run.stdout) as { partitions: { streams: number; lastRecordAtMs: number | null }[]; losses: unknown[] };
    expect(report.losses).toEqual([]);
    expect(report.partitions.reduce((sum, part) => sum + part.streams, 0)).toBe(streams.length + 1);
    const lastAtMs = Math.max(...report.partitions.map((part) => part.lastRecordAtMs ?? 0));
    expect([lastAtMs >= grownAtMs, lastAtMs <= Date.now()]).toEqual([true, true]);
    expect(existsSync(join(node.dataDir, 'hot'))).toBe(true);
    await node.start();

    await compareAll(streams, random);
    expect((await gone.head()).status).toBe(404);
    expect((await keyed.append('b', { producer: ['p', 2, 1] })).status).toBe(204);
    expect((await keyed.append('x', { seq: '7' })).status).toBe(409);
    const head = await keyed.head();
    expect(head.header('stream-ttl')).toBe('3600');
    // The embedded store implies new incarnations; INC-04 holds for the others.
    expect(head.incarnation).toMatch(/^[1-9]\d{15}$/);
    expect(head.incarnation).not.toBe(incarnation);
    await grow(streams, random, 20);
    await node.seal();
    await compareAll(streams, random);
    const verify = await firn(['verify', '--deep'], settingsFor(node));
    expect([verify.code, verify.code === 0 ? '' : verify.stdout]).toEqual([0, '']);
  });
}

describe('refusals', () => {
  it('a restore into a directory that has its hot tier, or without a store, is refused', async () => {
    await start();
    await new Stream(node.http, '/there/s').create({ type: OCTETS, body: 'abc' });
    await node.seal();
    await node.stop();
    const there = await firn(['restore'], settingsFor(node));
    expect([there.code === 0, there.stderr.length > 0]).toEqual([false, true]);
    lose('hot', 'acked', 'objects');
    expect((await firn(['restore'], settingsFor(node))).code).not.toBe(0);
  });

  it('I10 a directory whose store has moved on, or is another one, is refused', { timeout: 90_000 }, async () => {
    await start();
    const s = new Stream(node.http, '/moved/s');
    await s.create({ type: OCTETS, body: 'abc' });
    await node.seal();
    await node.stop();
    const old = join(node.dataDir, 'hot-before');
    cpSync(join(node.dataDir, 'hot'), old, { recursive: true });
    lose('hot', 'acked');
    expect((await firn(['restore'], settingsFor(node))).code).toBe(0);
    await node.start();
    await s.append('def');
    await node.seal();
    await node.stop();
    lose('hot', 'acked');
    renameSync(old, join(node.dataDir, 'hot'));
    const run = await firn(['serve'], settingsFor(node));
    expect(run.code).not.toBe(0);
    lose('hot', 'objects');
    renameSync(join(node.dataDir, 'staging'), join(node.dataDir, 'staging-before'));
  });

  it('the settings that are fixed when a store is made cannot change later', { timeout: 90_000 }, async () => {
    await start();
    await new Stream(node.http, '/fixed/s').create({ type: OCTETS, body: 'abc' });
    await node.stop();
    const none = await firn(['serve'], settingsFor(node, { FIRN_COLD: 'none' }));
    expect(none.code).not.toBe(0);
    lose('objects');
    const without = await firn(['serve'], settingsFor(node));
    expect(without.code).not.toBe(0);
  });
});

describe('FIRN_COLD=none', () => {
  it('serves everything from the hot tier, and says 501 where a cold tier would be needed', { timeout: 120_000 }, async () => {
    const random = seeded('none');
    await start({ FIRN_COLD: 'none' });
    const streams = await modelled(node, random, 6);
    await grow(streams, random, 60);
    for (const one of streams.slice(0, 3)) await one.publish(random, 5_000);
    for (const one of streams.slice(0, 3)) await one.retain(random);
    await compareAll(streams, random);
    for (const route of ['seal', 'checkpoint', 'compact', 'collect']) {
      const answer = await node.admin.send('POST', `/__firn/${route}`);
      expect([route, answer.status, answer.text.includes('NO_COLD_STORE')]).toEqual([route, 501, true]);
    }
    await node.kill();
    await node.start();
    await grow(streams, random, 20);
    await compareAll(streams, random);
    expect(existsSync(join(node.dataDir, 'objects', 'store.json'))).toBe(false);
    await node.stop();
    expect((await firn(['restore'], settingsFor(node, { FIRN_COLD: 'none' }))).code).not.toBe(0);
    const verify = await firn(['verify', '--deep'], settingsFor(node, { FIRN_COLD: 'none' }));
    expect([verify.code, verify.code === 0 ? '' : verify.stdout + verify.stderr]).toEqual([0, '']);
  });

  it('tokens differ over restarts', async () => {
    await start({ FIRN_COLD: 'none' });
    const s = new Stream(node.http, '/token/s');
    const seen = new Set<string>();
    for (let i = 0; i < 6; i += 1) {
      seen.add((await s.create()).incarnation);
      await s.delete();
      if (i % 2 === 1) {
        await node.kill();
        await node.start();
      }
    }
    expect(seen.size).toBe(6);
  });
});
