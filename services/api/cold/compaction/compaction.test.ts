import { randomBytes } from 'node:crypto';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../../shared/protocol/types.js';
import { createLogger } from '../../../../shared/observability/logger.js';
import { createMetrics } from '../../../../shared/observability/metrics.js';
import { FsObjectStore } from '../../../../shared/storage/fs-store.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import type { ColdRef } from '../../../../shared/storage/records/types.js';
import { coldMetrics } from '../cold-metrics.js';
import { until, useCounts, useRig, type Rig } from '../cold-rig.contract.js';
import { doomedRow, objectRow } from '../../hot/keys/index.js';
import { COMPACT_BYTES_MAX, COMPACT_NOW_GARBAGE_SHARE_MAX, COMPACT_OBJECTS_MAX, COMPACT_RECORDS, COMPACT_REFS_MAX, COMPACT_SOURCES_MAX, COMPACT_STREAMS_MAX } from '../limits.js';
import { garbageShare } from './compactor.js';
import type { CompactContents } from './contents.js';
import { restore, type RestoreReport } from '../restore.js';
import { verifyStore } from '../verify.js';

const MS_MAX = 30_000;
const bed = useRig();

const compact = (of: Rig): ReturnType<Rig['cold']['compactNow']> => of.cold.compactNow(AbortSignal.timeout(MS_MAX));

async function refsOf(of: Rig, key: string): Promise<readonly ColdRef[]> {
  const { incarnation } = await of.head(key);
  return of.refs(of.core.slotOf(key as StreamKey), incarnation, 0 as Offset, 100_000);
}

async function expectSound(of: Rig): Promise<void> {
  const stagedBytes = (file: string): Promise<number | null> => stat(join(of.dir, 'staging', file)).then(({ size }) => size, () => null);
  const report = await verifyStore({ store: of.core.store, objects: of.objects, deep: true, stagedBytes, signal: AbortSignal.timeout(MS_MAX) });
  expect(report.findings).toEqual([]);
  const { rows, counted } = await useCounts(of);
  for (const [object, refs] of counted) expect(rows.get(object) ?? 0, object).toBeGreaterThanOrEqual(refs);
}

/** Loses the machine: a directory from the objects alone. */
async function restored(of: Rig, checkpoint: boolean): Promise<RestoreReport> {
  if (checkpoint) await of.cold.checkpointNow(AbortSignal.timeout(MS_MAX));
  await of.close();
  await rm(join(of.dir, 'hot'), { recursive: true });
  const report = await restore({
    config: { dataDir: of.dir, cold: 'fs' }, objects: await FsObjectStore.open(join(of.dir, 'objects')), newIncarnations: false, logger: createLogger('silent'),
    metrics: coldMetrics(createMetrics()), now: Date.now, nonce: () => randomBytes(16).toString('hex'), signal: AbortSignal.timeout(MS_MAX),
  });
  expect(report.losses).toEqual([]);
  return report;
}

/** Seals of a few streams, so that each lies in as many objects. */
async function fill(of: Rig, expected: Map<string, Buffer>, { streams, rounds, bytes }: { readonly streams: number; readonly rounds: number; readonly bytes: number }): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (let n = 0; n < streams; n++) {
      const key = `demo/s${n}`;
      if (!expected.has(key)) await of.create(key);
      const body = randomBytes(bytes);
      await of.append(key, body);
      expected.set(key, Buffer.concat([expected.get(key) ?? Buffer.alloc(0), body]));
    }
    await of.seal();
  }
}

/** Nothing is left of deleted lives. */
async function isSwept(of: Rig): Promise<boolean> {
  for await (const page of of.hot.scan({ ...doomedRow.range(), limit: 1 })) if (page.length > 0) return false;
  return true;
}

async function expectBytes(of: Rig, expected: ReadonlyMap<string, Buffer>): Promise<void> {
  for (const [key, bytes] of expected) expect((await of.read(key, 777_777)).equals(bytes.subarray((await of.head(key)).retained)), key).toBe(true);
}

describe('a compaction that is asked for', () => {
  it('I1 I3 puts what many seals wrote together: the same bytes, entries and times from one object, one reference a stream', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 5, rounds: 6, bytes: 1_000 });
    expect(await refsOf(of, 'demo/s1')).toHaveLength(6);
    const before = of.objects.puts.length;
    const report = await compact(of);
    expect(report).toMatchObject({ plans: 1, objects: 1, streams: 5, leftOut: 0 });
    expect(report.bytesWritten).toBeGreaterThan(30_000);
    expect(report.bytesRead).toBeGreaterThan(30_000);
    expect(of.objects.puts.slice(before).map((key) => key.split('/')[2])).toEqual(['merged', 'log']);
    for (const key of expected.keys()) expect(await refsOf(of, key)).toHaveLength(1);
    await expectBytes(of, expected);
    const { incarnation } = await of.head('demo/s1');
    expect(await of.cold.entryEnd(of.core.slotOf('demo/s1' as StreamKey), incarnation, 2_500 as Offset)).toEqual({ end: 3_000, whole: true });
    await expectSound(of);
    const { rows } = await useCounts(of);
    expect([...rows].filter(([, refs]) => refs > 0).map(([object]) => object.split('/')[2])).toEqual(['merged']);
    expect(await compact(of)).toMatchObject({ plans: 0, objects: 0 });
  });

  it('objects of many short streams are put together once: one that two of would not go into a compaction counts as long enough (R036)', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    let made = 0;
    for (const streams of [3_000, 3_000, 4_000]) {
      for (const end = made + streams; made < end; made += 500) await Promise.all(Array.from({ length: 500 }, (_, n) => of.create(`demo/s${made + n}`, { body: `first words of ${made + n}` })));
      await of.seal();
    }
    expect(made).toBeGreaterThan(COMPACT_STREAMS_MAX);
    expect(await compact(of)).toMatchObject({ objects: 2, streams: made, leftOut: 0 });
    expect(await compact(of)).toMatchObject({ plans: 0, objects: 0, bytesWritten: 0 });
    for (const n of [0, 4_711, made - 1]) expect((await of.read(`demo/s${n}`)).toString()).toBe(`first words of ${n}`);
    const { rows, counted } = await useCounts(of);
    for (const [object, refs] of counted) expect(rows.get(object), object).toBe(refs);
  });

  it.each([false, true])('I1 a restore finds what it left, with a checkpoint behind it: %s', async (checkpoint) => {
    let of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 3, rounds: 2, bytes: 5_000 });
    await of.cold.checkpointNow(AbortSignal.timeout(MS_MAX));
    await fill(of, expected, { streams: 3, rounds: 2, bytes: 5_000 });
    await of.snapshot('demo/s0', 100, Buffer.from('a small snapshot'));
    await of.seal();
    expect((await compact(of)).plans).toBe(1);
    await fill(of, expected, { streams: 3, rounds: 2, bytes: 5_000 });
    expect((await compact(of)).plans).toBe(1);
    await restored(of, checkpoint);
    of = await bed.start({ hotKeepMs: 0 });
    await expectBytes(of, expected);
    expect((await of.readSnapshot('demo/s0', 100)).toString()).toBe('a small snapshot');
    for (const key of expected.keys()) expect(await refsOf(of, key)).toHaveLength(1);
    await expectSound(of);
  });

  it('leaves out what is deleted, trimmed and superseded, and rewrites the object that held it', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 4, rounds: 3, bytes: 300_000 });
    await of.snapshot('demo/s0', 10, Buffer.from('an old one'));
    await of.snapshot('demo/s1', 10, Buffer.from('it stays'));
    await of.seal();
    await of.snapshot('demo/s0', 600_000, Buffer.from('a new one'));
    await of.log.retain('demo/s0' as StreamKey, null, 600_000 as Offset);
    await of.delete('demo/s2');
    await of.delete('demo/s3');
    expected.delete('demo/s2');
    expected.delete('demo/s3');
    await of.seal();
    await until(() => isSwept(of));
    const report = await compact(of);
    expect(report.bytesWritten).toBeLessThan(300_000 * 5);
    await expectBytes(of, expected);
    expect((await of.readSnapshot('demo/s1', 10)).toString()).toBe('it stays');
    expect((await of.readSnapshot('demo/s0', 600_000)).toString()).toBe('a new one');
    expect((await of.head('demo/s1')).snapshot?.cold?.ref.object.kind).toBe('merged');
    await expectSound(of);
    const { rows } = await useCounts(of);
    expect([...rows].filter(([, refs]) => refs > 0).map(([object]) => object.split('/')[2])).toEqual(['merged']);
  });

  it('I9 is loud about a damaged source, keeps the references to it, and goes on with the others', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 3, rounds: 1, bytes: 2_000 });
    await of.create('demo/hurt');
    await of.append('demo/hurt', 'a'.repeat(4_000));
    await of.seal('demo/hurt');
    await of.append('demo/hurt', 'b'.repeat(4_000));
    await fill(of, expected, { streams: 3, rounds: 1, bytes: 2_000 });
    const refs = await refsOf(of, 'demo/hurt');
    const victim = objectKey((refs[0] as ColdRef).object);
    await rm(join(of.dir, 'objects', victim));
    const report = await compact(of);
    expect(report.plans).toBe(1);
    expect(report.leftOut).toBe(1);
    expect(of.metrics.damage.object.value).toBeGreaterThan(0);
    await expectBytes(of, expected);
    for (const key of expected.keys()) expect(await refsOf(of, key)).toHaveLength(1);
    expect(await refsOf(of, 'demo/hurt')).toEqual(refs);
    await expect(of.read('demo/hurt')).rejects.toMatchObject({ code: 'COLD_STORE_FAILED' });
  });

  it('I7 drops the range of a stream that was deleted and made anew meanwhile, and moves the others', async () => {
    let deleted: (() => Promise<void>) | null = null;
    const of = await bed.start({ hotKeepMs: 0 }, { steps: async (name) => (name === 'compact:checked' ? deleted?.() : undefined) });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 3, rounds: 3, bytes: 1_000 });
    deleted = async () => {
      deleted = null;
      await of.delete('demo/s1');
      await of.create('demo/s1');
      await of.append('demo/s1', 'its successor');
    };
    await compact(of);
    expected.set('demo/s1', Buffer.from('its successor'));
    await expectBytes(of, expected);
    expect(await refsOf(of, 'demo/s1')).toEqual([]);
    expect(await refsOf(of, 'demo/s2')).toHaveLength(1);
    await of.seal();
    await compact(of);
    await expectBytes(of, expected);
    await expectSound(of);
  });

  it('I6 a range that a retention boundary passed meanwhile is dropped', async () => {
    let meanwhile: (() => Promise<void>) | null = null;
    const of = await bed.start({ hotKeepMs: 0 }, { steps: async (name) => (name === 'compact:checked' ? meanwhile?.() : undefined) });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 2, rounds: 4, bytes: 1_000 });
    meanwhile = async () => {
      meanwhile = null;
      await of.snapshot('demo/s0', 2_000, Buffer.from('covers'));
      await of.log.retain('demo/s0' as StreamKey, null, 2_000 as Offset);
      await of.seal();
    };
    await compact(of);
    await expectBytes(of, expected);
    await compact(of);
    expect(await refsOf(of, 'demo/s0')).toHaveLength(1);
    await expectBytes(of, expected);
    await restored(of, true);
    await expectBytes(await bed.start({ hotKeepMs: 0 }), expected);
  });

  it('a slow reader of the old references goes on to the end', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 2, rounds: 8, bytes: 200_000 });
    const window = await of.log.read({ key: 'demo/s0' as StreamKey, precondition: null, from: 0 as Offset, maxBytes: 8_388_608, cut: 'bytes' });
    const pieces: Buffer[] = [];
    for await (const piece of window.body()) {
      pieces.push(Buffer.from(piece));
      if (pieces.length === 1) await compact(of);
    }
    expect(Buffer.concat(pieces).equals(expected.get('demo/s0') as Buffer)).toBe(true);
  });

  it('cost: after it a read of 1 MiB takes two GETs at most, wherever it begins', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    for (const bytes of [700_000, 90_000, 2_500_000, 3_000, 900, 1_300_000, 40_000, 40_000, 500_000]) await fill(of, expected, { streams: 2, rounds: 1, bytes });
    await compact(of);
    await expectBytes(of, expected);
    const whole = expected.get('demo/s0') as Buffer;
    const cold = await of.reopen({ hotKeepMs: 0 });
    bed.rig = cold;
    for (const from of [0, 333_333, 1_000_000, 2_000_000, 3_200_000, 4_000_000, whole.length - 1_048_576]) {
      const gets = cold.objects.gets;
      const window = await cold.log.read({ key: 'demo/s0' as StreamKey, precondition: null, from: from as Offset, maxBytes: 1_048_576, cut: 'bytes' });
      const pieces: Buffer[] = [];
      for await (const piece of window.body()) pieces.push(Buffer.from(piece));
      expect(Buffer.concat(pieces).equals(whole.subarray(from, from + 1_048_576))).toBe(true);
      expect(cold.objects.gets - gets).toBeLessThanOrEqual(2);
    }
  });

  it('a fork reads through the compacted references of its source, which outlives its own deletion', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 1, rounds: 4, bytes: 2_000 });
    await of.create('demo/fork', { fork: { key: 'demo/s0' as StreamKey, offset: 5_000 as Offset, sub: 0 } });
    await of.append('demo/fork', 'and on');
    await of.seal();
    await of.delete('demo/s0');
    await of.seal();
    expect((await compact(of)).plans).toBe(1);
    expect((await of.read('demo/fork')).toString('latin1')).toBe(`${(expected.get('demo/s0') as Buffer).subarray(0, 5_000).toString('latin1')}and on`);
    await expectSound(of);
  });

  it('goes on over four partitions', async () => {
    const of = await bed.start({ hotKeepMs: 0, partitions: 4 });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 12, rounds: 3, bytes: 700 });
    const report = await compact(of);
    expect(report.plans).toBeGreaterThan(1);
    expect(report.streams).toBe(12);
    await expectBytes(of, expected);
    await expectSound(of);
  });
});

describe('bounds', () => {
  it('I11 a plan reads at most so many objects and holds no more than it may; what does not fit comes with the next one', async () => {
    const plans: CompactContents[] = [];
    let running: Rig | null = null;
    const of = await bed.start({ hotKeepMs: 0 }, {
      steps: (name) => {
        for (const { work } of name === 'compact:planned' ? (running?.cold.partitions[0]?.board.list() ?? []) : []) if (work.kind === 'compact') plans.push(work.contents);
      },
    });
    running = of;
    const keys = Array.from({ length: 80 }, (_, n) => `demo/s${n}`);
    for (const key of keys) await of.create(key);
    for (let round = 0; round < 2; round++) {
      for (const key of keys) {
        await of.append(key, `${key} ${round}`);
        await of.seal(key);
      }
    }
    // Some of it was done by itself meanwhile.
    await compact(of);
    expect(plans.length).toBeGreaterThan(1);
    for (const { sources, refs, rawBytes, streams } of plans) {
      expect(new Set(sources.flatMap((source) => source.refs.map(({ object }) => objectKey(object)))).size).toBeLessThanOrEqual(COMPACT_OBJECTS_MAX);
      expect([refs <= COMPACT_REFS_MAX, rawBytes <= COMPACT_BYTES_MAX, streams <= COMPACT_STREAMS_MAX, sources.length <= COMPACT_SOURCES_MAX]).toEqual([true, true, true, true]);
      expect(sources.map(({ source }) => source)).toEqual(sources.map((_, n) => n));
    }
    for (const key of keys) {
      expect((await of.read(key)).toString()).toBe(`${key} 0${key} 1`);
      expect(await refsOf(of, key)).toHaveLength(1);
    }
  });

  it('I11 garbage: no object that is still named keeps more of it than it may', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    // Too large for the rule of small objects, and no piece too short.
    await fill(of, expected, { streams: 8, rounds: 1, bytes: 1_500_000 });
    for (const key of ['demo/s0', 'demo/s1', 'demo/s2']) {
      await of.delete(key);
      expected.delete(key);
    }
    await of.seal();
    const shares = async (): Promise<number[]> => {
      const found: number[] = [];
      for await (const page of of.hot.scan(objectRow.range(0))) for (const { value } of page) found.push(garbageShare(objectRow.decode(value)));
      return found.filter((share) => share < 1);
    };
    await until(async () => (await shares()).some((share) => share > 0.3));
    await compact(of);
    for (const share of await shares()) expect(share).toBeLessThanOrEqual(COMPACT_NOW_GARBAGE_SHARE_MAX);
    await expectBytes(of, expected);
    await expectSound(of);
  });
});

describe('compaction by itself', () => {
  it('I5 begins when enough was sealed, without being asked, and leaves no plan open', async () => {
    const of = await bed.start({ hotKeepMs: 0 });
    const expected = new Map<string, Buffer>();
    await fill(of, expected, { streams: 2, rounds: 34 + COMPACT_RECORDS, bytes: 300 });
    await until(async () => (await refsOf(of, 'demo/s0')).length < 34, 20_000);
    await until(() => of.cold.partitions[0]?.board.list().length === 0);
    expect(of.metrics.compactions.value).toBeGreaterThan(0);
    await expectBytes(of, expected);
    await expectSound(of);
  });
});
