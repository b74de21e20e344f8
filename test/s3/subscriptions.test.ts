/** Issue 7, point 4: subscriptions are restored from S3, where streams keep their tokens, and where new ones are asked for. */
import { afterEach, expect, it } from 'vitest';
import { FirnNode } from '../support/node.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { receivers } from '../support/webhooks.js';
import { SubscriptionStory } from '../tiers/subscription-story.js';

const server = await useS3();
const receiver = receivers();
let node: FirnNode;
afterEach(() => node.dispose());

it('subscriptions come back from S3 to streams with their tokens, and to streams with new ones', { timeout: 180_000 }, async () => {
  const settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', FIRN_PARTITIONS: '4', ...s3Settings(server) };
  node = new FirnNode(settings);
  await node.start();
  const story = new SubscriptionStory(node, await receiver(), settings);
  await story.begin();
  await story.change();
  for (const args of [[], ['--new-incarnations'], []]) await story.loseAndCheck(args);
  expect(story.losses).toBe(3);
});
