import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compressesQuickly } from './zstd-sample.js';

/** In pieces of `piece` bytes. */
function looksQuick(raw: Buffer, piece: number): boolean {
  return compressesQuickly(Array.from({ length: Math.ceil(raw.length / piece) }, (_, n) => raw.subarray(n * piece, (n + 1) * piece)), raw.length);
}

/** Nearly all of it is `byte`; one in `every` is another. */
function mostly(byte: number, bytes: number, every: number): Buffer {
  const raw = Buffer.alloc(bytes, byte);
  for (const [n, other] of randomBytes(Math.floor(bytes / every)).entries()) raw[n * every + (other % every)] = other;
  return raw;
}

const lengths = fc.tuple(fc.integer({ min: 16_385, max: 400_000 }), fc.integer({ min: 1, max: 150_000 }));

function expectAlways(quick: boolean, made: (bytes: number) => Buffer): void {
  fc.assert(fc.property(lengths, ([bytes, piece]) => {
    expect(looksQuick(made(bytes), piece)).toBe(quick);
  }), { numRuns: 30 });
}

describe('sample for zstd', () => {
  it.each<[string, (bytes: number) => Buffer]>([
    ['random bytes', randomBytes],
    ['one byte over and over', (bytes) => Buffer.alloc(bytes, 'x')],
    ['nearly nothing but zeros', (bytes) => mostly(0, bytes, 100)],
  ])('takes %s for quickly done', (_, made) => expectAlways(true, made));

  it.each<[string, (bytes: number) => Buffer]>([
    ['records', (bytes) => Buffer.from('{"origin":"LAX","delay":12}\n'.repeat(Math.ceil(bytes / 28))).subarray(0, bytes)],
    ['base64', (bytes) => Buffer.from(randomBytes(bytes).toString('base64')).subarray(0, bytes)],
    ['half-empty numbers', (bytes) => mostly(0, bytes, 3)],
  ])('takes %s for work', (_, made) => expectAlways(false, made));
});
