import { crc32c as nativeCrc32c } from '@node-rs/crc32';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32c, crc32cCombine, crc32cOf, crc32cRange, storedSum } from './crc.js';

const bytes = fc.uint8Array({ maxLength: 300 });

describe('crc32c', () => {
  it('gives the published check value', () => {
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe306_9283);
    // RFC 3720, B.4: 32 bytes of zeros, of ones, rising.
    expect(crc32c(Buffer.alloc(32))).toBe(0x8a91_36aa);
    expect(crc32c(Buffer.alloc(32, 0xff))).toBe(0x62a8_ab43);
    expect(crc32c(Buffer.from(Array.from({ length: 32 }, (_, index) => index)))).toBe(0x46dd_794e);
  });

  it('agrees with the native library for short and long input, in ranges and pieces', () => {
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        const whole = Buffer.concat([a, b]);
        expect(crc32c(whole)).toBe(nativeCrc32c(whole));
        expect(crc32c(b, crc32c(a))).toBe(nativeCrc32c(whole));
        expect(crc32cRange(whole, a.length, whole.length)).toBe(crc32c(b));
        expect(crc32cOf([a, b])).toBe(nativeCrc32c(whole));
      }),
    );
  });

  it('joins the sums of two pieces', () => {
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        expect(crc32cCombine(crc32c(a), crc32c(b), b.length)).toBe(crc32c(Buffer.concat([a, b])));
      }),
    );
  });

  it('I4 tells contents apart when sums lie behind the bytes they cover', () => {
    const withSum = (text: string, form: (crc: number) => number): Buffer => {
      const sum = Buffer.alloc(4);
      sum.writeUInt32LE(form(crc32c(Buffer.from(text))));
      return Buffer.concat([Buffer.from(text), sum]);
    };
    const wholes = (form: (crc: number) => number): Set<number> => new Set(['one', 'two', 'six'].map((text) => crc32c(withSum(text, form))));
    expect(wholes((crc) => crc).size).toBe(1);
    expect(wholes(storedSum).size).toBe(3);
    expect(storedSum(0xe306_9283)).toBe(0x1899_ceae);
  });

  it('joins sums over long pieces', () => {
    const a = Buffer.alloc(1_000_003, 0xa5);
    const b = Buffer.alloc(9_000_001, 0x5a);
    expect(crc32cCombine(crc32c(a), crc32c(b), b.length)).toBe(crc32cOf([a, b]));
    expect(() => crc32cCombine(0, 0, -1)).toThrow(RangeError);
  });
});
