/** A stream whose row is damaged when the log is applied: told, passed over alone, and kept whole (I3, I6, I9, R123). Rows are damaged below the sums of the store. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { readLog } from '../../../shared/storage/history/log-reader.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { doomedRow, snapshotRow, streamRow } from '../hot/keys/index.js';
import { openRocksStore } from '../hot/rocks-store.js';
import { collectPlan } from './plan.js';
import { Killed, namesIn, until, useRig, type Rig } from './cold-rig.contract.js';

const place = useRig();

const rowOf = (key: string): Buffer => streamRow.key(slotOf(key as StreamKey), key as StreamKey);
const soon = (): AbortSignal => AbortSignal.timeout(10_000);

/** Flips a bit of a stored value while no node runs; twice is as it was. */
async function flip(row: Buffer): Promise<void> {
  const store = await openRocksStore(join(place.dir, 'hot'));
  const value = Buffer.from((await store.get(row)) as Buffer);
  const at = value.length >> 1;
  value[at] = (value[at] as number) ^ 1;
  await store.batch([{ type: 'put', key: row, value }], true);
  await store.close();
}

/** Starts a node that dies between writing a log record and applying it. */
function startToDie(): Promise<Rig> {
  return place.start({ hotKeepMs: 0 }, { steps: (name) => {
    if (name === 'log:put') throw new Killed(name);
  } });
}

async function dieSealing(node: Rig): Promise<void> {
  void node.seal('', 3_000).catch(() => undefined);
  await node.died;
  await node.kill();
}

const start = (): Promise<Rig> => place.start({ hotKeepMs: 0 }, { collectGraceMs: 1 });
const reopen = async (): Promise<Rig> => (place.rig = await place.rig.reopen({ hotKeepMs: 0 }, { collectGraceMs: 1 }));
const dataObjects = (node: Rig): Promise<string[]> => namesIn(node.objects, 'partitions/0000/segments/');

/** Ranges of a stream as the log names them. */
async function ranges(of: Rig, key: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { record } of readLog({ store: of.objects, partition: 0, after: { session: 0, seq: 0 }, until: of.cold.session(0) as number, live: true })) {
    for (const delta of record.deltas) if (delta.kind === 'seal' && delta.key === key) for (const { start: from, end } of delta.refs) found.push(`${from}-${end}`);
  }
  return found;
}

/** Two streams in one record, of which this directory can read only the second. */
async function oneBehind(): Promise<Rig> {
  const killed = await startToDie();
  await killed.create('demo/a', { body: 'all of a\n' });
  await killed.create('demo/b', { body: 'all of b\n' });
  await dieSealing(killed);
  await flip(rowOf('demo/a'));
  return start();
}

describe('a log record that names a stream whose row is damaged (I9, R123)', () => {
  it('is applied for all others, and told', async () => {
    const node = await oneBehind();
    expect(node.cold.reasons()).toEqual([]);
    expect(node.metrics.damage.hot.value).toBeGreaterThan(0);
    expect((await node.head('demo/b')).sealed).toBe(9);
    await node.append('demo/b', 'more\n');
    await node.seal('demo/b');
    expect((await node.head('demo/b')).sealed).toBe(14);
    expect((await node.read('demo/b')).toString()).toBe('all of b\nmore\n');
    await expect(node.read('demo/a')).rejects.toThrow();
  });

  it('takes no byte of it away: evictions, checkpoints and collections pass it by (I3, I8)', async () => {
    const node = await oneBehind();
    await node.append('demo/b', 'more\n');
    await node.seal('demo/b');
    const objects = await dataObjects(node);
    expect(await node.cold.checkpointNow(soon())).toMatchObject([{ streams: 2 }]);
    expect(await node.collect()).toMatchObject({ objects: 0, orphans: 0 });
    expect(await node.collect()).toMatchObject({ objects: 0, orphans: 0 });
    expect(await dataObjects(node)).toEqual(objects);
    await node.close();
    await flip(rowOf('demo/a'));
    const again = await start();
    expect((await again.read('demo/a')).toString()).toBe('all of a\n');
  });

  it('seals no range of it twice when the row can be read again, after further starts too (I6, I10)', async () => {
    await (await oneBehind()).close();
    await flip(rowOf('demo/a'));
    const node = await start();
    await node.append('demo/a', 'more\n');
    await node.append('demo/b', 'more\n');
    // It waits for what is never sealed.
    await expect(node.seal('', 500)).rejects.toThrow();
    const again = await reopen();
    await expect(again.seal('', 500)).rejects.toThrow();
    expect((await again.read('demo/a')).toString()).toBe('all of a\nmore\n');
    expect(await ranges(again, 'demo/a')).toEqual(['0-9']);
    expect(await ranges(again, 'demo/b')).toEqual(['0-9', '9-14']);
    expect(await again.cold.checkpointNow(soon())).toMatchObject([{ streams: 2 }]);
  });

  it('lets the log have the end of it, and its successor is sealed as any other', async () => {
    await (await oneBehind()).close();
    await flip(rowOf('demo/a'));
    const node = await start();
    await node.delete('demo/a');
    await node.create('demo/a', { body: 'the next\n' });
    await node.seal();
    expect((await node.head('demo/a')).sealed).toBe(9);
    expect(node.cold.partitions[0]?.applier.behind.count).toBe(1);
    const again = await reopen();
    expect(again.cold.partitions[0]?.applier.behind.count).toBe(0);
    expect((await again.read('demo/a')).toString()).toBe('the next\n');
  });
});

describe('a damaged row', () => {
  it('of a superseded snapshot leaves its stream out of a plan, and no other: without it no boundary may be said to be covered (I9, R123)', async () => {
    const node = await start();
    await node.create('demo/a', { body: 'all of a\n' });
    await node.snapshot('demo/a', 4, Buffer.from('small'));
    await node.seal();
    const { incarnation } = await node.head('demo/a');
    // With the object store away the large one stays where it is, and the log keeps the one before.
    node.objects.down = true;
    await node.snapshot('demo/a', 9, Buffer.alloc(1_100_000, 1));
    await node.create('demo/b', { body: 'all of b\n' });
    await node.close();
    await flip(snapshotRow.key(slotOf('demo/a' as StreamKey), incarnation, 4 as Offset));
    const again = await place.start({ hotKeepMs: 0 }, { down: true });
    const damaged: (StreamKey | null)[] = [];
    const plan = await collectPlan(again.core, { partition: 0, prefix: '', also: new Set(), from: null, upToMs: null, isParked: () => false, onDamage: (key) => damaged.push(key) });
    expect(damaged).toEqual(['demo/a']);
    expect(plan.streams.map(({ key }) => key)).toEqual(['demo/b']);
    expect(plan.skipped).toBe(1);
  });

  it('of a deleted stream is told once, and the deleted ones beside it are removed (I9)', async () => {
    const node = await start();
    for (const key of ['demo/a', 'demo/b']) await node.create(key, { body: `all of ${key}\n` });
    await node.snapshot('demo/a', 4, Buffer.from('small'));
    const { incarnation } = await node.head('demo/a');
    await node.seal();
    await node.delete('demo/a');
    await node.delete('demo/b');
    await node.close();
    const row = snapshotRow.key(slotOf('demo/a' as StreamKey), incarnation, 4 as Offset);
    await flip(row);
    const again = await start();
    await again.seal();
    const left = async (): Promise<number> => {
      let rows = 0;
      for await (const page of again.hot.scan(doomedRow.range())) rows += page.length;
      return rows;
    };
    await until(async () => !(await again.cold.partitions[0]?.cleanUp()) && (await left()) === 1);
    const told = again.metrics.damage.hot.value;
    expect(told).toBe(1);
    await again.cold.partitions[0]?.cleanUp();
    expect(again.metrics.damage.hot.value).toBe(told);
  });
});
