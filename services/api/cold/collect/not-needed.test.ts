/** What a collection took away is needed by nothing: restores from either checkpoint, and directories that are in step. */
import { randomBytes } from 'node:crypto';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createLogger } from '../../../../shared/observability/logger.js';
import { createMetrics } from '../../../../shared/observability/metrics.js';
import { FsObjectStore } from '../../../../shared/storage/fs-store.js';
import { encodeCheckpointManifest } from '../../../../shared/storage/checkpoint.js';
import { checkpointKey, checkpointPrefix, logKey, sessionPrefix } from '../../../../shared/storage/keys.js';
import { coldMetrics } from '../cold-metrics.js';
import { namesIn, Rig, useRig } from '../cold-rig.contract.js';
import { restore } from '../restore.js';
import { expectOnlyAlive, fillEach, SHORT_GRACE_MS } from './collect-rig.contract.js';

const place = useRig();
const start = (config = {}): Promise<Rig> => place.start({ hotKeepMs: 0, ...config }, { collectGraceMs: SHORT_GRACE_MS });

describe('what went is not needed', () => {
  /** Streams that live and streams that went, collected over two checkpoints. */
  async function collected(): Promise<Rig> {
    const node = await start({ cold: 's3' });
    await fillEach(place.rig, ['demo/a', 'demo/b', 'demo/c']);
    await node.delete('demo/b');
    await node.seal();
    await node.collect();
    await node.append('demo/a', ' and more');
    await node.seal();
    return node;
  }

  /** The next life of the node, in a directory that is made from the bucket alone. */
  async function restored(node: Rig): Promise<Rig> {
    const objectsDir = join(node.dir, 'objects');
    await node.close();
    const dir = join(node.dir, 'restored');
    const objects = await FsObjectStore.open(objectsDir);
    const report = await restore({
      config: { dataDir: dir, cold: 's3' }, objects, newIncarnations: false, logger: createLogger('silent'), metrics: coldMetrics(createMetrics()), now: Date.now,
      nonce: () => randomBytes(16).toString('hex'), signal: AbortSignal.timeout(20_000),
    });
    expect([report.lossCount, report.partitions[0]?.streams]).toEqual([0, 2]);
    return (place.rig = await Rig.open(dir, { hotKeepMs: 0, cold: 's3' }, { objectsDir, collectGraceMs: SHORT_GRACE_MS }));
  }

  async function expectLiving(again: Rig): Promise<void> {
    expect((await again.read('demo/a')).toString()).toBe('bytes of demo/a and more');
    expect((await again.read('demo/c')).toString()).toBe('bytes of demo/c');
    await expect(again.head('demo/b')).rejects.toThrow();
    expect(await again.collect()).toMatchObject({ unknown: 0, waiting: 0 });
    await expectOnlyAlive(again);
  }

  it('by a restore from the newest checkpoint', async () => {
    const again = await restored(await collected());
    expect((await again.read('demo/a')).toString()).toBe('bytes of demo/a and more');
    await expectLiving(again);
  });

  it('by a restore from the one before, when the newest is gone (I8)', async () => {
    const node = await collected();
    const manifests = await namesIn(node.objects, checkpointPrefix(0));
    expect(manifests).toHaveLength(2);
    await node.objects.delete(manifests[1]!);
    const again = await restored(node);
    expect((await again.read('demo/a')).toString()).toBe('bytes of demo/a and more');
    await expectLiving(again);
  });

  it('by a directory that is in step; an old copy of it is refused before it claims anything, and told what to do', async () => {
    const node = await start({ cold: 's3' });
    await fillEach(node, ['demo/a', 'demo/b']);
    await node.close();
    const [old, older, objectsDir] = ['old', 'older', 'objects'].map((name) => join(node.dir, name)) as [string, string, string];
    const copyTo = async (to: string): Promise<void> => {
      for (const name of ['hot', 'acked']) await cp(join(node.dir, name), join(to, name), { recursive: true });
    };
    await copyTo(older);
    const open = (dir: string): Promise<Rig> => Rig.open(dir, { hotKeepMs: 0, cold: 's3' }, { objectsDir, collectGraceMs: SHORT_GRACE_MS });
    const next = (place.rig = await open(node.dir));
    await next.append('demo/b', 'x');
    await next.seal();
    // A copy of the session that runs on, which no claim gives away: as one that was made while the node slept.
    await next.close();
    await copyTo(old);
    const objects = await FsObjectStore.open(objectsDir);
    for (let seq = 1; seq <= 9; seq++) await objects.delete(logKey(0, 2, seq));
    await objects.putOnce(logKey(0, 2, 9), Buffer.from('what came later'));
    const manifest = (seq: number): Buffer => encodeCheckpointManifest({ partition: 0, session: 2, seq, attempt: 1, writtenAtMs: 1, streams: 0, parts: [], objects: [], fences: [] });
    for (const seq of [7, 9]) await objects.putOnce(checkpointKey(0, 2, seq), manifest(seq));
    const sessions = (await namesIn(objects, sessionPrefix(0))).length;
    for (const dir of [old, older]) await expect(open(dir)).rejects.toThrow(/the log up to 2\/7 was collected .*`firn restore`/);
    expect(await namesIn(objects, sessionPrefix(0))).toHaveLength(sessions);
  });
});
