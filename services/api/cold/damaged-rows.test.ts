/** One damaged row of an object or of a reference: told, and no reason to stop the rest of its partition (I9, R123). */
import { describe, expect, it } from 'vitest';
import type { StreamKey } from '../../../shared/protocol/types.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { objectRow, refRow } from '../hot/keys/index.js';
import { namesIn, useRig, type Rig } from './cold-rig.contract.js';

const place = useRig();

async function start(): Promise<Rig> {
  return place.start({ hotKeepMs: 0 }, { collectGraceMs: 1 });
}

/** One object for each of the streams. */
async function fill(node: Rig, keys: readonly string[]): Promise<void> {
  for (const key of keys) {
    await node.create(key, { body: `all of ${key}\n` });
    await node.seal();
  }
}

/** The object that holds a stream, and the keys of its rows. */
async function rowsOf(node: Rig, key: string): Promise<{ readonly name: string; readonly object: Buffer; readonly ref: Buffer }> {
  const { incarnation } = await node.head(key);
  for await (const page of node.hot.scan(refRow.range(slotOf(key as StreamKey), incarnation))) {
    for (const row of page) {
      const { object } = refRow.decode(row.value);
      return { name: objectKey(object), object: objectRow.key(object), ref: row.key };
    }
  }
  throw new Error(`${key} has no reference`);
}

async function damage(node: Rig, row: Buffer): Promise<void> {
  const value = Buffer.from((await node.hot.get(row)) as Buffer);
  await node.core.stageOps([{ type: 'put', key: row, value: value.subarray(0, value.length - 1) }]);
}

const soon = (): AbortSignal => AbortSignal.timeout(10_000);
const dataObjects = async (node: Rig): Promise<string[]> => [...(await namesIn(node.objects, 'partitions/0000/segments/')), ...(await namesIn(node.objects, 'partitions/0000/merged/'))];

describe('one damaged row of an object (I9, R123)', () => {
  it('is told, and collection goes on with every other object, and keeps this one', async () => {
    const node = await start();
    await fill(node, ['demo/a', 'demo/b']);
    const [a, b] = [await rowsOf(node, 'demo/a'), await rowsOf(node, 'demo/b')];
    await node.delete('demo/b');
    await node.seal();
    await damage(node, a.object);
    await node.collect();
    const left = await dataObjects(node);
    expect(left).not.toContain(b.name);
    expect(left).toContain(a.name);
    expect(node.metrics.damage.hot.value).toBeGreaterThan(0);
    expect((await node.read('demo/a')).toString()).toBe('all of demo/a\n');
  });

  it('is told, and compaction goes on with every other object', async () => {
    const node = await start();
    await fill(node, ['demo/a', 'demo/b', 'demo/c', 'demo/d']);
    const a = await rowsOf(node, 'demo/a');
    await damage(node, a.object);
    expect(await node.cold.compactNow(soon())).toMatchObject({ leftOut: 0, streams: 3 });
    expect(node.cold.reasons()).toEqual([]);
    for (const key of ['demo/a', 'demo/b', 'demo/c', 'demo/d']) expect((await node.read(key)).toString()).toBe(`all of ${key}\n`);
  });

  it('does not stop seals when its stream is deleted, or written to', async () => {
    const node = await start();
    await fill(node, ['demo/a', 'demo/b']);
    const a = await rowsOf(node, 'demo/a');
    await damage(node, a.object);
    await node.append('demo/a', 'more\n');
    await node.seal();
    await node.delete('demo/a');
    await node.append('demo/b', 'more\n');
    await node.seal();
    await node.collect();
    expect(node.cold.reasons()).toEqual([]);
    expect((await node.read('demo/b')).toString()).toBe('all of demo/b\nmore\n');
    expect(await dataObjects(node)).toContain(a.name);
  });
});

describe('one damaged row of a reference (I9, R123)', () => {
  it('stops neither seals nor compaction nor collection of the others, and its object stays', async () => {
    const node = await start();
    await fill(node, ['demo/a', 'demo/b', 'demo/c', 'demo/d']);
    const [a, d] = [await rowsOf(node, 'demo/a'), await rowsOf(node, 'demo/d')];
    await damage(node, a.ref);
    await node.append('demo/a', 'more\n');
    await node.append('demo/b', 'more\n');
    await node.delete('demo/d');
    await node.seal();
    await node.cold.compactNow(soon());
    await node.collect();
    const left = await dataObjects(node);
    expect(left).toContain(a.name);
    expect(left).not.toContain(d.name);
    expect(node.cold.reasons()).toEqual([]);
    expect((await node.read('demo/b')).toString()).toBe('all of demo/b\nmore\n');
    await expect(node.read('demo/a')).rejects.toThrow();
  });

  it('of a range below a new boundary does not stop the log from being applied', async () => {
    const node = await start();
    await fill(node, ['demo/a', 'demo/b']);
    const a = await rowsOf(node, 'demo/a');
    const { tail } = await node.head('demo/a');
    await node.append('demo/a', 'kept\n');
    await node.snapshot('demo/a', tail, Buffer.from('snapshot'));
    await damage(node, a.ref);
    await node.log.retain('demo/a' as StreamKey, null, tail);
    await node.append('demo/b', 'more\n');
    await node.seal();
    expect(node.cold.reasons()).toEqual([]);
    expect((await node.read('demo/a')).toString()).toBe('kept\n');
    expect((await node.read('demo/b')).toString()).toBe('all of demo/b\nmore\n');
  });
});
