/** Issue 7, point 4: subscriptions come back from the object store alone (here with new tokens for all streams, as the embedded store implies). */
import { afterEach, expect, it } from 'vitest';
import { FirnNode, type Env } from '../support/node.js';
import { TEXT } from '../support/stream.js';
import { receivers } from '../support/webhooks.js';
import { SubscriptionStory } from './subscription-story.js';

const receiver = receivers();
let node: FirnNode;
afterEach(() => node.dispose());

const SETTINGS: Env = { FIRN_SEAL_AGE_MS: '3600000', FIRN_HOT_KEEP_MS: '0' };

for (const [title, more, checkpoint] of [['from the log', {}, false], ['from a checkpoint and the log after it, of four partitions', { FIRN_PARTITIONS: '4' }, true]] as const) {
  it(`subscriptions with their links and cursors come back ${title}, and again after another loss`, { timeout: 180_000 }, async () => {
    const settings = { ...SETTINGS, ...more };
    node = new FirnNode(settings);
    await node.start();
    const story = new SubscriptionStory(node, await receiver(), settings);
    await story.begin();
    if (checkpoint) await node.ask('POST', '/__firn/checkpoint');
    await story.change();
    await story.loseAndCheck();
    if (checkpoint) await node.ask('POST', '/__firn/checkpoint');
    await story.loseAndCheck();
    expect(story.losses).toBe(2);
  });
}

it('cursors alone make a seal due, one record a seal however many acks, and none when nothing moved', { timeout: 60_000 }, async () => {
  node = new FirnNode({ FIRN_SEAL_AGE_MS: '1500', FIRN_HOT_KEEP_MS: '0' });
  await node.start();
  const story = new SubscriptionStory(node, await receiver(), {});
  await story.begin();
  const records = async (): Promise<number> => {
    const { history } = (await node.ask('POST', '/__firn/verify')) as { history: { records: number }[] };
    return history[0]!.records;
  };
  const quiet = async (): Promise<number> => {
    for (let before = await records(); ; ) {
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      const now = await records();
      if (now === before) return now;
      before = now;
    }
  };
  await story.stream(11).append('x'.repeat(100), { type: TEXT });
  const before = await quiet();
  const { token, wake_id, generation } = await story.pulled.claimed();
  for (let n = 20; n < 60; n++) expect((await story.pulled.tell('ack', { token, wake_id, generation, acks: [{ stream: 'ev/11', offset: String(n).padStart(20, '0') }] })).status).toBe(200);
  const after = await quiet();
  expect(after - before).toBeGreaterThanOrEqual(1);
  expect(after - before).toBeLessThanOrEqual(2);
  await story.restore();
  expect(await story.pulled.acked('ev/11')).toBe('00000000000000000059');
});
