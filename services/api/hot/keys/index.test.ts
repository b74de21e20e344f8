import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../../../shared/protocol/types.js';
import { encodeStored } from '../../../../shared/storage/codec.js';
import { anyColdRef, anyCount, anyCrc, anyIncarnation, anyKey, anyObjectId, anyProducer, anySnapshot, anyStreamRecord, anyTimeMs } from '../../../../shared/storage/records/arbitrary.contract.js';
import { appliedRow, bodyRow, bucketFenceRow, dataRow, dirtyRow, doomedRow, evictRow, expiryRow, journalRow, markerRow, metaRow, nameRow, objectRow, partRow, producerRow, refRow, ROWS, snapshotRow, streamRow, unpinRow } from './index.js';
import { successor, within } from './layout.js';
import { rowContract, valueContract } from './row.contract.js';

const anySlot = fc.integer({ min: 0, max: 65_535 });
const anyPartition = fc.integer({ min: 0, max: 1_023 });
const anyInc: fc.Arbitrary<Incarnation> = anyIncarnation;
const anyOffset = anyCount.map((value) => value as Offset);
const anyU32 = anyCrc;
const anyBytes = fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes));
/** Well-formed texts of one or more bytes. */
const anyId = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
const nothing = fc.constant(undefined);

rowContract('meta', {
  kind: metaRow.kind,
  parts: fc.tuple(anyId),
  key: ([name]) => metaRow.key(name),
  decodeKey: (key) => [metaRow.decodeKey(key).name] as [string],
  ranges: [{ fixed: 0, range: () => metaRow.range() }],
  values: anyBytes,
  encode: metaRow.encode,
  decode: metaRow.decode,
});

rowContract('marker', {
  kind: markerRow.kind,
  parts: fc.tuple(fc.integer({ min: 0, max: 1_048_575 })),
  key: ([position]) => markerRow.key(position),
  decodeKey: (key) => [markerRow.decodeKey(key).position] as [number],
  ranges: [{ fixed: 0, range: () => markerRow.range() }],
  values: fc.record({ n: anyCount, crc: anyCrc, before: anyCrc }),
  encode: markerRow.encode,
  decode: markerRow.decode,
});
valueContract('marker', { values: fc.record({ n: anyCount, crc: anyCrc, before: anyCrc }), encode: markerRow.encode, decode: markerRow.decode });

const anyEntries = fc.array(fc.record({
  rowKey: fc.tuple(anySlot, anyKey).map(([slot, key]) => streamRow.key(slot, key)),
  incarnation: anyInc,
  state: fc.option(anyStreamRecord.map((state) => streamRow.encode(state))),
  producers: fc.array(fc.record({ id: anyId, value: anyProducer.map((producer) => producerRow.encode(producer)) }), { maxLength: 3 }),
  start: anyOffset,
  appends: fc.array(fc.record({ payload: fc.uint8Array({ minLength: 1, maxLength: 50 }).map((bytes) => Buffer.from(bytes)), atMs: fc.integer({ min: 0, max: 2 ** 42 }) }), { maxLength: 4 }),
}), { maxLength: 4 });
rowContract('journal', {
  kind: journalRow.kind,
  parts: fc.tuple(anyCount),
  key: ([batch]) => journalRow.key(batch),
  decodeKey: (key) => [journalRow.decodeKey(key).batch] as [number],
  ranges: [{ fixed: 0, range: () => journalRow.range() }],
  values: anyEntries,
  encode: journalRow.encode,
  decode: journalRow.decode,
});
valueContract('journal', { values: anyEntries, encode: journalRow.encode, decode: journalRow.decode });

rowContract('stream', {
  kind: streamRow.kind,
  parts: fc.tuple(anySlot, anyKey),
  key: ([slot, key]) => streamRow.key(slot, key),
  decodeKey: (row) => {
    const { slot, key } = streamRow.decodeKey(row);
    return [slot, key] as [number, StreamKey];
  },
  ranges: [
    { fixed: 0, range: () => streamRow.range() },
    { fixed: 1, range: ([slot]) => streamRow.range(slot, slot + 1) },
  ],
  values: anyStreamRecord,
  encode: streamRow.encode,
  decode: streamRow.decode,
});
valueContract('stream', { values: anyStreamRecord, encode: streamRow.encode, decode: streamRow.decode });

rowContract('name', {
  kind: nameRow.kind,
  parts: fc.tuple(anyKey),
  key: ([key]) => nameRow.key(key),
  decodeKey: (row) => [nameRow.decodeKey(row).key] as [StreamKey],
  ranges: [{ fixed: 0, range: () => nameRow.range() }],
  values: nothing,
  encode: () => nameRow.encode(),
  decode: (value) => nameRow.decode(value) ?? undefined,
});

for (const [name, row] of [['data', dataRow], ['reference', refRow]] as const) {
  rowContract<readonly [number, Incarnation, Offset], Buffer>(name, {
    kind: row.kind,
    parts: fc.tuple(anySlot, anyInc, anyOffset),
    key: ([slot, incarnation, end]) => row.key(slot, incarnation, end),
    decodeKey: (key) => {
      const { slot, incarnation, end } = row.decodeKey(key);
      return [slot, incarnation, end];
    },
    ranges: [
      { fixed: 0, range: () => row.slots() },
      { fixed: 1, range: ([slot]) => row.slots(slot, slot + 1) },
      { fixed: 2, range: ([slot, incarnation]) => row.range(slot, incarnation) },
      { fixed: 3, range: ([slot, incarnation, end]) => row.range(slot, incarnation, end, end + 1) },
    ],
    values: anyBytes,
    encode: dataRow.encode,
    decode: dataRow.decode,
  });
}

rowContract('reference value', {
  kind: refRow.kind,
  parts: fc.tuple(anySlot, anyInc, anyOffset),
  key: ([slot, incarnation, end]) => refRow.key(slot, incarnation, end),
  decodeKey: (key) => {
    const { slot, incarnation, end } = refRow.decodeKey(key);
    return [slot, incarnation, end] as [number, Incarnation, Offset];
  },
  ranges: [],
  values: anyColdRef,
  encode: refRow.encode,
  decode: refRow.decode,
});
valueContract('reference value', { values: anyColdRef, encode: refRow.encode, decode: refRow.decode });

rowContract('producer', {
  kind: producerRow.kind,
  parts: fc.tuple(anySlot, anyInc, anyId),
  key: ([slot, incarnation, id]) => producerRow.key(slot, incarnation, id),
  decodeKey: (key) => {
    const { slot, incarnation, id } = producerRow.decodeKey(key);
    return [slot, incarnation, id] as [number, Incarnation, string];
  },
  ranges: [{ fixed: 2, range: ([slot, incarnation]) => producerRow.range(slot, incarnation) }],
  values: anyProducer,
  encode: producerRow.encode,
  decode: producerRow.decode,
});
valueContract('producer', { values: anyProducer, encode: producerRow.encode, decode: producerRow.decode });

rowContract('snapshot', {
  kind: snapshotRow.kind,
  parts: fc.tuple(anySlot, anyInc, anyOffset),
  key: ([slot, incarnation, offset]) => snapshotRow.key(slot, incarnation, offset),
  decodeKey: (key) => {
    const { slot, incarnation, offset } = snapshotRow.decodeKey(key);
    return [slot, incarnation, offset] as [number, Incarnation, Offset];
  },
  ranges: [{ fixed: 2, range: ([slot, incarnation]) => snapshotRow.range(slot, incarnation) }],
  values: anySnapshot,
  encode: snapshotRow.encode,
  decode: snapshotRow.decode,
});
valueContract('snapshot', { values: anySnapshot, encode: snapshotRow.encode, decode: snapshotRow.decode });

rowContract('body', {
  kind: bodyRow.kind,
  parts: fc.tuple(anySlot, anyInc, anyOffset, anyU32),
  key: ([slot, incarnation, offset, n]) => bodyRow.key(slot, incarnation, offset, n),
  decodeKey: (key) => {
    const { slot, incarnation, offset, n } = bodyRow.decodeKey(key);
    return [slot, incarnation, offset, n] as [number, Incarnation, Offset, number];
  },
  ranges: [
    { fixed: 2, range: ([slot, incarnation]) => bodyRow.range(slot, incarnation) },
    { fixed: 3, range: ([slot, incarnation, offset]) => bodyRow.range(slot, incarnation, offset) },
  ],
  values: anyBytes,
  encode: bodyRow.encode,
  decode: bodyRow.decode,
});

rowContract('doomed', {
  kind: doomedRow.kind,
  parts: fc.tuple(anySlot, anyInc),
  key: ([slot, incarnation]) => doomedRow.key(slot, incarnation),
  decodeKey: (key) => {
    const { slot, incarnation } = doomedRow.decodeKey(key);
    return [slot, incarnation] as [number, Incarnation];
  },
  ranges: [
    { fixed: 0, range: () => doomedRow.range() },
    { fixed: 1, range: ([slot]) => doomedRow.range(slot, slot + 1) },
  ],
  values: fc.record({ key: anyKey }),
  encode: doomedRow.encode,
  decode: doomedRow.decode,
});
valueContract('doomed', { values: fc.record({ key: anyKey }), encode: doomedRow.encode, decode: doomedRow.decode });

rowContract('unpin', {
  kind: unpinRow.kind,
  parts: fc.tuple(anySlot, anyInc, anyInc),
  key: ([slot, source, fork]) => unpinRow.key(slot, source, fork),
  decodeKey: (key) => {
    const { slot, source, fork } = unpinRow.decodeKey(key);
    return [slot, source, fork] as [number, Incarnation, Incarnation];
  },
  ranges: [{ fixed: 0, range: () => unpinRow.range() }],
  values: fc.record({ key: anyKey }),
  encode: unpinRow.encode,
  decode: unpinRow.decode,
});
valueContract('unpin', { values: fc.record({ key: anyKey }), encode: unpinRow.encode, decode: unpinRow.decode });

const anyPart = fc.record({ key: anyKey, bytes: anyCount, crc: anyCrc, stagedAtMs: anyTimeMs });
rowContract('part', {
  kind: partRow.kind,
  parts: fc.tuple(anySlot, anyInc, anyId),
  key: ([slot, incarnation, id]) => partRow.key(slot, incarnation, id),
  decodeKey: (key) => {
    const { slot, incarnation, id } = partRow.decodeKey(key);
    return [slot, incarnation, id] as [number, Incarnation, string];
  },
  ranges: [{ fixed: 0, range: () => partRow.range() }],
  values: anyPart,
  encode: partRow.encode,
  decode: partRow.decode,
});
valueContract('part', { values: anyPart, encode: partRow.encode, decode: partRow.decode });

rowContract('expiry', {
  kind: expiryRow.kind,
  parts: fc.tuple(anyPartition, anyTimeMs, anySlot, anyKey),
  key: ([partition, atMs, slot, key]) => expiryRow.key(partition, atMs, slot, key),
  decodeKey: (row) => {
    const { partition, atMs, slot, key } = expiryRow.decodeKey(row);
    return [partition, atMs, slot, key] as [number, number, number, StreamKey];
  },
  ranges: [{ fixed: 1, range: ([partition]) => expiryRow.range(partition) }],
  values: nothing,
  encode: () => expiryRow.encode(),
  decode: (value) => expiryRow.decode(value) ?? undefined,
});

rowContract('dirty', {
  kind: dirtyRow.kind,
  parts: fc.tuple(anyPartition, anySlot, anyInc),
  key: ([partition, slot, incarnation]) => dirtyRow.key(partition, slot, incarnation),
  decodeKey: (key) => {
    const { partition, slot, incarnation } = dirtyRow.decodeKey(key);
    return [partition, slot, incarnation] as [number, number, Incarnation];
  },
  ranges: [{ fixed: 1, range: ([partition]) => dirtyRow.range(partition) }],
  values: fc.record({ key: anyKey, sinceMs: anyTimeMs, deleted: fc.boolean() }),
  encode: dirtyRow.encode,
  decode: dirtyRow.decode,
});
valueContract('dirty', { values: fc.record({ key: anyKey, sinceMs: anyTimeMs, deleted: fc.boolean() }), encode: dirtyRow.encode, decode: dirtyRow.decode });

rowContract('eviction', {
  kind: evictRow.kind,
  parts: fc.tuple(anyPartition, anyTimeMs, anySlot, anyInc),
  key: ([partition, dueMs, slot, incarnation]) => evictRow.key(partition, dueMs, slot, incarnation),
  decodeKey: (key) => {
    const { partition, dueMs, slot, incarnation } = evictRow.decodeKey(key);
    return [partition, dueMs, slot, incarnation] as [number, number, number, Incarnation];
  },
  ranges: [{ fixed: 1, range: ([partition]) => evictRow.range(partition) }],
  values: fc.record({ key: anyKey, upTo: anyOffset }),
  encode: evictRow.encode,
  decode: evictRow.decode,
});
valueContract('eviction', { values: fc.record({ key: anyKey, upTo: anyOffset }), encode: evictRow.encode, decode: evictRow.decode });

const OBJECT_KINDS = ['segment', 'snapshot', 'merged'] as const;

rowContract('object', {
  kind: objectRow.kind,
  parts: anyObjectId.map((id) => [id.partition, id.session, id.plan, id.attempt, id.part, OBJECT_KINDS.indexOf(id.kind)] as [number, number, number, number, number, number]),
  key: ([partition, session, plan, attempt, part, kind]) => objectRow.key({ kind: OBJECT_KINDS[kind] ?? 'segment', partition, session, plan, attempt, part }),
  decodeKey: (key) => {
    const id = objectRow.decodeKey(key);
    return [id.partition, id.session, id.plan, id.attempt, id.part, OBJECT_KINDS.indexOf(id.kind)] as [number, number, number, number, number, number];
  },
  ranges: [{ fixed: 1, range: ([partition]) => objectRow.range(partition) }],
  values: fc.record({ bytes: anyCount, crc: anyCrc, refs: anyCount, live: anyCount, total: anyCount }),
  encode: objectRow.encode,
  decode: objectRow.decode,
});
valueContract('object', { values: fc.record({ bytes: anyCount, crc: anyCrc, refs: anyCount, live: anyCount, total: anyCount }), encode: objectRow.encode, decode: objectRow.decode });

it('object: a row of version 1 says nothing of how much is named', () => {
  const row = encodeStored(1, null, (writer) => {
    writer.varint(9_000);
    writer.u32(7);
    writer.varint(3);
  });
  expect(objectRow.decode(row)).toEqual({ bytes: 9_000, crc: 7, refs: 3, live: 0, total: 0 });
});

rowContract('applied', {
  kind: appliedRow.kind,
  parts: fc.tuple(anyPartition),
  key: ([partition]) => appliedRow.key(partition),
  decodeKey: (key) => [appliedRow.decodeKey(key).partition] as [number],
  ranges: [{ fixed: 0, range: () => appliedRow.range() }],
  values: fc.record({ session: anyCount, seq: anyCount, slice: anyCount }),
  encode: appliedRow.encode,
  decode: appliedRow.decode,
});
valueContract('applied', { values: fc.record({ session: anyCount, seq: anyCount, slice: anyCount }), encode: appliedRow.encode, decode: appliedRow.decode });

rowContract('bucket fence', {
  kind: bucketFenceRow.kind,
  parts: fc.tuple(anyId),
  key: ([bucket]) => bucketFenceRow.key(bucket),
  decodeKey: (key) => [bucketFenceRow.decodeKey(key).bucket] as [string],
  ranges: [{ fixed: 0, range: () => bucketFenceRow.range() }],
  values: fc.record({ atMs: anyTimeMs }),
  encode: bucketFenceRow.encode,
  decode: bucketFenceRow.decode,
});
valueContract('bucket fence', { values: fc.record({ atMs: anyTimeMs }), encode: bucketFenceRow.encode, decode: bucketFenceRow.decode });

describe('the catalogue of rows', () => {
  it('knows every kind byte once', () => {
    const kinds = Object.values(ROWS).map((row) => row.kind);
    expect(new Set(kinds).size).toBe(kinds.length);
  });

  it('has the layout that is stored: it may not change', () => {
    const incarnation = 0x10_0203_0405_0607 as Incarnation;
    expect(dataRow.key(0xabcd, incarnation, 0x01_0000_0002 as Offset).toString('hex')).toBe('12abcd00100203040506070000000100000002');
    expect(streamRow.key(1, 'a/b' as StreamKey).toString('hex')).toBe('100001612f62');
    expect(expiryRow.key(2, 3, 4, 'k' as StreamKey).toString('hex')).toBe('200002000000000000000300046b');
    expect(markerRow.key(1_048_577).toString('hex')).toBe('0200000001');
    expect(objectRow.key({ kind: 'merged', partition: 1, session: 2, plan: 3, attempt: 4, part: 5 }).toString('hex')).toBe('24000100000002000000000000000300000004' + '0000000502');
  });

  it('finds the value that holds an offset by one seek', () => {
    const incarnation = 2 ** 52 as Incarnation;
    const { from, to } = dataRow.covering(7, incarnation, 100 as Offset, 200 as Offset);
    const inside = (end: number): boolean => Buffer.compare(dataRow.key(7, incarnation, end as Offset), from) >= 0 && Buffer.compare(dataRow.key(7, incarnation, end as Offset), to) < 0;
    expect([100, 101, 200, 201, 200 + 262_143, 200 + 262_144].map(inside)).toEqual([false, true, true, true, true, false]);
    expect(() => dataRow.covering(7, incarnation, 0 as Offset, Number.MAX_SAFE_INTEGER as Offset)).not.toThrow();
  });

  it('lists names by prefix and after a name', () => {
    const names = ['a', 'b', 'b/', 'b/a', 'b/b', 'ba', 'c', 'b\u{10ffff}'] as StreamKey[];
    const listed = (prefix: string, after?: string): string[] => {
      const { from, to } = nameRow.range(prefix, after);
      return names.filter((name) => Buffer.compare(nameRow.key(name), from) >= 0 && Buffer.compare(nameRow.key(name), to) < 0);
    };
    expect(listed('b')).toEqual(['b', 'b/', 'b/a', 'b/b', 'ba', 'b\u{10ffff}']);
    expect(listed('b/')).toEqual(['b/', 'b/a', 'b/b']);
    expect(listed('b/', 'b/a')).toEqual(['b/b']);
    expect(listed('b/', 'a')).toEqual(['b/', 'b/a', 'b/b']);
    expect(listed('b/', 'c')).toEqual([]);
    expect(listed('')).toEqual(names);
  });

  it('lists what is due before a time', () => {
    const due = (atMs: number, beforeMs: number): boolean => {
      const { from, to } = expiryRow.range(3, beforeMs);
      const key = expiryRow.key(3, atMs, 65_535, 'k' as StreamKey);
      return Buffer.compare(key, from) >= 0 && Buffer.compare(key, to) < 0;
    };
    expect([due(9, 10), due(10, 10), due(11, 10), due(-5, 10), due(-5, 1)]).toEqual([true, false, false, true, true]);
  });

  it('refuses numbers that do not fit', () => {
    const incarnation = 2 ** 52 as Incarnation;
    expect(() => dataRow.key(65_536, incarnation, 0 as Offset)).toThrow(RangeError);
    expect(() => dataRow.key(-1, incarnation, 0 as Offset)).toThrow(RangeError);
    expect(() => dataRow.key(0, incarnation, -1 as Offset)).toThrow(RangeError);
    expect(() => dataRow.key(0, incarnation, 1.5 as Offset)).toThrow(RangeError);
    expect(() => objectRow.key({ kind: 'segment', partition: 0, session: 2 ** 32, plan: 0, attempt: 0, part: 0 })).toThrow(RangeError);
    expect(() => bodyRow.encode(Buffer.alloc(262_145))).toThrow(RangeError);
  });

  it('makes the next prefix over bytes of 0xff', () => {
    expect(successor(Buffer.from([1, 255, 255]))).toEqual(Buffer.from([2]));
    expect(within(Buffer.from([1, 2]))).toEqual({ from: Buffer.from([1, 2]), to: Buffer.from([1, 3]) });
    expect(() => successor(Buffer.from([255]))).toThrow(Error);
  });
});
