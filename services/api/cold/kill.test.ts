import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Killed, Rig } from './cold-rig.contract.js';
import type { StepName, Steps } from './steps.js';
import { verifyStore } from './verify.js';

/** Every step, and which of its occurrences kills. */
const KILLS: readonly (readonly [StepName, number])[] = [
  ['claim:intent', 1], ['claim:created', 1], ['claim:bound', 1], ['claim:fenced', 1],
  ['plan:written', 1], ['plan:written', 2],
  ['seal:uploaded', 1], ['seal:uploaded', 2], ['seal:checked', 1], ['seal:checked', 2],
  ['offload:uploaded', 1], ['offload:checked', 1],
  ['log:put', 1], ['log:put', 2], ['log:put', 3],
  ['apply:slice', 1], ['apply:slice', 2], ['apply:slice', 3], ['apply:done', 1], ['apply:done', 2],
  ['evict:slice', 1], ['evict:slice', 2], ['evict:slice', 3],
];
const BIG = Buffer.alloc(1_200_000, 'body of a large snapshot ');

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

/** Kills at the n-th occurrence of a step. */
function killAt(name: StepName, occurrence: number): Steps {
  let left = occurrence;
  return (step) => {
    if (step === name && --left === 0) throw new Killed(step);
  };
}

async function work(of: Rig, expected: Map<string, string>): Promise<void> {
  const add = async (key: string, line: string, seq: number): Promise<void> => {
    await of.append(key, line, { id: 'p', epoch: 0, seq });
    expected.set(key, (expected.get(key) ?? '') + line);
  };
  for (const key of ['demo/a', 'demo/b', 'demo/c']) {
    await of.create(key);
    for (let seq = 0; seq < 5; seq++) await add(key, `${key} ${seq} ${'.'.repeat(seq * 100)}\n`, seq);
  }
  await of.snapshot('demo/a', 5, BIG);
  await of.snapshot('demo/b', 5, Buffer.from('small'));
  await of.seal();
  for (const key of ['demo/a', 'demo/c']) for (let seq = 5; seq < 8; seq++) await add(key, `${key} ${seq} later\n`, seq);
  await of.delete('demo/b');
  expected.delete('demo/b');
  await of.seal();
}

describe('a node killed at any step of claim, seal, offload and eviction', () => {
  it.each(KILLS)('loses nothing at %s, occurrence %i (I2, I3, I6)', async (name, occurrence) => {
    const expected = new Map<string, string>();
    let opened: Rig | null = null;
    try {
      opened = await Rig.open(dir, { hotKeepMs: 0 }, { steps: killAt(name, occurrence) });
      rig = opened;
      const outcome = await Promise.race([work(rig, expected).then(() => 'done', (error: unknown) => error), rig.died.then(() => 'died')]);
      // The kill may show as an error of a request before the death is seen.
      if (!rig.dead) throw outcome;
      await rig.kill();
    } catch (error) {
      if (opened !== null || !(error instanceof Killed)) throw error;
    }
    rig = await Rig.open(dir, { hotKeepMs: 0 });
    for (const [key, bytes] of expected) expect((await rig.read(key, 777)).toString(), `${key} after the restart`).toBe(bytes);
    if (expected.size === 0) await work(rig, expected);
    await rig.seal();
    for (const [key, bytes] of expected) {
      expect((await rig.read(key)).toString(), `${key} after sealing again`).toBe(bytes);
      const record = await rig.head(key);
      expect(record.sealed, key).toBe(bytes.length);
      expect(record.hotStart, key).toBe(bytes.length);
      expect(record.loggedChange, key).toBe(record.change);
    }
    const { snapshot } = await rig.head('demo/a');
    if (snapshot !== null) expect((await rig.readSnapshot('demo/a', 5)).equals(BIG)).toBe(true);
    const stagedBytes = (file: string): Promise<number | null> => stat(join(dir, 'staging', file)).then(({ size }) => size, () => null);
    const report = await verifyStore({ store: rig.hot, objects: rig.objects, deep: true, stagedBytes, signal: AbortSignal.timeout(20_000) });
    expect(report.findings).toEqual([]);
    for (const key of report.unknownObjects) expect(key).toMatch(/^partitions\/0000\/(segments|snapshots)\//);
  });
});
