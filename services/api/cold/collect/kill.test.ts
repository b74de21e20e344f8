import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Steps } from '../steps.js';
import { Killed, Rig, type StoreCall } from '../cold-rig.contract.js';
import { expectOnlyAlive, SHORT_GRACE_MS } from './collect-rig.contract.js';

/** Every step of a collection, and every kind of call of its handler, and which of its occurrences kills the node. */
const KILLS: readonly (readonly [string, number])[] = [
  ['collect:chosen', 1], ['log:put', 1], ['apply:slice', 1], ['apply:done', 1], ['log:put', 2], ['apply:slice', 2], ['collect:logged', 1],
  ['collect:done', 1], ['collect:done', 2], ['collect:done', 3],
  ['put checkpoint-parts', 1], ['put checkpoints', 1], ['put checkpoint-parts', 2], ['put checkpoints', 2],
  ...(['delete', 'deleted'] as const).flatMap((call) => [[`${call} segments`, 1], [`${call} segments`, 2], [`${call} segments`, 3], [`${call} snapshots`, 1], [`${call} log`, 1], [`${call} log`, 2]] as const),
  ['delete checkpoints', 1], ['delete checkpoint-parts', 1], ['deleted checkpoints', 1], ['deleted checkpoint-parts', 1],
];
const BIG = Buffer.alloc(1_200_000, 'large snapshot ');

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

/** Two checkpoints, and garbage of every kind, an orphan of an earlier session among it. */
async function makeGarbage(node: Rig): Promise<void> {
  for (const key of ['demo/a', 'demo/b', 'demo/c']) {
    await node.create(key);
    await node.append(key, `bytes of ${key}`);
    await node.seal();
    await node.cold.checkpointNow(AbortSignal.timeout(5_000));
  }
  await node.snapshot('demo/a', 5, BIG);
  await node.seal();
  await node.snapshot('demo/a', 7, Buffer.from('small'));
  for (const key of ['demo/b', 'demo/c']) await node.delete(key);
  await node.seal();
  await node.objects.putOnce('partitions/0000/segments/0000-000001-0000000099-0001-00000', Buffer.from('left by a worker that was killed'));
}

describe('a node killed at any step of a collection', () => {
  it.each(KILLS)('loses nothing that lives at "%s", occurrence %i, and the next collection ends the work (I8)', { timeout: 30_000 }, async (name, occurrence) => {
    rig = await Rig.open(dir, { hotKeepMs: 0 });
    await makeGarbage(rig);
    await rig.close();
    let left = occurrence;
    let armed = false;
    const steps: Steps = (step) => {
      if (armed && step === name && --left === 0) throw new Killed(step);
    };
    rig = await Rig.open(dir, { hotKeepMs: 0 }, { steps, collectGraceMs: SHORT_GRACE_MS });
    const node = rig;
    const before = node.objects.before;
    node.objects.before = async (call: StoreCall, key) => {
      if (armed && `${call} ${key.split('/')[2]}` === name && --left === 0) {
        void node.kill();
        throw new Error('the node is dead');
      }
      return before(call, key);
    };
    armed = true;
    await Promise.race([node.collect().catch(() => undefined), node.died]);
    expect(node.dead, 'the step was reached').toBe(true);
    await node.kill();
    rig = await Rig.open(dir, { hotKeepMs: 0 }, { collectGraceMs: SHORT_GRACE_MS });
    expect((await rig.read('demo/a')).toString()).toBe('bytes of demo/a');
    await rig.append('demo/a', ' and more');
    await rig.seal();
    expect(await rig.collect()).toMatchObject({ waiting: 0, unknown: 0 });
    await expectOnlyAlive(rig);
    expect((await rig.read('demo/a')).toString()).toBe('bytes of demo/a and more');
    expect((await rig.readSnapshot('demo/a', 7)).toString()).toBe('small');
  });
});
