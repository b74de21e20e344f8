/**
 * Sequences of everything that a stream can be asked and a node can go through agree with a small model of the specification, and the invariants I1, I2, I3, I7 and I8 hold after each step (R026).
 *
 * A run prints its seed. `FIRN_SEED` replays it, with `FIRN_MODEL_PATH` (the `path` that a failure shows) only the shortest story that fails. `FIRN_MODEL_RUNS` asks for more sequences than the
 * few that each `npm test` affords, `FIRN_MODEL_STEPS` for longer ones.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Env } from '../support/node.js';
import { Random, seeded } from '../support/random.js';
import { compareAbsent, compareBriefly, compareFully } from './compare.js';
import { Rig } from './rig.js';
import { anyStep, take } from './steps.js';
import type { Step } from './steps.js';
import { PATHS, World } from './world.js';

const RUNS = process.env['FIRN_MODEL_RUNS'];
const STEPS_MAX = Number(process.env['FIRN_MODEL_STEPS'] ?? 40);
/** Without a number of runs: no sequence begins later than this, ms, for each way of sealing. */
const RUN_MS = 8_000;
/** How long a failure is made shorter, ms. */
const SHRINK_MS = 90_000;

const BASE: Env = { FIRN_LOG: 'warn', FIRN_HOT_KEEP_MS: '600000', FIRN_SEAL_AGE_MS: '3600000' };
const WAYS: readonly (readonly [title: string, settings: Env])[] = [
  ['sealed when a step says so, kept hot', BASE],
  ['sealed and evicted within milliseconds', { ...BASE, FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_BYTES: '1', FIRN_SEAL_AGE_MS: '20' }],
  ['evicted with each seal, in four partitions', { ...BASE, FIRN_HOT_KEEP_MS: '0', FIRN_PARTITIONS: '4' }],
];

/** `collected`: ends with a collection to its end, which lasts as long as its grace. Tells how many objects went. */
async function tell(settings: Env, steps: readonly Step[], collected: boolean): Promise<number> {
  const rig = new Rig(settings);
  try {
    await rig.start();
    const world = new World(rig);
    for (const step of steps) {
      const luck = new Random(step.luck + 1);
      const near = await take(world, step);
      world.ledger.note(world.spec);
      await look(world, near, luck);
      await world.places.check(luck.chance(0.25));
    }
    await world.seal();
    await look(world, null, new Random(steps.length));
    await world.places.check(true);
    if (collected) {
      await rig.node.ask('POST', '/__firn/compact');
      await rig.node.ask('POST', '/__firn/collect');
      await look(world, null, new Random(steps.length + 1));
      await world.places.check(true);
    }
    await world.places.objects.settle();
    return world.places.objects.gone;
  } finally {
    await rig.dispose();
  }
}

/** Reads a stream by all means, or each; of the others, one in few words. */
async function look(world: World, near: string | null, luck: Random): Promise<void> {
  const { spec } = world;
  const far = luck.pick(PATHS);
  for (const path of PATHS) {
    const life = spec.lives.get(path);
    if (near !== null && path !== near && path !== far) continue;
    if (life === undefined || life.deleted) await compareAbsent(world, path);
    else if (near === null || path === near) await compareFully(world, life, luck);
    else await compareBriefly(world, life, luck);
  }
}

for (const [title, settings] of WAYS) {
  it.concurrent(`R026 I1 I2 I3 I7 I8 any sequence agrees with the model: ${title}`, { timeout: 900_000 }, async () => {
    const { seed } = seeded(`model, ${title}`);
    const path = process.env['FIRN_MODEL_PATH'];
    let deadline = RUNS === undefined && path === undefined ? Date.now() + RUN_MS : Infinity;
    let told = 0;
    let gone = 0;
    let failed = false;
    const property = fc.asyncProperty(fc.array(anyStep, { minLength: STEPS_MAX >> 2, maxLength: STEPS_MAX, size: 'max' }), async (steps) => {
      if (Date.now() > deadline) return;
      try {
        gone += await tell(settings, steps, told === 0 && !failed);
        told += 1;
      } catch (error) {
        if (!failed) deadline = Date.now() + SHRINK_MS;
        failed = true;
        throw error;
      }
    });
    await fc.assert(property, { seed: seed | 0, ...(path === undefined ? {} : { path }), numRuns: Number(RUNS ?? 100) });
    process.stdout.write(`model, ${title}: ${told} sequences, ${gone} objects collected\n`);
    expect(told).toBeGreaterThan(0);
  });
}
