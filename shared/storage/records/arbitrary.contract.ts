/**
 * Records of every shape for property tests of whatever stores or carries them.
 *
 * Owns: fast-check generators that yield only sound records (I1 holds in each), borders included.
 */
import fc from 'fast-check';
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';
import type { BlockRef, ColdRef, ForkOrigin, LinkCursor, NamedLink, NamedProducer, ObjectId, ObjectInfo, ProducerRecord, SnapshotRecord, StreamRecord, SubscriptionConfig } from './types.js';

export const anyCount = fc.oneof(fc.nat(300), fc.maxSafeNat(), fc.constant(Number.MAX_SAFE_INTEGER));
export const anyTimeMs = fc.integer({ min: 0, max: 8_640_000_000_000_000 });
export const anyCrc = fc.integer({ min: 0, max: 0xffff_ffff });
export const anyText = fc.oneof(fc.string({ maxLength: 40 }), fc.string({ unit: 'grapheme', maxLength: 20 }));
export const anyDigest = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex'));
export const anyIncarnation = fc.oneof(fc.integer({ min: 2 ** 52, max: Number.MAX_SAFE_INTEGER }), fc.constantFrom(2 ** 52, Number.MAX_SAFE_INTEGER)).map((value) => value as Incarnation);
export const anyKey = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).map((text) => text as StreamKey);

export const anyObjectId: fc.Arbitrary<ObjectId> = fc.record({
  kind: fc.constantFrom('segment' as const, 'snapshot' as const, 'merged' as const),
  partition: fc.integer({ min: 0, max: 1_023 }),
  session: fc.integer({ min: 0, max: 262_143 }),
  plan: fc.integer({ min: 0, max: 9_999_999_999 }),
  attempt: fc.integer({ min: 0, max: 9_999 }),
  part: fc.integer({ min: 0, max: 99_999 }),
});

export const anyObjectInfo: fc.Arbitrary<ObjectInfo> = fc.record({ id: anyObjectId, bytes: anyCount, crc: anyCrc });

export const anyBlockRef: fc.Arbitrary<BlockRef> = fc.record({
  object: anyObjectId,
  frameAt: anyCount,
  frameBytes: anyCrc,
  frameCrc: anyCrc,
  blockAt: anyCrc,
  blockBytes: anyCrc,
});

/** Two positions, the second not before the first. */
const anySpan = fc.tuple(anyCount, anyCount).map(([a, b]) => ({ low: Math.min(a, b) as Offset, high: Math.max(a, b) as Offset }));

export const anyColdRef: fc.Arbitrary<ColdRef> = fc
  .record({ ref: anyBlockRef, span: anySpan.filter(({ low, high }) => low < high) })
  .map(({ ref, span }) => ({ ...ref, start: span.low, end: span.high }));

export const anySnapshot: fc.Arbitrary<SnapshotRecord> = fc.record({
  offset: anyCount.map((value) => value as Offset),
  contentType: anyText,
  digest: anyDigest,
  bytes: anyCount,
  crc: anyCrc,
  publishedAtMs: anyTimeMs,
  hot: fc.oneof(fc.constant(null), fc.constant({ at: 'inline' as const }), fc.record({ at: fc.constant('staging' as const), file: anyText })),
  cold: fc.oneof(
    fc.constant(null),
    fc.record({ at: fc.constant('block' as const), ref: anyBlockRef }),
    fc.record({ at: fc.constant('object' as const), ref: fc.record({ object: anyObjectId, bytes: anyCount, crc: anyCrc }) }),
  ),
});

export const anyProducer: fc.Arbitrary<ProducerRecord> = fc
  .record({
    base: fc.record({ epoch: anyCount, lastSeq: anyCount, lastClosed: fc.boolean(), lastAtMs: anyTimeMs, change: anyCount }),
    span: anySpan,
    digests: fc.oneof(
      fc.tuple(fc.option(anyDigest), fc.option(anyDigest)),
      anyDigest.map((digest): [string, string] => [digest, digest]),
    ),
    replaced: fc.oneof(fc.constant([-1, -1] as const), fc.tuple(anyCount, fc.constant(-1)), fc.tuple(anyCount, anyCount)),
  })
  .map(({ base, span, digests, replaced }) => ({
    ...base,
    firstDigest: digests[0],
    lastDigest: digests[1],
    lastStart: span.low,
    lastEnd: span.high,
    closedEpoch: replaced[0],
    closedSeq: replaced[1],
  }));

export const anyNamedProducer: fc.Arbitrary<NamedProducer> = fc.tuple(anyText, anyProducer).map(([id, record]) => ({ id, ...record }));

export const anyStreamRecord: fc.Arbitrary<StreamRecord> = fc
  .record({
    incarnation: anyIncarnation,
    contentType: anyText,
    times: fc.tuple(anyTimeMs, anyTimeMs),
    tail: anyCount,
    below: fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true })),
    closing: fc.oneof(fc.constant(null), fc.constant('unkeyed' as const), fc.record({ producerId: anyText, epoch: anyCount, seq: anyCount })),
    lifetime: fc.oneof(fc.constant(null), fc.stringMatching(/^[1-9][0-9]{0,30}$/), fc.integer({ min: -1_000_000_000_000_000, max: 1_000_000_000_000_000 })),
    lastSeq: fc.option(anyText),
    producers: anyCount,
    producerFloor: fc.oneof(fc.constant(-1), anyCount),
    snapshot: fc.option(anySnapshot),
    changes: fc.tuple(anyCount, anyCount),
    forks: fc.oneof(fc.constant(0), anyCount),
    softDeleted: fc.boolean(),
    origin: fc.option(fc.record({ key: anyText, incarnation: anyIncarnation, offset: anyCount, sub: anyCount, share: fc.double({ min: 0, max: 1, noNaN: true }), depth: anyCount })),
  })
  .map(({ times, tail, below, closing, lifetime, changes, origin, softDeleted, ...rest }) => {
    const part = (share: number): number => Math.min(tail, Math.floor(tail * share));
    const retained = part(below[0]);
    const sealed = part(below[1]);
    const hotStart = Math.floor(Math.max(retained, sealed) * below[2]);
    return {
      ...rest,
      softDeleted: softDeleted && rest.forks > 0,
      origin: origin === null ? null : forkOf(origin, Math.min(sealed, hotStart)),
      createdAtMs: times[0],
      touchedAtMs: times[1],
      tail: tail as Offset,
      retained: retained as Offset,
      sealed: sealed as Offset,
      hotStart: hotStart as Offset,
      closed: closing !== null,
      closedBy: closing === 'unkeyed' ? null : closing,
      ttl: typeof lifetime === 'string' ? lifetime : null,
      expiresAtMs: typeof lifetime === 'number' ? lifetime : null,
      change: changes[0],
      loggedChange: changes[1],
    };
  });

function forkOf({ share, ...asked }: { readonly key: string; readonly incarnation: Incarnation; readonly offset: number; readonly sub: number; readonly share: number; readonly depth: number }, below: number): ForkOrigin {
  return { ...asked, key: asked.key as StreamKey, offset: asked.offset as Offset, at: Math.floor(below * share) as Offset };
}

const anyAcked = fc.integer({ min: -1, max: 2 ** 50 });
export const anyLinkCursor: fc.Arbitrary<LinkCursor> = fc.record({ incarnation: anyIncarnation, acked: anyAcked });
export const anyNamedLink: fc.Arbitrary<NamedLink> = fc.record({ key: anyKey, incarnation: fc.oneof(anyIncarnation, fc.constant(0 as Incarnation)), acked: anyAcked });
export const anySubscriptionConfig: fc.Arbitrary<SubscriptionConfig> = fc.record({
  type: fc.constantFrom('webhook' as const, 'pull-wake' as const), pattern: fc.option(anyText), webhookUrl: fc.option(anyText), wakeStream: fc.option(anyKey), leaseTtlMs: anyCount, description: fc.option(anyText),
  digest: anyDigest, createdAtMs: anyTimeMs, origin: anyText,
});

/** A subscription as a test wants one. */
export function sampleSubscription(changes: Partial<SubscriptionConfig> = {}): SubscriptionConfig {
  return {
    type: 'webhook', pattern: 'demo/**', webhookUrl: 'https://example.com/hook', wakeStream: null, leaseTtlMs: 30_000, description: null, digest: 'cd'.repeat(32), createdAtMs: 1_700_000_000_000,
    origin: 'http://127.0.0.1:4437', ...changes,
  };
}

/** Where a fork of a sample began. */
export const sampleOrigin: ForkOrigin = { key: 'demo/source' as StreamKey, incarnation: (2 ** 52 + 78) as Incarnation, offset: 40 as Offset, sub: 2, at: 55 as Offset, depth: 1 };

/** A record with everything in it, for tests that want one sample. */
export function sampleStreamRecord(changes: Partial<StreamRecord> = {}): StreamRecord {
  return {
    incarnation: (2 ** 52 + 77) as Incarnation,
    contentType: 'application/json',
    createdAtMs: 1_700_000_000_000,
    tail: 5_000 as Offset,
    retained: 100 as Offset,
    sealed: 4_000 as Offset,
    hotStart: 3_000 as Offset,
    closed: true,
    closedBy: { producerId: 'meter-7', epoch: 2, seq: 9 },
    ttl: '3600',
    expiresAtMs: null,
    touchedAtMs: 1_700_000_001_000,
    lastSeq: '2024-01-01',
    producers: 1,
    producerFloor: 4,
    snapshot: {
      offset: 2_000 as Offset,
      contentType: 'application/json',
      digest: 'ab'.repeat(32),
      bytes: 12,
      crc: 0xdead_beef,
      publishedAtMs: 1_700_000_000_500,
      hot: { at: 'staging', file: 'upload-3' },
      cold: { at: 'object', ref: { object: { kind: 'snapshot', partition: 0, session: 3, plan: 8, attempt: 1, part: 1 }, bytes: 12, crc: 0xdead_beef } },
    },
    change: 900,
    loggedChange: 850,
    origin: null,
    forks: 0,
    softDeleted: false,
    ...changes,
  };
}

export function sampleProducer(changes: Partial<ProducerRecord> = {}): ProducerRecord {
  return {
    epoch: 3,
    lastSeq: 17,
    firstDigest: '01'.repeat(32),
    lastDigest: '02'.repeat(32),
    lastStart: 4_000 as Offset,
    lastEnd: 4_100 as Offset,
    lastClosed: false,
    closedEpoch: 2,
    closedSeq: 5,
    lastAtMs: 1_700_000_000_900,
    change: 900,
    ...changes,
  };
}

export function sampleColdRef(changes: Partial<ColdRef> = {}): ColdRef {
  return {
    object: { kind: 'segment', partition: 0, session: 3, plan: 12, attempt: 1, part: 2 },
    frameAt: 131_100,
    frameBytes: 23_456,
    frameCrc: 0x1234_5678,
    blockAt: 300,
    blockBytes: 2_100,
    start: 1_000 as Offset,
    end: 3_000 as Offset,
    ...changes,
  };
}
