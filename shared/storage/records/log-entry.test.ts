import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';
import { BadBytes, encodeStored } from '../codec.js';
import { expectEveryDamageRefused } from '../decoder.contract.js';
import { anyBlockRef, anyColdRef, anyCrc, anyIncarnation, anyKey, anyLinkCursor, anyNamedLink, anyNamedProducer, anyObjectId, anyObjectInfo, anySnapshot, anyStreamRecord, anySubscriptionConfig, anyText, anyTimeMs, sampleColdRef, sampleProducer, sampleStreamRecord, sampleSubscription } from './arbitrary.contract.js';
import { decodeLogEntry, encodeLogEntry } from './log-entry.js';
import type { ColdRef, CompactedRange, LogDelta, LogEntry, LogRecord } from './types.js';

/** References without a gap, from whatever each of them says. */
const anyRefs = fc.tuple(fc.nat(1_000_000), fc.array(fc.tuple(anyColdRef, fc.integer({ min: 1, max: 500_000 })), { maxLength: 5 })).map(([from, shapes]) => {
  let start = from;
  return shapes.map(([ref, bytes]): ColdRef => ({ ...ref, start: start as Offset, end: (start += bytes) as Offset }));
});

const anyCompactedRange = fc.tuple(anyRefs.filter((refs) => refs.length > 0), fc.integer({ min: 1, max: 100_000 }), anyCrc)
  .map(([refs, count, sum]): CompactedRange => ({ from: (refs[0] as ColdRef).start, to: (refs.at(-1) as ColdRef).end, was: { refs: count, sum }, refs }));

const anyDelta: fc.Arbitrary<LogDelta> = fc.oneof(
  fc.record({ kind: fc.constant('seal' as const), key: anyKey, state: anyStreamRecord, producers: fc.array(anyNamedProducer, { maxLength: 3 }), refs: anyRefs }),
  fc.record({ kind: fc.constant('offload' as const), key: anyKey, incarnation: anyIncarnation, snapshot: anySnapshot }),
  fc.record({ kind: fc.constant('delete' as const), key: anyKey, incarnation: anyIncarnation }),
  fc.record({ kind: fc.constant('purge' as const), bucket: anyText }),
  fc.record({ kind: fc.constant('collect' as const), objects: fc.array(anyObjectId, { maxLength: 5 }) }),
  fc.record({ kind: fc.constant('compact' as const), key: anyKey, incarnation: anyIncarnation, ranges: fc.array(anyCompactedRange, { maxLength: 3 }), snapshot: fc.option(fc.record({ offset: fc.nat().map((at) => at as Offset), was: anyBlockRef, ref: anyBlockRef })) }),
  fc.record({
    kind: fc.constant('subscription' as const), id: anyText, config: anySubscriptionConfig, whole: fc.boolean(), links: fc.array(anyNamedLink, { maxLength: 3 }), unlinked: fc.array(anyKey, { maxLength: 3 }),
    cursors: fc.array(anyLinkCursor, { maxLength: 5 }),
  }),
  fc.record({ kind: fc.constant('unsubscribe' as const), id: anyText }),
);

const position = { partition: fc.integer({ min: 0, max: 1_023 }), session: fc.integer({ min: 0, max: 262_143 }), seq: fc.integer({ min: 0, max: 9_999_999_999 }) };
const anyEntry: fc.Arbitrary<LogEntry> = fc.oneof(
  fc.record({ kind: fc.constant('fence' as const), ...position, fencedBy: fc.integer({ min: 0, max: 262_143 }) }),
  fc.record({
    kind: fc.constant('record' as const),
    ...position,
    plan: fc.option(fc.integer({ min: 0, max: 9_999_999_999 })),
    writtenAtMs: anyTimeMs,
    objects: fc.array(anyObjectInfo, { maxLength: 4 }),
    deltas: fc.array(anyDelta, { maxLength: 6 }),
  }),
);

const record = (deltas: readonly LogDelta[], changes: Partial<LogRecord> = {}): LogRecord => ({
  kind: 'record',
  partition: 0,
  session: 3,
  seq: 8,
  plan: 12,
  writtenAtMs: 1_700_000_000_000,
  objects: [{ id: sampleColdRef().object, bytes: 9_000, crc: 7 }],
  deltas,
  ...changes,
});

const key = 'demo/hello' as StreamKey;
const incarnation = (2 ** 52 + 5) as Incarnation;
const seal = { kind: 'seal', key, state: sampleStreamRecord(), producers: [{ id: 'meter', ...sampleProducer() }], refs: [sampleColdRef()] } as const;

describe('log entry', () => {
  it('gives a change a number of its own for ever', () => {
    const first = (delta: LogDelta): number => encodeLogEntry(record([delta], { objects: [], plan: null, writtenAtMs: 0 }))[12]!;
    const config = sampleSubscription({ pattern: null, webhookUrl: null, origin: '' });
    expect(first({ kind: 'purge', bucket: '' })).toBe(3);
    expect(first({ kind: 'subscription', id: '', config, whole: true, links: [], unlinked: [], cursors: [] })).toBe(7);
    expect(first({ kind: 'unsubscribe', id: '' })).toBe(8);
  });

  it('I10 comes back as it was written', () => {
    fc.assert(fc.property(anyEntry, (entry) => { expect(decodeLogEntry(encodeLogEntry(entry))).toEqual(entry); }));
  });

  it('I9 refuses every cut and every flipped bit, compressed or not', () => {
    expectEveryDamageRefused(encodeLogEntry({ kind: 'fence', partition: 0, session: 3, seq: 8, fencedBy: 4 }), decodeLogEntry);
    expectEveryDamageRefused(encodeLogEntry(record([seal, { kind: 'delete', key, incarnation }])), decodeLogEntry);
    const subscription = { kind: 'subscription', id: 's', config: sampleSubscription(), whole: true, links: [{ key, incarnation, acked: 7 }], unlinked: [key], cursors: [{ incarnation, acked: -1 }] } as const;
    expectEveryDamageRefused(encodeLogEntry(record([subscription, { kind: 'unsubscribe', id: 't' }])), decodeLogEntry);
    expectEveryDamageRefused(encodeLogEntry(record(Array.from({ length: 40 }, () => ({ kind: 'delete', key, incarnation }) as const))), decodeLogEntry);
  });

  it('compresses a large body', () => {
    const deltas = Array.from({ length: 2_000 }, (_, index) => ({ ...seal, key: `demo/stream-${index}` as StreamKey }));
    const bytes = encodeLogEntry(record(deltas));
    expect(bytes.length).toBeLessThan(2_000 * 40);
    expect(decodeLogEntry(bytes)).toEqual(record(deltas));
  });

  it('I3 neither writes nor reads references with a gap', () => {
    const gap = { ...seal, refs: [sampleColdRef(), sampleColdRef({ start: 3_001 as Offset, end: 4_000 as Offset })] };
    expect(() => encodeLogEntry(record([gap]))).toThrow('a gap before the cold reference at 3001');
  });

  it('refuses positions beyond their digits, unknown kinds and lengths that are not checked', () => {
    expect(() => encodeLogEntry(record([], { session: 262_144 }))).toThrow(RangeError);
    expect(() => encodeLogEntry({ kind: 'fence', partition: 0, session: 1, seq: 10_000_000_000, fencedBy: 2 })).toThrow(RangeError);
    const made = (...numbers: number[]): Buffer => encodeStored(1, null, (writer) => numbers.forEach((value) => writer.varint(value)));
    const head = [0, 0, 0, 3, 8];
    expect(() => decodeLogEntry(made(2, 0, 0, 3, 8, 0))).toThrow('unknown kind 2');
    expect(() => decodeLogEntry(made(1, 1, 0, 3, 8, 4))).toThrow('compressed fence');
    expect(() => decodeLogEntry(made(0, 2, 0, 3, 8, 0, 0))).toThrow('unknown compression');
    expect(() => decodeLogEntry(made(...head, 5, 0))).toThrow('5 expected');
    expect(() => decodeLogEntry(made(0, 1, 0, 3, 8, 100_000_000, 0))).toThrow(BadBytes);
    expect(() => decodeLogEntry(made(...head, 4, 4, 0, 0, 0, 1_000))).toThrow(BadBytes);
    expect(() => decodeLogEntry(made(...head, 3_000_000_000, 0))).toThrow('at most');
    // No plan, written at 0, no objects, and 127 changes in nothing.
    expect(() => decodeLogEntry(made(...head, 4, 4, 0, 0, 0, 127))).toThrow('127 items in 0 bytes');
    expect(() => decodeLogEntry(made(...head, 6, 6, 0, 0, 0, 1, 9, 0))).toThrow('unknown change');
  });
});
