import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import type { StreamKey } from '../../../shared/protocol/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { openDurableStore } from '../hot/durable-store.js';
import { streamRow } from '../hot/keys/index.js';
import { Killed, Rig } from './cold-rig.contract.js';
import { expectStory, killAt, tellStory } from './kill-story.contract.js';
import type { StepName } from './steps.js';

/** Every step, and which of its occurrences kills. */
const KILLS: readonly (readonly [StepName, number])[] = [
  ['claim:intent', 1], ['claim:created', 1], ['claim:bound', 1], ['claim:fenced', 1],
  ['plan:opened', 1], ['plan:opened', 2],
  ['seal:uploaded', 1], ['seal:uploaded', 2], ['seal:checked', 1], ['seal:checked', 2],
  ['offload:uploaded', 1], ['offload:checked', 1],
  ['compact:planned', 1], ['compact:uploaded', 1], ['compact:checked', 1],
  ['log:put', 1], ['log:put', 2], ['log:put', 3], ['log:put', 4],
  ['apply:slice', 1], ['apply:slice', 2], ['apply:slice', 3], ['apply:done', 1], ['apply:done', 2], ['apply:done', 3], ['apply:done', 4],
  ['evict:slice', 1], ['evict:slice', 2], ['evict:slice', 3],
];

let dir: string;
let rig: Rig | null = null;

beforeEach(async () => {
  dir = await Rig.dir();
});
afterEach(async () => {
  await rig?.close();
  rig = null;
  await Rig.remove(dir);
});

describe('a node killed at any step of claim, seal, offload, compaction and eviction', () => {
  it.each(KILLS)('loses nothing at %s, occurrence %i (I2, I3, I6)', async (name, occurrence) => {
    const expected = new Map<string, string>();
    let opened: Rig | null = null;
    try {
      opened = await Rig.open(dir, { hotKeepMs: 0 }, { steps: killAt(name, occurrence) });
      rig = opened;
      const outcome = await Promise.race([tellStory(rig, expected).then(() => 'done', (error: unknown) => error), rig.died.then(() => 'died')]);
      // The kill may show as an error of a request before the death is seen.
      if (!rig.dead) throw outcome;
      await rig.kill();
    } catch (error) {
      if (opened !== null || !(error instanceof Killed)) throw error;
    }
    rig = await Rig.open(dir, { hotKeepMs: 0 });
    if (expected.size === 0) await tellStory(rig, expected);
    await expectStory(rig, expected);
  });
});

describe('a log record that names a stream that cannot be read', () => {
  it('stops the seals of that stream and nothing else; once the row is whole again it is read and written as before (R007, I9)', async () => {
    rig = await Rig.open(dir, {}, { steps: killAt('log:put', 1) });
    for (const key of ['demo/a', 'demo/b']) {
      await rig.create(key);
      await rig.append(key, key);
    }
    await Promise.race([rig.seal().catch(() => undefined), rig.died]);
    await rig.kill();
    const logger = createLogger('silent');
    const swap = async (value: Buffer | null): Promise<Buffer> => {
      const store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger });
      const key = streamRow.key(slotOf('demo/a' as StreamKey), 'demo/a' as StreamKey);
      const before = (await store.get(key)) as Buffer;
      if (value !== null) await store.commit([{ type: 'put', key, value }]);
      await store.close();
      return before;
    };
    const whole = await swap(null);
    await swap(Buffer.from('not a stream record'));
    rig = await Rig.open(dir);
    expect(rig.cold.reasons()).toEqual([]);
    expect(rig.metrics.damage.hot.value).toBeGreaterThan(0);
    expect((await rig.read('demo/b')).toString()).toBe('demo/b');
    await rig.append('demo/b', ' goes on');
    await expect(rig.read('demo/a')).rejects.toThrow();
    await rig.seal('demo/b');
    expect((await rig.head('demo/b')).sealed).toBe(14);
    await rig.close();
    await swap(whole);
    rig = await Rig.open(dir);
    expect(rig.cold.reasons()).toEqual([]);
    await rig.append('demo/a', ' goes on');
    expect((await rig.read('demo/a')).toString()).toBe('demo/a goes on');
    expect((await rig.read('demo/b')).toString()).toBe('demo/b goes on');
    expect((await rig.head('demo/a')).sealed).toBe(0);
  });
});
