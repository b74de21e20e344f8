/** Checkpoints that are damaged: the one before and the log behind it hold the same, and whoever meets it says so (I8, I9). */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics } from '../../../shared/observability/metrics.js';
import { FsObjectStore } from '../../../shared/storage/fs-store.js';
import { coldMetrics } from './cold-metrics.js';
import { namesIn, useRig } from './cold-rig.contract.js';
import { restore, type RestoreReport } from './restore.js';

const place = useRig();

async function restoreHere(): Promise<RestoreReport> {
  await place.rig.close();
  await rm(join(place.dir, 'hot'), { recursive: true });
  const objects = await FsObjectStore.open(join(place.dir, 'objects'));
  return restore({ config: { dataDir: place.dir, cold: 'fs' }, objects, newIncarnations: false, logger: createLogger('silent'), metrics: coldMetrics(createMetrics()), now: Date.now, nonce: () => randomBytes(16).toString('hex'), signal: AbortSignal.timeout(30_000) });
}

const soon = (): AbortSignal => AbortSignal.timeout(10_000);

/** Appends, seals and makes a checkpoint of it, `count` times; what the stream holds then. */
async function checkpoints(count: number): Promise<string> {
  let all = '';
  for (let n = 0; n < count; n++) {
    all += `line ${n}\n`;
    await place.rig.append('demo/a', `line ${n}\n`);
    await place.rig.seal();
    await place.rig.cold.checkpointNow(soon());
  }
  return all;
}

async function manifests(): Promise<string[]> {
  return (await namesIn(place.rig.objects, 'partitions/0000/checkpoints/')).sort();
}

async function parts(): Promise<string[]> {
  return (await namesIn(place.rig.objects, 'partitions/0000/')).filter((key) => key.includes('checkpoint') && !key.startsWith('partitions/0000/checkpoints/')).sort();
}

const fileOf = (key: string): string => join(place.dir, 'objects', key);

async function flip(key: string): Promise<void> {
  const bytes = await readFile(fileOf(key));
  const at = bytes.length >> 1;
  bytes[at] = (bytes[at] as number) ^ 1;
  await rm(fileOf(key));
  await writeFile(fileOf(key), bytes);
}

const damages: readonly (readonly [string, () => Promise<void>, boolean])[] = [
  ['the manifest has a flipped byte', async () => flip((await manifests()).at(-1) as string), true],
  ['a part has a flipped byte', async () => flip((await parts()).at(-1) as string), true],
  ['a part is gone', async () => rm(fileOf((await parts()).at(-1) as string)), true],
  ['the manifest is gone', async () => rm(fileOf((await manifests()).at(-1) as string)), false],
];

describe.each(damages)('when of the newest checkpoint %s', (_, damage, isTold) => {
  it('a restore begins with the one before, gives all back and says so (I9)', async () => {
    const node = await place.start();
    await node.create('demo/a');
    const all = await checkpoints(3);
    await node.append('demo/a', 'behind\n');
    await node.seal();
    await node.collect();
    await damage();
    const { partitions, lossCount } = await restoreHere();
    expect(lossCount).toBe(0);
    expect(partitions[0]?.damagedCheckpoints).toHaveLength(isTold ? 1 : 0);
    const again = await place.start();
    expect((await again.read('demo/a')).toString()).toBe(`${all}behind\n`);
  });

  it('the node goes on making checkpoints and collecting, and tells it (I8)', async () => {
    const node = await place.start({ hotKeepMs: 0 }, { collectGraceMs: 1 });
    await node.create('demo/a');
    const all = await checkpoints(3);
    await node.create('demo/b', { body: 'to be garbage\n' });
    await node.seal();
    await damage();
    await node.delete('demo/b');
    await node.seal();
    expect(await node.collect()).toMatchObject({ unknown: 0 });
    await node.collect();
    expect(await node.collect()).toMatchObject({ waiting: 0 });
    // By the next checkpoint, and by a collection before it deletes what lies before.
    expect(node.metrics.damage.object.value).toBe(isTold ? 2 : 0);
    const { partitions } = await restoreHere();
    expect(partitions[0]?.damagedCheckpoints).toHaveLength(0);
    const again = await place.start();
    expect((await again.read('demo/a')).toString()).toBe(all);
  });
});

describe('when the older of the newest two checkpoints has rotted', () => {
  it('a collection that is to delete what lies before it keeps that, and tells it, until two later ones are whole (I8, I9)', async () => {
    const node = await place.start({ hotKeepMs: 0 }, { collectGraceMs: 1 });
    await node.create('demo/a');
    let all = await checkpoints(2);
    const parts2 = (await parts()).at(-1) as string;
    await flip(parts2);
    // Made from the first, since the second one's bytes are wrong: its length is not.
    all += await checkpoints(1);
    const before = await manifests();
    const damage = node.metrics.damage.object.value;
    expect(await node.collect()).toMatchObject({ checkpoints: 0, logs: 0 });
    expect(await manifests()).toEqual(before);
    expect(node.metrics.damage.object.value).toBe(damage + 1);
    await flip((await parts()).at(-1) as string);
    // Neither of the two can be used: the first is still there.
    const { partitions } = await restoreHere();
    expect(partitions[0]?.damagedCheckpoints).toHaveLength(2);
    const again = await place.start();
    expect((await again.read('demo/a')).toString()).toBe(all);
    await again.append('demo/a', 'more\n');
    await again.seal();
    await again.cold.checkpointNow(soon());
    await again.append('demo/a', 'more\n');
    await again.seal();
    await again.cold.checkpointNow(soon());
    await again.collect();
    expect(await manifests()).toHaveLength(2);
  });
});

describe('when every checkpoint is damaged', () => {
  it('a restore takes the whole log while it is there (I9)', async () => {
    const node = await place.start();
    await node.create('demo/a');
    const all = await checkpoints(2);
    for (const key of await manifests()) await flip(key);
    const { partitions } = await restoreHere();
    expect(partitions[0]).toMatchObject({ checkpoint: null });
    expect(partitions[0]?.damagedCheckpoints).toHaveLength(2);
    const again = await place.start();
    expect((await again.read('demo/a')).toString()).toBe(all);
  });

  it('and the log before them is gone, a restore fails and says where the hole is', async () => {
    const node = await place.start();
    await node.create('demo/a');
    await checkpoints(4);
    await node.collect();
    for (const key of await manifests()) await flip(key);
    await expect(restoreHere()).rejects.toThrow(/log entry is missing/);
  });

  it('with nothing written since, the node makes one at the next place of the log when it is asked to', async () => {
    const node = await place.start();
    await node.create('demo/a');
    await checkpoints(1);
    await flip((await manifests()).at(-1) as string);
    await node.cold.checkpointNow(soon());
    const { partitions } = await restoreHere();
    expect(partitions[0]?.checkpoint).toEqual({ session: 1, seq: 2 });
    expect(partitions[0]?.damagedCheckpoints).toHaveLength(0);
  });
});
