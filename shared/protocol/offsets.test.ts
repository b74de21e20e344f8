import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FirnError } from './errors.js';
import { formatOffset, parseExactOffset, parsePathOffset, parsePosition, parseQueryOffset } from './offsets.js';
import type { Offset } from './types.js';

const anyOffset = fc.maxSafeNat().map((value) => value as Offset);
const zeros16 = '0'.repeat(16);

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof FirnError) return error.code;
    throw error;
  }
  return 'none';
}

describe('offsets', () => {
  it('OFF-16 writes 20 digits and reads them back', () => {
    fc.assert(fc.property(anyOffset, (offset) => {
      const text = formatOffset(offset);
      expect(text).toMatch(/^[0-9]{20}$/);
      expect(parseQueryOffset(text)).toBe(offset);
      expect(parsePathOffset(text)).toBe(offset);
      expect(parseExactOffset(text)).toBe(offset);
    }));
  });

  it('OFF-01 text order is number order', () => {
    fc.assert(fc.property(anyOffset, anyOffset, (a, b) => {
      expect(formatOffset(a) < formatOffset(b)).toBe(a < b);
    }));
  });

  it('OFF-07 OFF-08 sentinels count in queries alone', () => {
    expect(parseQueryOffset('-1')).toBe('start');
    expect(parseQueryOffset('now')).toBe('now');
    for (const sentinel of ['-1', 'now']) {
      expect(codeOf(() => parsePathOffset(sentinel))).toBe('INVALID_OFFSET');
      expect(codeOf(() => parsePosition(sentinel))).toBe('INVALID_OFFSET');
      expect(codeOf(() => parseExactOffset(sentinel))).toBe('INVALID_RESOURCE');
    }
  });

  it('OFF-17 any padding is read, up to 64 bits', () => {
    expect(parseQueryOffset('0')).toBe(0);
    expect(parseQueryOffset('5')).toBe(5);
    expect(parseQueryOffset('0'.repeat(40) + '5')).toBe(5);
    expect(parseQueryOffset('9007199254740990')).toBe(9007199254740990);
    expect(parseQueryOffset('9007199254740992')).toBe(Number.MAX_SAFE_INTEGER);
    expect(parseQueryOffset('18446744073709551615')).toBe(Number.MAX_SAFE_INTEGER);
  });

  it.each(['', 'x', '+5', '-5', '-0', ' 5', '5 ', '0,1', '0 1', 'a/b', '1.0', '1e3', 'NOW', '٣', '18446744073709551616', '9'.repeat(30), '0_0'])(
    'READ-05 OFF-17 refuses %j', (text) => {
      expect(codeOf(() => parseQueryOffset(text))).toBe('INVALID_OFFSET');
      expect(codeOf(() => parsePosition(text, 'base'))).toBe('INVALID_OFFSET');
    });

  it('OFF-16 the form 16_16 is read on the base surface alone', () => {
    expect(parseQueryOffset(`${zeros16}_${zeros16}`, 'base')).toBe(0);
    expect(parsePosition(`${zeros16}_0000000000000042`, 'base')).toBe(42);
    expect(codeOf(() => parseQueryOffset(`${zeros16}_${zeros16}`))).toBe('INVALID_OFFSET');
    expect(codeOf(() => parseQueryOffset(`0000000000000001_${zeros16}`, 'base'))).toBe('INVALID_OFFSET');
    expect(codeOf(() => parseQueryOffset(`${zeros16}_000000000000004x`, 'base'))).toBe('INVALID_OFFSET');
  });

  it('OFF-15 path offsets are decoded once', () => {
    expect(parsePathOffset('%30%31')).toBe(1);
    expect(codeOf(() => parsePathOffset('%2530'))).toBe('INVALID_OFFSET');
    expect(codeOf(() => parsePathOffset('%ZZ'))).toBe('INVALID_OFFSET');
    expect(codeOf(() => parseExactOffset('%ZZ'))).toBe('INVALID_RESOURCE');
  });

  it('CINC-05 incarnation paths take 20 digits alone', () => {
    expect(codeOf(() => parseExactOffset('5'))).toBe('INVALID_RESOURCE');
    expect(codeOf(() => parseExactOffset('0'.repeat(21)))).toBe('INVALID_RESOURCE');
    expect(codeOf(() => parseExactOffset('99999999999999999999'))).toBe('INVALID_RESOURCE');
  });
});
