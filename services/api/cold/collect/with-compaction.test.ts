/** What compaction leaves behind is garbage like any other, also for a reader that is in the middle of it (I8). */
import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../../shared/protocol/types.js';
import { useRig } from '../cold-rig.contract.js';
import { dataObjects, expectOnlyAlive, SHORT_GRACE_MS } from './collect-rig.contract.js';

const place = useRig();

it('compacted objects go once no reader holds them; those that hold the bytes now stay', async () => {
  const node = await place.start({ hotKeepMs: 0 }, { collectGraceMs: SHORT_GRACE_MS });
  const written = new Map<string, Buffer>();
  for (let seal = 0; seal < 10; seal++) {
    for (const key of ['demo/a', 'demo/b']) {
      if (seal === 0) await node.create(key);
      const piece = randomBytes(120_000);
      await node.append(key, piece);
      written.set(key, Buffer.concat([written.get(key) ?? Buffer.alloc(0), piece]));
    }
    await node.seal();
  }
  const before = await dataObjects(node);
  const whole = written.get('demo/a') as Buffer;
  const window = await node.log.read({ key: 'demo/a' as StreamKey, precondition: null, from: 0 as Offset, maxBytes: whole.length, cut: 'bytes' });
  const reading = window.body()[Symbol.asyncIterator]();
  const pieces = [Buffer.from((await reading.next()).value as Buffer)];
  expect((await node.cold.compactNow(AbortSignal.timeout(15_000))).objects).toBeGreaterThan(0);
  const held = await node.collect();
  expect(held.pinned).toBeGreaterThan(0);
  for (let next = await reading.next(); next.done !== true; next = await reading.next()) pieces.push(Buffer.from(next.value));
  expect(Buffer.concat(pieces).equals(whole)).toBe(true);
  const done = await node.collect();
  expect([held.objects + done.objects, done.pinned, done.waiting]).toEqual([before.length, 0, 0]);
  expect((await dataObjects(node)).every((name) => name.includes('/merged/'))).toBe(true);
  for (const [key, bytes] of written) expect((await node.read(key)).equals(bytes), key).toBe(true);
  await expectOnlyAlive(node);
});
