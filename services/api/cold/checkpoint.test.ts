import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { checkpointPartKeys, entriesOfItems, type CheckpointManifest } from '../../../shared/storage/checkpoint.js';
import { checkpointPartPrefix } from '../../../shared/storage/keys.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { checkpointItems, newestCheckpoint, readManifest } from '../../../shared/storage/history/checkpoints.js';
import type { CheckpointDue } from './checkpoint-due.js';
import { Rig, until } from './cold-rig.contract.js';
import { CHECKPOINT_CHANGES, CHECKPOINT_RECORDS } from './limits.js';

let dir: string;
let rig: Rig;

beforeEach(async () => {
  dir = await Rig.dir();
  rig = await Rig.open(dir, { hotKeepMs: 0 });
});
afterEach(async () => {
  await rig.close();
  await Rig.remove(dir);
});

async function checkpoint(): Promise<CheckpointManifest> {
  const [report] = await rig.cold.checkpointNow(AbortSignal.timeout(10_000));
  expect(await newestCheckpoint(rig.objects, 0)).toEqual({ session: report?.session, seq: report?.seq });
  return readManifest(rig.objects, 0, { session: report!.session, seq: report!.seq });
}

async function keysOf(manifest: CheckpointManifest): Promise<string[]> {
  const keys: string[] = [];
  for await (const entry of entriesOfItems(checkpointItems(rig.objects, manifest))) keys.push(`${entry.key} ${entry.refs[0]?.start ?? '-'}..${entry.state.tail}`);
  return keys.sort();
}

describe('a checkpoint', () => {
  it('covers the log up to what was applied, and says which objects nothing names any more (I8)', async () => {
    await rig.create('demo/a');
    for (let n = 0; n < 3; n++) {
      await rig.append('demo/a', 'x'.repeat(100));
      await rig.seal();
    }
    const first = await checkpoint();
    expect(first).toMatchObject({ session: 1, seq: 3, streams: 1 });
    expect(first.objects.map(({ refs, droppedAt }) => [refs, droppedAt])).toEqual([[1, null], [1, null], [1, null]]);
    await rig.snapshot('demo/a', 250, Buffer.from('s'));
    await rig.log.retain('demo/a' as StreamKey, null, 200 as Offset);
    await rig.seal();
    const second = await checkpoint();
    expect(await keysOf(second)).toEqual(['demo/a 200..300']);
    const dropped = second.objects.filter(({ refs }) => refs === 0);
    expect(dropped.map(({ droppedAt }) => droppedAt)).toEqual([{ session: 1, seq: 4 }, { session: 1, seq: 4 }]);
    await rig.create('demo/b');
    await rig.append('demo/b', 'y');
    await rig.seal();
    const third = await checkpoint();
    expect(third.objects.filter(({ refs }) => refs === 0).map(({ id, droppedAt }) => [objectKey(id), droppedAt])).toEqual(dropped.map(({ id }) => [objectKey(id), { session: 1, seq: 4 }]));
    expect(await keysOf(third)).toEqual(['demo/a 200..300', 'demo/b 0..1']);
  });

  it('is not written twice for one place, and forgets deleted streams', async () => {
    await rig.create('demo/a');
    await rig.append('demo/a', 'x');
    await rig.seal();
    await checkpoint();
    const puts = rig.objects.puts.length;
    await checkpoint();
    expect(rig.objects.puts).toHaveLength(puts);
    await rig.delete('demo/a');
    await rig.seal();
    expect(await checkpoint()).toMatchObject({ streams: 0, seq: 2 });
  });

  it('of a run that failed half-way counts for nothing; the next one is whole', async () => {
    await rig.create('demo/a');
    await rig.append('demo/a', 'x');
    await rig.seal();
    rig.objects.before = (call, key) => {
      if (call === 'put' && key.includes('/checkpoints/')) throw new Error('cut off before the manifest');
    };
    await expect(rig.cold.checkpointNow(AbortSignal.timeout(5_000))).rejects.toThrow(/cut off/);
    expect(await newestCheckpoint(rig.objects, 0)).toBeNull();
    rig.objects.before = () => undefined;
    const manifest = await checkpoint();
    const parts: string[] = [];
    for await (const { key } of rig.objects.list(checkpointPartPrefix(0))) parts.push(key);
    expect(parts).toHaveLength(2);
    expect(parts).toContain(checkpointPartKeys(manifest)[0]);
    expect(await keysOf(manifest)).toEqual(['demo/a 0..1']);
  });

  it.each([
    ['records', (due: CheckpointDue) => Array.from({ length: CHECKPOINT_RECORDS }, () => due.note(100, 1))],
    ['changes of streams', (due: CheckpointDue) => due.note(100, CHECKPOINT_CHANGES)],
  ])('is made by itself after so many %s', async (_, note) => {
    await rig.create('demo/a');
    await rig.append('demo/a', 'x');
    await rig.seal();
    const { checkpoint: due } = rig.cold.partitions[0]!;
    expect(due.due).toBe(false);
    note(due);
    expect(due.due).toBe(true);
    await until(async () => (await newestCheckpoint(rig.objects, 0)) !== null);
    // The node hears of it after it is there.
    await until(async () => !due.due);
  });

  it('of an empty log is nothing', async () => {
    expect(await rig.cold.checkpointNow(AbortSignal.timeout(5_000))).toEqual([{ partition: 0, session: 0, seq: 0, streams: 0, bytes: 0, damaged: 0 }]);
  });
});
