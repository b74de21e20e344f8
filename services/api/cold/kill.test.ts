import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import type { StreamKey } from '../../../shared/protocol/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { openDurableStore } from '../hot/durable-store.js';
import { streamRow } from '../hot/keys/index.js';
import { Killed, Rig } from './cold-rig.contract.js';
import type { StepName, Steps } from './steps.js';
import { verifyStore } from './verify.js';

/** Every step, and which of its occurrences kills. */
const KILLS: readonly (readonly [StepName, number])[] = [
  ['claim:intent', 1], ['claim:created', 1], ['claim:bound', 1], ['claim:fenced', 1],
  ['plan:opened', 1], ['plan:opened', 2],
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
    const report = await verifyStore({ store: rig.core.store, objects: rig.objects, deep: true, stagedBytes, signal: AbortSignal.timeout(20_000) });
    expect(report.findings).toEqual([]);
    for (const key of report.unknownObjects) expect(key).toMatch(/^partitions\/0000\/(segments|snapshots)\//);
  });
});

describe('a log record that cannot be applied', () => {
  it('stops the seals of its partition and nothing else; once the row is whole again a restart goes on (R007, I9)', async () => {
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
    expect(rig.cold.reasons().join()).toContain('cannot be applied');
    expect((await rig.read('demo/b')).toString()).toBe('demo/b');
    await rig.append('demo/b', ' goes on');
    await expect(rig.read('demo/a')).rejects.toThrow();
    await expect(rig.seal()).rejects.toThrow(/cannot be applied/);
    const records = rig.objects.puts.filter((key) => key.includes('/log/'));
    expect(records.every((key) => !key.includes('/000002/'))).toBe(true);
    await rig.close();
    await swap(whole);
    rig = await Rig.open(dir);
    expect(rig.cold.reasons()).toEqual([]);
    await rig.seal();
    expect((await rig.read('demo/a')).toString()).toBe('demo/a');
    expect((await rig.read('demo/b')).toString()).toBe('demo/b goes on');
    expect((await rig.head('demo/a')).sealed).toBe(6);
  });
});
