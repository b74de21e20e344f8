/** Collections that nobody asks for, and readers of snapshots that they meet (I5, R032). */
import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../../shared/protocol/types.js';
import { until, useRig } from '../cold-rig.contract.js';
import { COLLECT_AGE_MS, COLLECT_FIRST_MS, GARBAGE_LOOK_MS } from '../limits.js';
import { alive, Clock, dataObjects, expectOnlyAlive, fillEach, SHORT_GRACE_MS } from './collect-rig.contract.js';

const place = useRig();

describe('a node', () => {
  it('collects by itself after its start, and what became garbage later when that is old enough (I5)', async () => {
    const clock = new Clock();
    const node = await place.start({ hotKeepMs: 0 }, { now: clock.now, collectGraceMs: SHORT_GRACE_MS });
    const makeGarbage = async (key: string): Promise<void> => {
      await fillEach(node, [key]);
      await node.delete(key);
      await node.seal();
      await until(async () => (await alive(node)).length === 0);
    };
    await makeGarbage('demo/a');
    expect(await dataObjects(node)).toHaveLength(1);
    clock.skewMs += Math.max(COLLECT_FIRST_MS, GARBAGE_LOOK_MS);
    await until(async () => (await dataObjects(node)).length === 0);
    await makeGarbage('demo/b');
    clock.skewMs += GARBAGE_LOOK_MS;
    await until(() => node.cold.garbage(0).bytes > 0);
    expect(await dataObjects(node)).toHaveLength(1);
    clock.skewMs += COLLECT_AGE_MS;
    await until(async () => (await dataObjects(node)).length === 0);
    await until(() => node.cold.garbage(0).bytes === 0);
    await expectOnlyAlive(node);
  });

  it('lets a slow reader of a snapshot have it whole, then deletes it; the next reader gets a 404 (R032)', async () => {
    const node = await place.start({ hotKeepMs: 0 }, { collectGraceMs: SHORT_GRACE_MS });
    const [first, second] = [randomBytes(3_000_000), randomBytes(2_000_000)];
    await node.create('demo/a');
    await node.append('demo/a', 'x'.repeat(100));
    await node.snapshot('demo/a', 10, first);
    await node.seal();
    await until(async () => (await node.head('demo/a')).snapshot?.hot === null);
    const { body } = await node.log.readSnapshot('demo/a' as StreamKey, null, 10 as Offset);
    const reading = body(0, first.length)[Symbol.asyncIterator]();
    const pieces = [(await reading.next()).value as Buffer];
    await node.snapshot('demo/a', 20, second);
    await node.seal();
    expect(await node.collect()).toMatchObject({ objects: 0, pinned: 1 });
    for (let next = await reading.next(); next.done !== true; next = await reading.next()) pieces.push(next.value);
    expect(Buffer.concat(pieces).equals(first)).toBe(true);
    expect(await node.collect()).toMatchObject({ objects: 1, pinned: 0 });
    await expect(node.log.readSnapshot('demo/a' as StreamKey, null, 10 as Offset)).rejects.toMatchObject({ status: 404 });
    expect((await node.readSnapshot('demo/a', 20)).equals(second)).toBe(true);
    await expectOnlyAlive(node);
  });
});
