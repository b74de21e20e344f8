import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ProducerRecord } from '../storage/records/types.js';
import { judgeProducer, nextProducerRecord, type ProducerClaim, type ProducerVerdict } from './producers.js';
import type { Offset } from './types.js';

const A = 'a'.repeat(64);
const B = 'b'.repeat(64);
const range = { start: 10 as Offset, end: 20 as Offset };

function claim(epoch: number, seq: number, digest: string | null = null): ProducerClaim {
  return { id: 'p', epoch, seq, digest };
}

function record(fields: Partial<ProducerRecord> = {}): ProducerRecord {
  return { epoch: 1, lastSeq: 5, firstDigest: null, lastDigest: null, lastStart: range.start, lastEnd: range.end, lastClosed: false, closedEpoch: 0, closedSeq: 3, lastAtMs: 0, change: 1, ...fields };
}

function judge(known: ProducerRecord | null, write: ProducerClaim, options: { floor?: number; tokened?: boolean } = {}): ProducerVerdict {
  return judgeProducer({ record: known, floor: options.floor ?? -1, claim: write, tokened: options.tokened ?? false });
}

/** A verdict as one comparable value. */
function shown(verdict: ProducerVerdict): unknown {
  return verdict.kind === 'refuse' ? { status: verdict.error.status, code: verdict.error.code, headers: verdict.error.headers } : verdict;
}

const apply = { kind: 'apply', replaces: null };
const newest = { kind: 'duplicate', newest: true };
const older = { kind: 'duplicate', newest: false };
const gap = (expected: number, received: number) =>
  ({ status: 409, code: 'PRODUCER_SEQ_CONFLICT', headers: { 'Producer-Expected-Seq': String(expected), 'Producer-Received-Seq': String(received) } });
const unclaimed = { status: 400, code: 'INVALID_PRODUCER', headers: { 'Producer-Expected-Seq': '0' } };
const stale = (epoch: number) => ({ status: 403, code: 'PRODUCER_EPOCH_STALE', headers: { 'Producer-Epoch': String(epoch), 'Producer-Outcome': 'stale-epoch' } });
const epochClosed = {
  status: 403,
  code: 'PRODUCER_EPOCH_CLOSED',
  headers: { 'Producer-Epoch': '1', 'Producer-Outcome': 'epoch-closed;by=claim', 'Producer-Closed-Epoch': '0', 'Producer-Closed-Seq': '3' },
};
const keyConflict = { status: 403, code: 'PRODUCER_KEY_CONFLICT', headers: { 'Producer-Epoch': '1', 'Producer-Outcome': 'key-conflict' } };
const expired = (floor: number) => ({ status: 403, code: 'PRODUCER_EXPIRED', headers: { 'Producer-Epoch': String(floor), 'Producer-Outcome': 'producer-expired' } });

describe('judgeProducer', () => {
  it.each([
    ['PROD-04 an unknown producer, epoch 0', null, claim(0, 0), apply],
    ['PROD-04 an unknown producer, any epoch', null, claim(6, 0), apply],
    ['PROD-03 the highest epoch', null, claim(Number.MAX_SAFE_INTEGER, 0), apply],
    ['PROD-19 an unknown producer that starts late', null, claim(0, 3), gap(0, 3)],
    ['PROD-05 the next seq', record(), claim(1, 6), apply],
    ['PROD-05 the next seq, with a digest for the first time', record(), claim(1, 6, A), apply],
    ['PROD-06 the newest write again', record(), claim(1, 5), newest],
    ['PROD-06 PROD-24 an older write again', record(), claim(1, 4), older],
    ['PROD-06 PROD-24 seq 0 again, later ones on record', record(), claim(1, 0), older],
    ['PROD-21 an older write again, its digest no longer on record', record(), claim(1, 4, A), older],
    ['PROD-07 a gap', record(), claim(1, 7), gap(6, 7)],
    ['PROD-07 a gap after seq 0', record({ lastSeq: 0 }), claim(1, 2), gap(1, 2)],
    ['PROD-10 a new epoch', record(), claim(2, 0), { kind: 'apply', replaces: { closedEpoch: 1, closedSeq: 5 } }],
    ['PROD-10 an epoch far ahead', record(), claim(9, 0), { kind: 'apply', replaces: { closedEpoch: 1, closedSeq: 5 } }],
    ['PROD-10 PROD-11 a new epoch that does not start at 0', record(), claim(2, 5), unclaimed],
    ['PROD-08 PROD-09 PROD-23 the epoch that the current one closed', record(), claim(0, 0), epochClosed],
    ['PROD-23 any seq of the closed epoch', record(), claim(0, 99), epochClosed],
    ['PROD-08 PROD-23 an epoch before the closed one', record({ epoch: 5, closedEpoch: 3 }), claim(2, 0), stale(5)],
    ['PROD-23 an epoch that was never claimed', record({ epoch: 5, closedEpoch: 3 }), claim(4, 0), stale(5)],
    ['PROD-08 the first epoch on record closed none', record({ closedEpoch: -1, closedSeq: -1 }), claim(0, 0), stale(1)],
    ['PROD-22 the newest write with its digest', record({ firstDigest: B, lastDigest: A }), claim(1, 5, A), newest],
    ['PROD-22 the newest write with another digest', record({ lastDigest: A }), claim(1, 5, B), keyConflict],
    ['PROD-22 the newest write without its digest', record({ lastDigest: A }), claim(1, 5), keyConflict],
    ['PROD-22 the newest write with a digest that it had not', record(), claim(1, 5, A), keyConflict],
    ['PROD-22 seq 0 with its digest', record({ firstDigest: A, lastDigest: B }), claim(1, 0, A), older],
    ['PROD-22 seq 0 with another digest', record({ firstDigest: A, lastDigest: B }), claim(1, 0, B), keyConflict],
    ['PROD-22 seq 0 without its digest', record({ firstDigest: A }), claim(1, 0), keyConflict],
    ['PROD-22 seq 0 as the newest write, its digest', record({ lastSeq: 0, firstDigest: A, lastDigest: A }), claim(1, 0, A), newest],
    ['PROD-22 seq 0 as the newest write, another digest', record({ lastSeq: 0, firstDigest: A, lastDigest: A }), claim(1, 0, B), keyConflict],
    ['PROD-22 the digest of an older epoch does not matter', record({ firstDigest: A, lastDigest: A }), claim(0, 0, B), epochClosed],
  ] as const)('%s', (_, known, write, expected) => expect(shown(judge(known, write))).toEqual(expected));

  it.each([
    ['an epoch at the floor', 4, 0, true, expired(4)],
    ['an epoch below the floor', 2, 0, true, expired(4)],
    ['any seq', 4, 7, true, expired(4)],
    ['an epoch above the floor', 5, 0, true, apply],
    ['an epoch above the floor that does not start at 0', 5, 2, true, gap(0, 2)],
    ['no token, seq 0', 4, 0, false, apply],
    ['no token, later seq', 4, 7, false, gap(0, 7)],
  ] as const)('PROD-23 a forgotten producer: %s', (_, epoch, seq, tokened, expected) => {
    expect(shown(judge(null, claim(epoch, seq), { floor: 4, tokened }))).toEqual(expected);
  });

  it('PROD-23 the floor does not bind a producer on record', () => {
    expect(shown(judge(record(), claim(1, 6), { floor: 9, tokened: true }))).toEqual(apply);
    expect(shown(judge(null, claim(0, 0), { floor: -1, tokened: true }))).toEqual(apply);
  });

  it('PROD-23 every 403 has an epoch and an outcome', () => {
    const numbers = fc.nat({ max: 4 });
    const digests = fc.constantFrom(null, A, B);
    const records = fc.record({ epoch: numbers, lastSeq: numbers, firstDigest: digests, lastDigest: digests, closedEpoch: fc.integer({ min: -1, max: 3 }) });
    fc.assert(fc.property(fc.option(records), numbers, numbers, digests, fc.boolean(), fc.integer({ min: -1, max: 4 }), (known, epoch, seq, digest, tokened, floor) => {
      const verdict = judge(known === null ? null : record(known), claim(epoch, seq, digest), { tokened, floor });
      if (verdict.kind !== 'refuse' || verdict.error.status !== 403) return;
      expect(verdict.error.headers['Producer-Epoch']).toMatch(/^[0-9]+$/);
      expect(verdict.error.headers['Producer-Outcome']).toMatch(/^(stale-epoch|epoch-closed;by=claim|key-conflict|producer-expired)$/);
    }));
  });
});

describe('nextProducerRecord', () => {
  it('PROD-04 the first write of a producer', () => {
    expect(nextProducerRecord(null, claim(3, 0, A), range, false, 77)).toEqual({
      epoch: 3, lastSeq: 0, firstDigest: A, lastDigest: A, lastStart: 10, lastEnd: 20, lastClosed: false, closedEpoch: -1, closedSeq: -1, lastAtMs: 77, change: 0,
    });
  });

  it('PROD-22 the next write keeps the digest of seq 0 and the epoch closed before', () => {
    expect(nextProducerRecord(record({ firstDigest: A, lastDigest: B }), claim(1, 6), range, true, 78)).toEqual({
      epoch: 1, lastSeq: 6, firstDigest: A, lastDigest: null, lastStart: 10, lastEnd: 20, lastClosed: true, closedEpoch: 0, closedSeq: 3, lastAtMs: 78, change: 0,
    });
  });

  it('PROD-23 a new epoch notes the one it closed', () => {
    expect(nextProducerRecord(record({ firstDigest: A, lastClosed: true }), claim(2, 0), range, false, 79)).toEqual({
      epoch: 2, lastSeq: 0, firstDigest: null, lastDigest: null, lastStart: 10, lastEnd: 20, lastClosed: false, closedEpoch: 1, closedSeq: 5, lastAtMs: 79, change: 0,
    });
  });

  it('a write that does not apply is a broken invariant', () => {
    for (const write of [claim(1, 5), claim(1, 7), claim(2, 1), claim(0, 0)]) {
      expect(() => nextProducerRecord(record(), write, range, false, 0)).toThrow('does not follow');
    }
    expect(() => nextProducerRecord(null, claim(0, 1), range, false, 0)).toThrow('does not follow');
  });

  it('PROD-06 PROD-15 any run of writes and repeats: each applies once, the rest repeats or is refused', () => {
    const writes = fc.array(fc.record({ epoch: fc.nat({ max: 3 }), seq: fc.nat({ max: 3 }) }), { maxLength: 40 });
    fc.assert(fc.property(writes, (run) => {
      let known: ProducerRecord | null = null;
      let tail = 0;
      const applied = new Set<string>();
      for (const { epoch, seq } of run) {
        const verdict = judge(known, claim(epoch, seq));
        const name = `${epoch}/${seq}`;
        if (verdict.kind === 'apply') {
          expect(applied.has(name)).toBe(false);
          expect(seq === 0 || applied.has(`${epoch}/${seq - 1}`)).toBe(true);
          expect(verdict.replaces?.closedEpoch ?? -1).toBe(known !== null && known.epoch < epoch ? known.epoch : -1);
          known = { ...nextProducerRecord(known, claim(epoch, seq), { start: tail as Offset, end: (tail + 1) as Offset }, false, tail), change: tail };
          tail += 1;
          applied.add(name);
        } else if (verdict.kind === 'duplicate') {
          expect(applied.has(name)).toBe(true);
          expect(verdict.newest).toBe(known?.lastSeq === seq);
        }
      }
    }));
  });
});
