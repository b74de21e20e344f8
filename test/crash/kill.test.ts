/**
 * `kill -9` at random moments (R066, R101, WO-03, APP-12): writers of numbered records on several streams, seals and evictions in between; after each
 * restart every acknowledged write is there exactly once and in order, no write is there by half, and the surfaces agree.
 *
 * `FIRN_SEED` replays a run, `FIRN_CRASH_ROUNDS` makes it longer.
 */
import { expect, it } from 'vitest';
import { ownNode } from '../support/node.js';
import { seeded } from '../support/random.js';
import type { Random } from '../support/random.js';
import { sleep, Stream } from '../support/stream.js';
import { Lives } from './lives.js';
import { NumberedStream } from './log-writers.js';

const ROUNDS = Number(process.env['FIRN_CRASH_ROUNDS'] ?? 20);
const RUN_MS_MAX = 600;

const random = seeded('kill');
const node = ownNode({ FIRN_SEAL_BYTES: '262144', FIRN_SEAL_AGE_MS: '150', FIRN_LOG: 'warn', FIRN_PARTITIONS: String(random.pick([1, 4])) });

function settingsOf(): Record<string, string> {
  return random.chance(0.5) ? { FIRN_HOT_KEEP_MS: '0' } : { FIRN_HOT_KEEP_MS: String(random.pick([500, 600_000])) };
}

it(`PROD-16 APP-12 WO-03 R066 R101 ${ROUNDS} rounds of kill -9 lose, tear and repeat nothing`, { timeout: 60_000 + ROUNDS * 15_000 }, async () => {
  await node.start(settingsOf());
  const named = (name: string) => [new Stream(node.http, `/crash/${name}`), new Stream(node.http, `/v1/stream/crash/${name}`)] as const;
  const streams = [
    new NumberedStream(...named('keyed-binary'), 'binary', [1, 2], true),
    new NumberedStream(...named('keyed-json'), 'json', [3, 4], true),
    new NumberedStream(...named('plain-binary'), 'binary', [5, 6], false),
    new NumberedStream(...named('plain-json'), 'json', [7], false),
    new NumberedStream(...named('quiet'), 'binary', [8], true),
  ];
  for (const stream of streams) await stream.create();
  let lifeCount = 0;
  const lives = [0, 1].map(() => new Lives(() => new Stream(node.http, `/crash/life-${(lifeCount += 1)}`)));

  for (let round = 0; round < ROUNDS; round += 1) {
    let running = true;
    const work = [
      ...streams.flatMap((stream) => (stream.bucketed.path.endsWith('quiet') && random.chance(0.7) ? [] : stream.writers.map((writer) => stream.write(writer, random.fork(), () => running)))),
      ...lives.map((life) => life.run(random.fork(), () => running)),
      sealNowAndThen(random.fork(), () => running),
    ];
    await sleep(random.int(30, RUN_MS_MAX));
    // Mostly in the midst of writes; now and then when they are done.
    if (random.chance(0.9)) await node.kill();
    running = false;
    await Promise.all(work);
    await node.kill();
    if (random.chance(0.2)) {
      await node.launch(settingsOf());
      await sleep(random.int(50, 700));
      await node.kill();
    }
    await node.start(settingsOf());
    const label = `round ${round}, FIRN_SEED=${random.seed}`;
    try {
      for (const stream of streams) await stream.check(random, false);
      for (const stream of streams) await stream.settle(random);
      for (const stream of streams) await stream.check(random, true);
      for (const life of lives) await life.check(random);
    } catch (error) {
      throw new Error(`${label}: ${error instanceof Error ? error.message : String(error)}\n${node.output.slice(-2_000)}`, { cause: error });
    }
  }
  const counts = streams.map((stream) => stream.acknowledged.length);
  process.stdout.write(`kill: ${ROUNDS} rounds, ${counts.reduce((sum, count) => sum + count, 0)} acknowledged writes, ${lifeCount} short lives\n`);
  expect(Math.min(...counts.slice(0, 4))).toBeGreaterThan(ROUNDS);
});

/** Asks for a seal at random moments; the node may be killed in its midst. */
async function sealNowAndThen(random: Random, running: () => boolean): Promise<void> {
  while (running()) {
    await sleep(random.int(20, 400));
    if (!running()) return;
    try {
      await node.admin.send('POST', '/__firn/seal?timeout_ms=2000');
    } catch {
      return;
    }
  }
}
