/** A collection on a damaged store or directory deletes nothing that it cannot prove (R007, I9). */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { checkpointPartPrefix, checkpointPrefix, logPrefix } from '../../../../shared/storage/keys.js';
import { slotOf } from '../../../../shared/storage/slots.js';
import { streamRow } from '../../hot/keys/index.js';
import { namesIn, useRig, type Rig } from '../cold-rig.contract.js';
import { dataObjects, expectOnlyAlive, fillEach, SHORT_GRACE_MS } from './collect-rig.contract.js';

const place = useRig();
let node: Rig;

beforeEach(async () => {
  node = await place.start({ hotKeepMs: 0 }, { collectGraceMs: SHORT_GRACE_MS });
  await fillEach(node, ['demo/a', 'demo/b', 'demo/c']);
  await node.collect();
  await node.delete('demo/a');
  await node.seal();
});

async function flipIn(key: string): Promise<void> {
  const path = join(node.dir, 'objects', key);
  const bytes = await readFile(path);
  bytes[10] = (bytes[10] as number) ^ 1;
  await writeFile(path, bytes);
}

it.each([
  ['the newest checkpoint', checkpointPrefix(0), 1],
  // By the next checkpoint, and by the collection before it deletes what lies before.
  ['a part of the newest checkpoint', checkpointPartPrefix(0), 2],
])('a collection for which %s is damaged begins with what lies before it, and tells it', async (_, prefix, times) => {
  const damaged = (await namesIn(node.objects, prefix)).at(-1) as string;
  await flipIn(damaged);
  expect(await node.collect()).toMatchObject({ objects: 1, unknown: 0 });
  expect(node.metrics.damage.object.value).toBe(times);
  await expectOnlyAlive(node);
  for (const key of ['demo/b', 'demo/c']) expect((await node.read(key)).toString()).toBe(`bytes of ${key}`);
});

describe('a collection deletes nothing', () => {
  it('while the newest checkpoint is damaged and no other can be made', async () => {
    await flipIn((await namesIn(node.objects, checkpointPrefix(0))).at(-1) as string);
    node.objects.before = (call, key) => {
      if (call === 'put' && key.startsWith(checkpointPrefix(0))) throw new Error('no checkpoints now');
    };
    await expect(node.collect()).rejects.toThrow(/no checkpoints now/);
    expect(node.objects.deletes).toEqual([]);
    node.objects.before = () => undefined;
    expect(await node.collect()).toMatchObject({ objects: 1 });
    await expectOnlyAlive(node);
  });

  it('while the newest log record is damaged, and goes on when it is whole again', async () => {
    const damaged = (await namesIn(node.objects, logPrefix(0))).at(-1) as string;
    await flipIn(damaged);
    await expect(node.collect()).rejects.toThrow();
    expect(node.objects.deletes).toEqual([]);
    expect(await dataObjects(node)).toHaveLength(3);
    for (const key of ['demo/b', 'demo/c']) expect((await node.read(key)).toString()).toBe(`bytes of ${key}`);
    await flipIn(damaged);
    expect(await node.collect()).toMatchObject({ objects: 1 });
    await expectOnlyAlive(node);
  });

  it('of a stream whose row is damaged: it is no orphan', async () => {
    const key = streamRow.key(slotOf('demo/b' as StreamKey), 'demo/b' as StreamKey);
    const value = (await node.core.store.get(key)) as Buffer;
    const before = node;
    await before.core.stageOps([{ type: 'put', key, value: Buffer.from('not a stream record') }]);
    node = place.rig = await before.reopen({ hotKeepMs: 0 }, { collectGraceMs: SHORT_GRACE_MS });
    await expect(node.read('demo/b')).rejects.toThrow();
    expect(await node.collect()).toMatchObject({ objects: 1, orphans: 0 });
    expect(await dataObjects(node)).toHaveLength(2);
    await node.core.stageOps([{ type: 'put', key, value }]);
    node = place.rig = await node.reopen({ hotKeepMs: 0 }, { collectGraceMs: SHORT_GRACE_MS });
    expect((await node.read('demo/b')).toString()).toBe('bytes of demo/b');
    await expectOnlyAlive(node);
  });
});
