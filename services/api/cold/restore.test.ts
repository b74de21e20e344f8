import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics } from '../../../shared/observability/metrics.js';
import { FsObjectStore } from '../../../shared/storage/fs-store.js';
import { stat } from 'node:fs/promises';
import { coldMetrics } from './cold-metrics.js';
import { Rig, type RigConfig } from './cold-rig.contract.js';
import { restore, type RestoreReport } from './restore.js';
import { StartRefused } from './start-refused.js';
import { verifyStore, type VerifyReport } from './verify.js';

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

async function restoreHere(options: { readonly newIncarnations?: boolean; readonly dir?: string; readonly cold?: 'fs' | 's3' } = {}): Promise<RestoreReport> {
  const objects = await FsObjectStore.open(join(dir, 'objects'));
  return restore({
    config: { dataDir: options.dir ?? dir, cold: options.cold ?? 'fs' },
    objects,
    newIncarnations: options.newIncarnations ?? false,
    logger: createLogger('silent'),
    metrics: coldMetrics(createMetrics()),
    now: Date.now,
    nonce: () => randomBytes(16).toString('hex'),
    signal: AbortSignal.timeout(30_000),
  });
}

function verify(of: Rig, deep = true): Promise<VerifyReport> {
  const stagedBytes = (file: string): Promise<number | null> => stat(join(dir, 'staging', file)).then(({ size }) => size, () => null);
  return verifyStore({ store: of.core.store, objects: of.objects, deep, stagedBytes, signal: AbortSignal.timeout(30_000) });
}

const BIG = Buffer.alloc(1_500_000, 'large snapshot ');

async function fill(of: Rig): Promise<Map<string, Buffer>> {
  const expected = new Map<string, Buffer>();
  for (const name of ['a', 'b', 'c', 'd']) {
    const key = `demo/${name}`;
    await of.create(key);
    const lines: string[] = [];
    for (let n = 0; n < 20; n++) {
      lines.push(`${name} ${n} ${'x'.repeat(n * 37)}\n`);
      await of.append(key, lines[n] as string, { id: 'p', epoch: 0, seq: n });
    }
    expected.set(key, Buffer.from(lines.join('')));
  }
  const big = randomBytes(700_000);
  await of.append('demo/d', big);
  expected.set('demo/d', Buffer.concat([expected.get('demo/d') as Buffer, big]));
  await of.snapshot('demo/a', 10, Buffer.from('small snapshot of a'));
  await of.snapshot('demo/b', 20, BIG);
  return expected;
}

async function expectAll(of: Rig, expected: ReadonlyMap<string, Buffer>): Promise<void> {
  for (const [key, bytes] of expected) expect((await of.read(key, 4_321)).equals(bytes), key).toBe(true);
  expect((await of.readSnapshot('demo/a', 10)).toString()).toBe('small snapshot of a');
  expect((await of.readSnapshot('demo/b', 20)).equals(BIG)).toBe(true);
}

/** Keys of the first partition's objects of a kind, in order. */
async function keysBelow(kind: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of (rig as Rig).objects.list(`partitions/0000/${kind}`)) keys.push(key);
  return keys;
}

async function dropHot(): Promise<void> {
  await rig?.close();
  rig = null;
  await rm(join(dir, 'hot'), { recursive: true });
}

describe.each<RigConfig>([{ partitions: 1 }, { partitions: 4 }])('restore of %o', (config) => {
  it('gives back every sealed stream, snapshot and producer from objects alone, with new incarnations for fs', async () => {
    rig = await Rig.open(dir, config);
    const expected = await fill(rig);
    await rig.seal();
    const before = await rig.head('demo/a');
    expect((await verify(rig)).findings).toEqual([]);
    await dropHot();
    const report = await restoreHere();
    expect(report).toMatchObject({ newIncarnations: true, lossCount: 0 });
    expect(report.partitions.reduce((sum, { streams }) => sum + streams, 0)).toBe(4);
    rig = await Rig.open(dir, config);
    await expectAll(rig, expected);
    const after = await rig.head('demo/a');
    expect(after.incarnation).not.toBe(before.incarnation);
    expect(after).toMatchObject({ tail: before.tail, sealed: before.tail, hotStart: before.tail, producers: 1, contentType: before.contentType, createdAtMs: before.createdAtMs });
    expect((await rig.append('demo/a', 'a 19 again', { id: 'p', epoch: 0, seq: 19 })).kind).toBe('duplicate');
    expect((await rig.append('demo/a', 'next\n', { id: 'p', epoch: 0, seq: 20 })).kind).toBe('applied');
    expect(await verify(rig)).toMatchObject({ ok: true, findings: [], streams: 4, unknownObjectCount: 0 });
  });

  it('does not bring back a stream that was deleted after a restore had given it a new life (I7)', async () => {
    rig = await Rig.open(dir, config);
    await rig.create('demo/a', { body: 'to be deleted' });
    await rig.create('demo/b', { body: 'to stay' });
    await rig.seal();
    await rig.cold.checkpointNow(AbortSignal.timeout(10_000));
    await dropHot();
    await restoreHere();
    rig = await Rig.open(dir, config);
    await rig.delete('demo/a');
    await rig.seal();
    for (const checkpoint of [false, true]) {
      if (checkpoint) await rig.cold.checkpointNow(AbortSignal.timeout(10_000));
      await dropHot();
      await restoreHere();
      rig = await Rig.open(dir, config);
      await expect(rig.head('demo/a')).rejects.toMatchObject({ code: 'STREAM_NOT_FOUND' });
      expect((await rig.read('demo/b')).toString()).toBe('to stay');
    }
  });

  it('restores twice, over checkpoints, after more was sealed (INC-04, I7)', async () => {
    rig = await Rig.open(dir, config);
    const expected = await fill(rig);
    await rig.seal();
    await rig.cold.checkpointNow(AbortSignal.timeout(10_000));
    await rig.append('demo/c', 'behind the checkpoint\n');
    expected.set('demo/c', Buffer.concat([expected.get('demo/c') as Buffer, Buffer.from('behind the checkpoint\n')]));
    await rig.delete('demo/d');
    expected.delete('demo/d');
    await rig.seal();
    const tokens = new Set([(await rig.head('demo/c')).incarnation]);
    for (let round = 0; round < 3; round++) {
      await dropHot();
      await restoreHere();
      rig = await Rig.open(dir, config);
      await expectAll(rig, expected);
      const { incarnation } = await rig.head('demo/c');
      expect(tokens.has(incarnation)).toBe(false);
      tokens.add(incarnation);
      const line = Buffer.from(`round ${round}\n`);
      await rig.append('demo/c', line);
      expected.set('demo/c', Buffer.concat([expected.get('demo/c') as Buffer, line]));
      await rig.seal();
      if (round === 1) await rig.cold.checkpointNow(AbortSignal.timeout(10_000));
      expect((await verify(rig)).findings).toEqual([]);
    }
  });
});

describe('restore', () => {
  it('leaves out what was not sealed, and says which snapshot is missing', async () => {
    rig = await Rig.open(dir);
    await rig.create('demo/x');
    await rig.append('demo/x', 'sealed\n');
    await rig.seal();
    await rig.append('demo/x', 'not sealed\n');
    await dropHot();
    await restoreHere();
    rig = await Rig.open(dir);
    expect((await rig.read('demo/x')).toString()).toBe('sealed\n');
  });

  it('I9 says per stream what the store has lost, restores everything else, and a read of what is lost fails', async () => {
    rig = await Rig.open(dir);
    await rig.create('demo/x', { body: 'lost\n' });
    await rig.create('demo/z', { body: 'with a snapshot\n' });
    await rig.snapshot('demo/z', 5, BIG);
    await rig.seal('demo/x');
    const [segment] = await keysBelow('segments/');
    await rig.seal();
    await rig.append('demo/x', 'kept\n');
    await rig.create('demo/y', { body: 'whole\n' });
    await rig.seal();
    await rig.cold.checkpointNow(AbortSignal.timeout(10_000));
    const [snapshot] = await keysBelow('snapshots/');
    for (const key of [segment, snapshot]) await rig.objects.delete(key as string);
    await dropHot();
    const report = await restoreHere();
    expect(report.lossCount).toBe(2);
    expect([...report.losses].sort((a, b) => a.key.localeCompare(b.key))).toEqual([
      { key: 'demo/x', what: `bytes [0, 5): ${segment} is not there as it was written` },
      { key: 'demo/z', what: `the body of the snapshot at 5: ${snapshot} is not there as it was written` },
    ]);
    expect(report.partitions.map(({ streams }) => streams)).toEqual([3]);
    rig = await Rig.open(dir);
    expect((await rig.read('demo/y')).toString()).toBe('whole\n');
    expect((await rig.read('demo/z')).toString()).toBe('with a snapshot\n');
    expect((await rig.head('demo/x')).tail).toBe(10);
    await expect(rig.read('demo/x')).rejects.toThrow();
    await expect(rig.readSnapshot('demo/z', 5)).rejects.toThrow();
    expect((await verify(rig)).findings.map(({ what }) => what).join()).toMatch(/missing/);
  });

  it('refuses a hot tier that is not empty, and an empty store', async () => {
    rig = await Rig.open(dir);
    await rig.close();
    rig = null;
    await expect(restoreHere()).rejects.toBeInstanceOf(StartRefused);
    await rm(join(dir, 'hot'), { recursive: true });
    await rm(join(dir, 'objects'), { recursive: true });
    await expect(restoreHere()).rejects.toBeInstanceOf(StartRefused);
  });

  it('fences the old node: its next seal is refused and it takes no more writes (I10)', async () => {
    const other = await Rig.dir();
    try {
      rig = await Rig.open(dir);
      await rig.create('demo/x');
      await rig.append('demo/x', 'one\n');
      await rig.seal();
      await restoreHere({ dir: other });
      await rig.append('demo/x', 'two\n');
      await expect(rig.seal()).rejects.toThrow();
      expect(rig.cold.refusal(0)).toMatchObject({ code: 'APPLY_STOPPED' });
      await expect(rig.append('demo/x', 'three\n')).rejects.toMatchObject({ code: 'APPLY_STOPPED' });
      expect((await rig.read('demo/x')).toString()).toBe('one\ntwo\n');
      await rig.close();
      rig = null;
      await expect(Rig.open(dir)).rejects.toThrow(/moved on/);
      await cp(join(dir, 'objects'), join(other, 'objects'), { recursive: true });
      rig = await Rig.open(other);
      expect((await rig.read('demo/x')).toString()).toBe('one\n');
    } finally {
      await rig?.close();
      rig = null;
      await Rig.remove(other);
    }
  });
});
