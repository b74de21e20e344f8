/** Forks whose cold tier is an S3 server: a restore keeps incarnations, unless it is asked for new ones. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FirnNode } from '../support/node.js';
import { seeded } from '../support/random.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { Family } from '../tiers/fork-model.js';

const server = await useS3();
let node: FirnNode;
afterEach(() => node.dispose());

it('INC-04 forks are restored from S3 with their tokens, and with new ones where that is asked for', { timeout: 180_000 }, async () => {
  const random = seeded('s3 forks');
  const settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', FIRN_PARTITIONS: '4', ...s3Settings(server) };
  node = new FirnNode(settings);
  await node.start();
  const family = new Family(node, random);
  for (let i = 0; i < 3; i += 1) await family.create();
  for (const args of [[], ['--new-incarnations'], []]) {
    for (let step = 0; step < 30; step += 1) {
      const what = random.next();
      if (what < 0.4) await family.append();
      else if (what < 0.85) await family.fork();
      else if (family.live.length > 4) await family.delete(random.pick(family.live));
    }
    await node.seal();
    await family.compare();
    const tokens = await Promise.all(family.live.map(({ stream }) => stream.token()));
    await node.stop();
    for (const folder of ['hot', 'staging', 'cache']) rmSync(join(node.dataDir, folder), { recursive: true, force: true });
    const run = await firn(['restore', ...args], settingsFor(node, settings));
    expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
    await node.start();
    await family.compare();
    const after = await Promise.all(family.live.map(({ stream }) => stream.token()));
    expect(after.filter((token, i) => token === tokens[i])).toHaveLength(args.length === 0 ? tokens.length : 0);
    const verify = await firn(['verify', '--deep'], settingsFor(node, settings));
    expect([verify.code, verify.code === 0 ? '' : verify.stdout]).toEqual([0, '']);
  }
});
