import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { answerCursor, intervalAt, laterCursor } from './cursor.js';

const epoch = Date.parse('2024-10-09T00:00:00Z');
const now = epoch + 1000 * 20_000 + 7;
const never = (): number => {
  throw new Error('no randomness is needed here');
};
const randoms = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('cursors', () => {
  it('CACHE-09 counts 20-second intervals', () => {
    expect(intervalAt(epoch)).toBe(0);
    expect(intervalAt(epoch + 19_999)).toBe(0);
    expect(intervalAt(epoch + 20_000)).toBe(1);
    expect(intervalAt(epoch - 1)).toBe(0);
    expect(answerCursor(null, now, never)).toBe('1000');
  });

  it('CACHE-11 R063 is above the cursor sent', () => {
    const cursors = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.bigInt({ min: 900n, max: 1100n }));
    fc.assert(fc.property(cursors, randoms, (cursor, random) => {
      const answer = BigInt(answerCursor(String(cursor), now, () => random));
      expect(answer).toBeGreaterThan(cursor);
      expect(answer).toBeGreaterThanOrEqual(1000n);
      expect(answer - (cursor > 999n ? cursor : 1000n)).toBeLessThanOrEqual(180n);
    }));
    for (const cursor of ['1000', '2000', '9007199254740992', '18446744073709551615']) {
      expect(BigInt(answerCursor(cursor, now, () => 0))).toBe(BigInt(cursor) + 1n);
      expect(BigInt(answerCursor(cursor, now, () => 0.99999))).toBe(BigInt(cursor) + 180n);
    }
  });

  it('CACHE-11 a cursor of the past gets the present', () => {
    expect(answerCursor('999', now, never)).toBe('1000');
    expect(answerCursor('0', now, never)).toBe('1000');
    expect(answerCursor('0'.repeat(40), now, never)).toBe('1000');
    expect(answerCursor(`${'0'.repeat(40)}999`, now, never)).toBe('1000');
    expect(answerCursor('0001000', now, () => 0)).toBe('1001');
  });

  it.each(['abc', '', '-1', '+5', '1.5', '18446744073709551616', '9'.repeat(30), '1e3', ' 5'])('CACHE-14 %j counts as absent', (cursor) => {
    expect(answerCursor(cursor, now, never)).toBe('1000');
  });

  it('CACHE-10 does not fall within a connection', () => {
    expect(laterCursor('1000', now)).toBe('1000');
    expect(laterCursor('1000', now + 20_000)).toBe('1001');
    expect(laterCursor('1180', now + 20_000)).toBe('1180');
    expect(laterCursor('999', now)).toBe('1000');
    expect(laterCursor('18446744073709551795', now)).toBe('18446744073709551795');
    fc.assert(fc.property(fc.option(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })), fc.array(fc.nat({ max: 1_000_000 }), { maxLength: 8 }), randoms, (requested, waits, random) => {
      let at = now;
      let cursor = answerCursor(requested === null ? null : String(requested), at, () => random);
      for (const wait of waits) {
        at += wait;
        const next = laterCursor(cursor, at);
        expect(BigInt(next)).toBeGreaterThanOrEqual(BigInt(cursor));
        expect(BigInt(next)).toBeGreaterThanOrEqual(BigInt(intervalAt(at)));
        cursor = next;
      }
    }));
  });
});
