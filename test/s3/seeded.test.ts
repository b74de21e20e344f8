/**
 * A node under a seeded mix of all faults of its S3 server, and kills: every acknowledged byte reads back, no answer is short (I9), and seals go through in the end.
 *
 * `FIRN_SEED` replays a run, `FIRN_FAULTS_MS` makes it longer.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FaultProxy, seededFaults } from '../support/fault-proxy.js';
import { FirnNode } from '../support/node.js';
import { seeded } from '../support/random.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { compareAll, modelled, type Modelled } from '../tiers/model.js';
import type { Random } from '../support/random.js';

const RUN_MS = Number(process.env['FIRN_FAULTS_MS'] ?? 20_000);
/** Of all requests. */
const SHARE = 0.3;

const server = await useS3();

let proxy: FaultProxy;
let node: FirnNode;
afterEach(async () => {
  await node.dispose();
  await proxy.close();
});

/** A read under faults is exact or refused. */
async function readLoudly(one: Modelled, random: Random): Promise<'exact' | 'refused'> {
  const from = random.int(one.retained, one.content.length + 1);
  const maxBytes = random.pick([1, 1_000, 50_000, 8_388_608]);
  const answer = await one.stream.read({ offset: String(from), max_bytes: maxBytes }).catch(() => null);
  if (answer === null || answer.status >= 500) return 'refused';
  const wanted = one.content.subarray(from, from + maxBytes);
  expect([answer.status, answer.body.equals(wanted), Number(answer.next), answer.upToDate]).toEqual([200, true, from + wanted.length, from + wanted.length === one.content.length]);
  return 'exact';
}

it(`I2 I3 I9 R026 ${RUN_MS / 1_000} s of every fault at once`, { timeout: RUN_MS + 240_000 }, async () => {
  const random = seeded('s3 faults');
  proxy = await FaultProxy.before(server.endpoint);
  const settings = s3Settings(server, proxy.endpoint);
  node = new FirnNode({ ...settings, FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '100', FIRN_SEAL_BYTES: '30000', FIRN_PARTITIONS: String(random.pick([1, 4])), FIRN_LOG: 'warn' });
  await node.start();
  const streams = await modelled(node, random, 6);
  proxy.faultOf = seededFaults(random.seed, SHARE, settings['FIRN_S3_PREFIX'] ?? '');
  const outcomes = { exact: 0, refused: 0 };
  const deadline = Date.now() + RUN_MS;
  for (let lives = 0; lives < 3; lives += 1) {
    const until = deadline - (2 - lives) * (RUN_MS / 3);
    await Promise.all(streams.map(async (one) => {
      const own = random.fork();
      while (Date.now() < until) {
        const dice = own.next();
        if (dice < 0.5) await one.append(own, own.chance(0.05) ? 300_000 : 3_000);
        else if (dice < 0.53 && (one.snapshot?.offset ?? -1) < one.content.length) await one.publish(own, own.chance(0.2) ? 1_300_000 : 300);
        else outcomes[await readLoudly(one, own)] += 1;
        if (own.chance(0.3)) await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }));
    if (lives === 1) proxy.bytesPerSecond = 1_000_000;
    if (lives === 2) break;
    await node.kill();
    await node.start();
  }
  proxy.bytesPerSecond = null;
  // What is unsealed goes through while the faults are still there.
  await node.seal();
  const kinds = new Set(proxy.seen.map(({ fault }) => fault?.kind ?? 'none'));
  process.stdout.write(`s3 faults: ${proxy.seen.length} requests, ${proxy.seen.filter(({ fault }) => fault !== null).length} with faults of ${kinds.size - 1} kinds; reads ${JSON.stringify(outcomes)}\n`);
  expect(kinds.size).toBeGreaterThanOrEqual(8);
  expect(outcomes.exact).toBeGreaterThan(outcomes.refused * 3);
  proxy.faultOf = () => null;
  await compareAll(streams, random);
  const verified = await firn(['verify', '--deep'], settingsFor(node, settings));
  expect([verified.code, verified.code === 0 ? '' : verified.stdout + verified.stderr]).toEqual([0, '']);
  await node.stop();
  for (const folder of ['hot', 'staging', 'cache', 'acked']) rmSync(join(node.dataDir, folder), { recursive: true, force: true });
  const restored = await firn(['restore'], settingsFor(node, settings));
  expect([restored.code, restored.code === 0 ? '' : restored.stderr]).toEqual([0, '']);
  await node.start();
  await compareAll(streams, random);
  for (const line of node.output.split('\n')) expect(line).not.toMatch(/"event":"damage"/);
});

it('replays: a request meets the same faults under the same seed, whatever the order and the prefix', () => {
  const one = seededFaults(7, 0.5, 'a/1');
  const two = seededFaults(7, 0.5, 'b/2');
  const faults = Array.from({ length: 300 }, (_, n) => ({ method: n % 2 === 0 ? 'PUT' : 'GET', headers: {}, nth: n % 4, name: `/key/${n >> 2}` }));
  const drawn = faults.map(({ name, ...rest }) => one({ ...rest, path: `/bucket/a/1${name}` }));
  expect(faults.toReversed().map(({ name, ...rest }) => two({ ...rest, path: `/bucket/b/2${name}` })).toReversed()).toEqual(drawn);
  expect(drawn.filter((fault) => fault !== null).length).toBeGreaterThan(60);
  expect(faults.map(({ name, ...rest }) => seededFaults(8, 0.5, 'a/1')({ ...rest, path: `/bucket/a/1${name}` }))).not.toEqual(drawn);
});
