import { isUtf8 } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wholeCharacters } from './utf8.js';

describe('wholeCharacters', () => {
  it('SSE-21 R057 cuts valid text between characters, and holds back no whole one', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 8 }), fc.nat(), (text, place) => {
      const bytes = Buffer.from(text);
      const part = bytes.subarray(0, place % (bytes.length + 1));
      const count = wholeCharacters(part, false);
      expect(isUtf8(part.subarray(0, count))).toBe(true);
      expect(part.length - count).toBeLessThanOrEqual(3);
      if (isUtf8(part)) expect(count).toBe(part.length);
    }), { numRuns: 500 });
  });

  it('R057 pieces that are cut this way decode one by one', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 20 }), fc.integer({ min: 4, max: 9 }), (text, most) => {
      const bytes = Buffer.from(text);
      let decoded = '';
      for (let at = 0; at < bytes.length; ) {
        const part = bytes.subarray(at, at + most);
        const count = wholeCharacters(part, at + part.length === bytes.length);
        expect(count).toBeGreaterThan(0);
        decoded += part.subarray(0, count).toString('utf8');
        at += count;
      }
      expect(decoded).toBe(text);
    }));
  });

  it.each([
    ['', 0], ['61', 1], ['c3', 0], ['61c3', 1], ['e2', 0], ['e282', 0], ['e282ac', 3], ['f0', 0], ['f09f98', 0], ['f09f9880', 4], ['61f09f98', 1],
    // What can never become a character is not held back.
    ['ff', 1], ['80', 1], ['808080', 3], ['80808080', 4], ['c0', 1], ['c1', 1], ['f5', 1], ['e080', 2], ['eda0', 2], ['f080', 2], ['f490', 2], ['e28261', 3], ['c3ff', 2],
    // Any second byte that is possible is waited for.
    ['e0a0', 0], ['ed9f', 0], ['f090', 0], ['f48f', 0], ['f48fbf', 0],
  ])('SSE-24 of %s takes %i', (hex, count) => expect(wholeCharacters(Buffer.from(hex, 'hex'), false)).toBe(count));

  it('SSE-24 at the end of a closed stream nothing is held back', () => expect(wholeCharacters(Buffer.from('61c3', 'hex'), true)).toBe(2));
});
