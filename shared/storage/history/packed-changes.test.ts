import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';
import { anyColdRef, anyIncarnation, anyKey, anyNamedProducer, anySnapshot, anyStreamRecord, sampleColdRef, sampleStreamRecord } from '../records/arbitrary.contract.js';
import { decodeLogEntry, encodeLogEntry } from '../records/log-entry.js';
import { refsSum } from '../records/cold-ref.js';
import type { ColdRef, LogDelta } from '../records/types.js';
import type { StreamDelta } from './key-change.js';
import { LogOverlay } from './log-overlay.js';
import { PackedChanges, type PackedChange } from './packed-changes.js';

const anyDelta: fc.Arbitrary<StreamDelta> = fc.oneof(
  fc.record({ kind: fc.constant('seal' as const), key: anyKey, state: anyStreamRecord, producers: fc.array(anyNamedProducer, { maxLength: 2 }), refs: fc.array(anyColdRef, { maxLength: 1 }) }),
  fc.record({ kind: fc.constant('offload' as const), key: anyKey, incarnation: anyIncarnation, snapshot: anySnapshot }),
  fc.record({ kind: fc.constant('delete' as const), key: anyKey, incarnation: anyIncarnation }),
  fc.record({ kind: fc.constant('compact' as const), key: anyKey, incarnation: anyIncarnation, ranges: fc.array(anyColdRef.map((ref) => ({ from: ref.start, to: ref.end, was: { refs: 2, sum: 7 }, refs: [ref] })), { maxLength: 2 }), snapshot: fc.constant(null) }),
);

function refsOver(sizes: number): ColdRef[] {
  return Array.from({ length: sizes }, (_, n) => sampleColdRef({ start: n as Offset, end: (n + 1) as Offset }));
}

/** Bytes that a process holds, garbage left out. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

describe('changes of streams, packed', () => {
  it('come back as they were, each stream with its own, in the order in which they came', () => {
    fc.assert(fc.property(fc.array(fc.tuple(anyDelta, fc.boolean()), { maxLength: 30 }), fc.array(anyKey, { minLength: 1, maxLength: 4 }), (changes, keys) => {
      const packed = new PackedChanges();
      const expected = new Map<StreamKey, PackedChange[]>();
      for (const [n, [any, renews]] of changes.entries()) {
        const delta = { ...any, key: keys[n % keys.length] as StreamKey };
        packed.add(delta, renews);
        expected.set(delta.key, [...(expected.get(delta.key) ?? []), { delta, renews }]);
      }
      expect(new Map([...packed.keys()].map((key) => [key, packed.of(key)]))).toEqual(expected);
      expect(packed.size).toBe(expected.size);
      expect(packed.of('no such' as StreamKey)).toBe(null);
    }));
  });

  it('lie in many pieces, a change that is longer than one among them', () => {
    const packed = new PackedChanges();
    const expected = [30_000, 60_000, 1, 100_000, 10].map((refs): PackedChange => ({ renews: false, delta: { kind: 'seal', key: 'demo/a' as StreamKey, state: sampleStreamRecord(), producers: [], refs: refsOver(refs) } }));
    for (const { delta, renews } of expected) packed.add(delta, renews);
    expect(packed.of('demo/a' as StreamKey)).toEqual(expected);
  });

  it('I11 of very many streams that were sealed and compacted take 512 bytes each at most', () => {
    const [records, perRecord] = [20, 2_000];
    const overlay = new LogOverlay();
    const keyOf = (n: number): StreamKey => `bench/r${n}` as StreamKey;
    const incarnationOf = (n: number): Incarnation => (2 ** 52 + n * 7_919) as Incarnation;
    const refOf = (n: number): ColdRef => sampleColdRef({ frameAt: n * 100, start: 0 as Offset, end: 256 as Offset });
    // Through the stored form: what is measured is what a restore has.
    const put = (first: number, make: (n: number) => LogDelta): void => {
      const deltas = Array.from({ length: perRecord }, (_, n) => make(first + n));
      const entry = decodeLogEntry(encodeLogEntry({ kind: 'record', partition: 0, session: 1, seq: 1, plan: 1, writtenAtMs: 1, objects: [], deltas }));
      if (entry.kind === 'record') overlay.add(entry);
    };
    const before = heldBytes();
    for (let at = 0; at < records; at++) {
      put(at * perRecord, (n) => ({ kind: 'seal', key: keyOf(n), state: sampleStreamRecord({ incarnation: incarnationOf(n), closed: false, closedBy: null, snapshot: null, lastSeq: null }), producers: [], refs: [refOf(n)] }));
      put(at * perRecord, (n) => ({ kind: 'compact', key: keyOf(n), incarnation: incarnationOf(n), ranges: [{ from: 0 as Offset, to: 256 as Offset, was: { refs: 1, sum: refsSum([refOf(n)]) }, refs: [refOf(n + 1)] }], snapshot: null }));
    }
    const each = (heldBytes() - before) / overlay.streams;
    expect([overlay.streams, overlay.change(keyOf(7))?.life?.refs.all()]).toEqual([records * perRecord, [refOf(8)]]);
    expect(each).toBeGreaterThan(50);
    expect(each).toBeLessThan(512);
  });
});
