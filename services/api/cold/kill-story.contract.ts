/**
 * What a node does until it is killed at a step, and what has to hold afterwards: the same for a node that runs its jobs itself and for one with workers elsewhere.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { Killed, type Rig } from './cold-rig.contract.js';
import type { StepName, Steps } from './steps.js';
import { verifyStore } from './verify.js';

const BIG = Buffer.alloc(1_200_000, 'body of a large snapshot ');
const SEAL_MS_MAX = 40_000;

/** Kills at the n-th occurrence of a step. */
export function killAt(name: StepName, occurrence: number): Steps {
  let left = occurrence;
  return (step) => {
    if (step === name && --left === 0) throw new Killed(step);
  };
}

/** Appends, snapshots, seals, a delete and a compaction; what was acknowledged is put down. */
export async function tellStory(of: Rig, expected: Map<string, string>): Promise<void> {
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
  await of.cold.compactNow(AbortSignal.timeout(SEAL_MS_MAX));
}

/** The next life of the node has every acknowledged byte, seals what is left, and nothing stored is lost, doubled or damaged. */
export async function expectStory(rig: Rig, expected: ReadonlyMap<string, string>): Promise<void> {
  for (const [key, bytes] of expected) expect((await rig.read(key, 777)).toString(), `${key} after the restart`).toBe(bytes);
  await rig.seal('', SEAL_MS_MAX);
  for (const [key, bytes] of expected) {
    expect((await rig.read(key)).toString(), `${key} after sealing again`).toBe(bytes);
    const record = await rig.head(key);
    expect([record.sealed, record.hotStart, record.loggedChange], key).toEqual([bytes.length, bytes.length, record.change]);
  }
  await rig.cold.compactNow(AbortSignal.timeout(SEAL_MS_MAX));
  for (const [key, bytes] of expected) {
    expect((await rig.read(key)).toString(), `${key} after compaction`).toBe(bytes);
    const { incarnation } = await rig.head(key);
    expect(await rig.refs(rig.core.slotOf(key as StreamKey), incarnation, 0 as Offset, 10), `${key} in one piece`).toHaveLength(1);
  }
  const { snapshot } = await rig.head('demo/a');
  if (snapshot !== null) expect((await rig.readSnapshot('demo/a', 5)).equals(BIG)).toBe(true);
  const stagedBytes = (file: string): Promise<number | null> => stat(join(rig.dir, 'staging', file)).then(({ size }) => size, () => null);
  const report = await verifyStore({ store: rig.core.store, objects: rig.objects, deep: true, stagedBytes, signal: AbortSignal.timeout(SEAL_MS_MAX) });
  expect(report.findings).toEqual([]);
  for (const key of report.unknownObjects) expect(key).toMatch(/^partitions\/0000\/(segments|snapshots|merged)\//);
}
