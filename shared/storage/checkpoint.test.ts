import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../protocol/types.js';
import { BadBytes } from './codec.js';
import {
  CheckpointWriter,
  checkpointPartKeys,
  compareCheckpointKeys,
  decodeCheckpointManifest,
  encodeCheckpointManifest,
  entriesOfItems,
  itemsOfEntry,
  readCheckpointPart,
  readCheckpointParts,
  sortedCheckpointKeys,
  type CheckpointEntry,
  type CheckpointManifest,
  type CheckpointPart,
} from './checkpoint.js';
import { expectEveryDamageRefused, expectEveryDamageRefusedLater } from './decoder.contract.js';
import { anyCount, anyCrc, anyKey, anyNamedProducer, anyObjectInfo, anyStreamRecord, anyTimeMs, sampleColdRef, sampleProducer, sampleStreamRecord } from './records/arbitrary.contract.js';
import type { ColdRef } from './records/types.js';
import { slotOf } from './slots.js';
import { compareSubscriptionIds, type CheckpointItem } from './checkpoint.js';
import { subscriptionItems } from './history/subscription-overlay.js';
import { anyLinkCursor, anyNamedLink, anySubscriptionConfig, sampleSubscription } from './records/arbitrary.contract.js';

const anyRefs = fc.tuple(fc.nat(1_000_000), fc.array(fc.integer({ min: 1, max: 500_000 }), { maxLength: 5 })).map(([from, sizes]) => {
  let start = from;
  return sizes.map((bytes): ColdRef => sampleColdRef({ start: start as Offset, end: (start += bytes) as Offset }));
});
const anyEntries: fc.Arbitrary<CheckpointEntry[]> = fc
  .uniqueArray(fc.record({ key: anyKey, state: anyStreamRecord, producers: fc.array(anyNamedProducer, { maxLength: 3 }), refs: anyRefs }), { maxLength: 15, selector: (entry) => entry.key })
  .map((entries) => entries.toSorted((a, b) => compareCheckpointKeys(a.key, b.key)));

const sample = (key: string, changes: Partial<CheckpointEntry> = {}): CheckpointEntry => ({ key: key as StreamKey, state: sampleStreamRecord(), producers: [{ id: 'meter', ...sampleProducer() }], refs: [sampleColdRef()], ...changes });

/** Adds one whole stream; the parts that it completed. */
async function addEntry(writer: CheckpointWriter, entry: CheckpointEntry): Promise<CheckpointPart[]> {
  const parts: CheckpointPart[] = [];
  for (const item of itemsOfEntry(entry)) {
    const part = await writer.add(item);
    if (part !== null) parts.push(part);
  }
  return parts;
}

async function partsOf(entries: readonly CheckpointEntry[], partBytesMax?: number): Promise<CheckpointPart[]> {
  const writer = new CheckpointWriter({ partBytesMax });
  const parts: CheckpointPart[] = [];
  for (const entry of entries) parts.push(...(await addEntry(writer, entry)));
  const last = await writer.finish();
  return last === null ? parts : [...parts, last];
}

async function entriesOf(parts: readonly CheckpointPart[]): Promise<CheckpointEntry[]> {
  const entries: CheckpointEntry[] = [];
  for await (const entry of entriesOfItems(readCheckpointParts(parts, async (info) => Buffer.concat(parts[info.part]?.body ?? [])))) entries.push(entry);
  return entries;
}

async function drain(items: AsyncIterable<unknown>): Promise<number> {
  let count = 0;
  for await (const _ of items) count++;
  return count;
}

describe('parts of a checkpoint', () => {
  it('give back the streams in order', async () => {
    await fc.assert(
      fc.asyncProperty(anyEntries, async (entries) => {
        const parts = await partsOf(entries);
        expect(parts.length).toBe(entries.length === 0 ? 0 : 1);
        expect(await entriesOf(parts)).toEqual(entries);
      }),
    );
  });

  it('I11 are cut at their limit, also within one stream of very many ranges and producers', async () => {
    const refs = Array.from({ length: 100_000 }, (_, index) => sampleColdRef({ start: (index * 10) as Offset, end: (index * 10 + 10) as Offset }));
    const producers = Array.from({ length: 5_000 }, (_, index) => ({ id: `meter-${index}`, ...sampleProducer({ lastSeq: index }) }));
    const entries = ['a', 'b', 'c', 'd'].map((name) => sample(name, { refs, producers })).toSorted((a, b) => compareCheckpointKeys(a.key, b.key));
    const parts = await partsOf(entries, 6_000_000);
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) expect(part.bytes).toBeLessThan(6_000_000);
    expect(parts.reduce((sum, part) => sum + part.streams, 0)).toBe(4);
    const back = await entriesOf(parts);
    expect(back.map((entry) => [entry.key, entry.refs.length, entry.producers.length])).toEqual(entries.map((entry) => [entry.key, 100_000, 5_000]));
    expect(back[3]?.refs.at(-1)).toEqual(refs.at(-1));
    expect(back[1]?.producers).toEqual(producers);
  });

  it('I9 refuse every cut and every flipped bit', async () => {
    const [part] = await partsOf([sample('demo/hello')]);
    const body = Buffer.concat(part?.body ?? []);
    await expectEveryDamageRefusedLater(body, (bytes) => drain(readCheckpointPart(bytes)));
    await expectEveryDamageRefusedLater(body, (bytes) => drain(readCheckpointParts([part as CheckpointPart], async () => bytes)));
  });

  it('I9 refuse parts that are swapped, missing or of another checkpoint', async () => {
    const big = (name: string): CheckpointEntry => sample(name, { refs: Array.from({ length: 60_000 }, (_, index) => sampleColdRef({ start: index as Offset, end: (index + 1) as Offset })) });
    const parts = await partsOf(['a', 'b', 'c', 'd'].map(big).toSorted((a, b) => compareCheckpointKeys(a.key, b.key)), 6_000_000);
    expect(parts.length).toBeGreaterThan(1);
    const [first, second] = parts as [CheckpointPart, CheckpointPart];
    const bodies = parts.map((part) => Buffer.concat(part.body));
    const read = (infos: readonly CheckpointPart[], load: (part: number) => Buffer): Promise<number> => drain(readCheckpointParts(infos, async ({ part }) => load(part)));
    await expect(read(parts, (part) => bodies[1 - part] as Buffer)).rejects.toThrow(BadBytes);
    await expect(read([second, first], (part) => bodies[part] as Buffer)).rejects.toThrow('part 1 at place 0');
    await expect(read([{ ...first, streams: 99 }], () => bodies[0] as Buffer)).rejects.toThrow('99 expected');
    await expect(read([{ ...second, part: 0 }], () => bodies[1] as Buffer)).rejects.toThrow('without a stream');
  });

  it('are not written out of order or with a gap', async () => {
    const writer = new CheckpointWriter();
    const [low, high] = ['a', 'b'].toSorted((a, b) => slotOf(a as StreamKey) - slotOf(b as StreamKey)) as [string, string];
    await expect(writer.add({ kind: 'refs', refs: [sampleColdRef()] })).rejects.toThrow('without a stream');
    await addEntry(writer, sample(high));
    await expect(addEntry(writer, sample(low))).rejects.toThrow('behind');
    await expect(addEntry(writer, sample(high))).rejects.toThrow('behind');
    await expect(writer.add({ kind: 'refs', refs: [sampleColdRef({ start: 3_001 as Offset, end: 3_002 as Offset })] })).rejects.toThrow('a gap');
    await expect(writer.add({ kind: 'refs', refs: [] })).rejects.toThrow('empty');
    await expect(writer.add({ kind: 'producers', producers: Array.from({ length: 257 }, () => ({ id: 'a', ...sampleProducer() })) })).rejects.toThrow(RangeError);
    expect(() => new CheckpointWriter({ partBytesMax: 40_000_000 })).toThrow(RangeError);
  });

  it('order keys by slot, then by bytes', () => {
    fc.assert(
      fc.property(anyKey, anyKey, (a, b) => {
        const bySlot = slotOf(a) - slotOf(b);
        expect(Math.sign(compareCheckpointKeys(a, b))).toBe(Math.sign(bySlot === 0 ? Buffer.compare(Buffer.from(a), Buffer.from(b)) : bySlot));
      }),
    );
  });

  it('sort very many keys as each pair of them, those of one slot too', () => {
    const sameSlot = (key: StreamKey): StreamKey[] => {
      const others: StreamKey[] = [];
      for (let n = 0; others.length < 2; n++) if (slotOf(`demo/${n}` as StreamKey) === slotOf(key)) others.push(`demo/${n}` as StreamKey);
      return others;
    };
    const crowd = (['demo/a', 'demo/b'] as StreamKey[]).flatMap(sameSlot);
    fc.assert(
      fc.property(fc.shuffledSubarray(crowd), fc.uniqueArray(anyKey, { maxLength: 20 }), (some, more) => {
        const keys = [...new Set([...some, ...more])];
        expect(sortedCheckpointKeys(keys)).toEqual(keys.toSorted(compareCheckpointKeys));
      }),
    );
  });
});

const anySubscriptions = fc
  .uniqueArray(fc.record({ id: fc.string({ unit: 'grapheme', maxLength: 10 }), config: anySubscriptionConfig, links: fc.array(anyNamedLink, { maxLength: 3 }), cursors: fc.array(anyLinkCursor, { maxLength: 4 }) }), { maxLength: 6, selector: ({ id }) => id })
  .map((all) => all.toSorted((a, b) => compareSubscriptionIds(a.id, b.id)).flatMap(({ id, config, links, cursors }) => [...subscriptionItems(id, config, links, cursors)]));

describe('subscriptions in a checkpoint', () => {
  const write = async (items: readonly CheckpointItem[]): Promise<CheckpointPart[]> => {
    const writer = new CheckpointWriter();
    for (const item of items) await writer.add(item);
    const last = await writer.finish();
    return last === null ? [] : [last];
  };
  const read = async (parts: readonly CheckpointPart[]): Promise<CheckpointItem[]> => {
    const items: CheckpointItem[] = [];
    for await (const item of readCheckpointParts(parts, async (info) => Buffer.concat(parts[info.part]?.body ?? []))) items.push(item);
    return items;
  };

  it('come back in order, before the streams, which count alone', async () => {
    await fc.assert(
      fc.asyncProperty(anySubscriptions, anyEntries, async (subscriptions, entries) => {
        const items = [...subscriptions, ...entries.flatMap((entry) => [...itemsOfEntry(entry)])];
        const parts = await write(items);
        expect(await read(parts)).toEqual(items);
        expect(parts.reduce((sum, part) => sum + part.streams, 0)).toBe(entries.length);
        expect(await entriesOf(parts)).toEqual(entries);
      }),
    );
  });

  it('I11 are cut into groups: 100,000 cursors of one', async () => {
    const cursors = Array.from({ length: 100_000 }, (_, n) => ({ incarnation: (2 ** 52 + n) as never, acked: n }));
    const items = [...subscriptionItems('s', sampleSubscription(), [], cursors)];
    const back = await read(await write(items));
    expect(back.flatMap((item) => (item.kind === 'cursors' ? item.cursors : []))).toEqual(cursors);
  });

  it('I9 refuse every cut and every flipped bit', async () => {
    const [part] = await write([...subscriptionItems('s', sampleSubscription(), [{ key: 'a' as StreamKey, incarnation: (2 ** 52) as never, acked: 4 }], [{ incarnation: (2 ** 52 + 1) as never, acked: -1 }])]);
    await expectEveryDamageRefusedLater(Buffer.concat(part?.body ?? []), (bytes) => drain(readCheckpointPart(bytes)));
  });

  it('are not written out of order, behind a stream, or links without a subscription', async () => {
    const of = (id: string): CheckpointItem => ({ kind: 'subscription', id, config: sampleSubscription() });
    await expect(write([of('b'), of('a')])).rejects.toThrow('behind');
    await expect(write([of('a'), of('a')])).rejects.toThrow('behind');
    await expect(write([...itemsOfEntry(sample('x')), of('a')])).rejects.toThrow('behind stream');
    await expect(write([{ kind: 'cursors', cursors: [{ incarnation: 1 as never, acked: 0 }] }])).rejects.toThrow('without a subscription');
    await expect(write([of('a'), { kind: 'links', links: [] }])).rejects.toThrow('empty');
    await expect(write([of('a'), { kind: 'refs', refs: [sampleColdRef()] }])).rejects.toThrow('without a stream');
  });
});

const anyPoint = fc.record({ session: fc.integer({ min: 0, max: 262_143 }), seq: fc.integer({ min: 0, max: 9_999_999_999 }) });
const anyManifest: fc.Arbitrary<CheckpointManifest> = fc
  .record({
    place: fc.record({ partition: fc.integer({ min: 0, max: 1_023 }), session: fc.integer({ min: 0, max: 262_143 }), seq: fc.integer({ min: 0, max: 9_999_999_999 }), attempt: fc.integer({ min: 0, max: 9_999 }), writtenAtMs: anyTimeMs }),
    parts: fc.array(fc.record({ bytes: anyCount, crc: anyCrc, streams: fc.nat(1_000_000) }), { maxLength: 4 }),
    objects: fc.array(fc.tuple(anyObjectInfo, fc.nat(1_000), anyPoint), { maxLength: 5 }),
    fences: fc.array(fc.record({ bucket: fc.string({ maxLength: 30 }), atMs: anyTimeMs }), { maxLength: 3 }),
  })
  .map(({ place, parts, objects, fences }) => ({
    ...place,
    streams: parts.reduce((sum, part) => sum + part.streams, 0),
    parts: parts.map((part, index) => ({ part: index, ...part })),
    objects: objects.map(([info, refs, point]) => ({ ...info, refs, droppedAt: refs === 0 ? point : null })),
    fences,
  }));

const manifest: CheckpointManifest = {
  partition: 0,
  session: 3,
  seq: 1_000,
  attempt: 2,
  writtenAtMs: 1_700_000_000_000,
  streams: 7,
  parts: [{ part: 0, bytes: 900, crc: 5, streams: 7 }],
  objects: [{ id: sampleColdRef().object, bytes: 9_000, crc: 7, refs: 0, droppedAt: { session: 3, seq: 900 } }],
  fences: [{ bucket: 'demo', atMs: 1_700_000_000_000 }],
};

describe('manifest of a checkpoint', () => {
  it('comes back as it was written', () => {
    fc.assert(fc.property(anyManifest, (value) => { expect(decodeCheckpointManifest(encodeCheckpointManifest(value))).toEqual(value); }));
  });

  it('I9 refuses every cut and every flipped bit', () => {
    expectEveryDamageRefused(encodeCheckpointManifest(manifest), decodeCheckpointManifest);
    const objects = Array.from({ length: 30 }, () => manifest.objects[0]!);
    expectEveryDamageRefused(encodeCheckpointManifest({ ...manifest, objects }), decodeCheckpointManifest);
  });

  it('holds a large table of objects in little space', () => {
    const objects = Array.from({ length: 50_000 }, (_, index) => ({ id: { ...sampleColdRef().object, plan: index }, bytes: 30_000_000, crc: index, refs: 9, droppedAt: null }));
    const bytes = encodeCheckpointManifest({ ...manifest, objects });
    expect(bytes.length).toBeLessThan(1_000_000);
    expect(decodeCheckpointManifest(bytes).objects.length).toBe(50_000);
  });

  it('I8 is not written with an object that is neither named nor dropped, or both, or with parts that do not add up', () => {
    const [object] = manifest.objects;
    for (const changes of [{ objects: [{ ...object!, refs: 1 }] }, { objects: [{ ...object!, droppedAt: null }] }, { streams: 8 }, { parts: [{ part: 1, bytes: 900, crc: 5, streams: 7 }] }]) expect(() => encodeCheckpointManifest({ ...manifest, ...changes })).toThrow('checkpoint');
    expect(() => encodeCheckpointManifest({ ...manifest, session: 262_144 })).toThrow(RangeError);
  });

  it('names its parts', () => {
    expect(checkpointPartKeys(manifest)).toEqual(['partitions/0000/checkpoint-parts/000003/0000001000-0002-00000']);
  });
});
