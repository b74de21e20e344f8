import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes } from './codec.js';
import { compress, compressNow, decompress, decompressNow } from './zstd.js';

const text = (bytes: number): Buffer => Buffer.from('{"origin":"LAX","delay":12}\n'.repeat(Math.ceil(bytes / 28))).subarray(0, bytes);

describe('zstd', () => {
  it('gives back small and large input, in place and in its thread, the same bytes from both', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 8_000, max: 9_000 }), fc.integer({ min: 100_000, max: 300_000 })), fc.boolean(), async (bytes, random) => {
        const raw = random ? randomBytes(bytes) : text(bytes);
        const stored = await compress(raw);
        expect(stored.equals(compressNow(raw))).toBe(true);
        expect((await decompress(stored, bytes)).equals(raw)).toBe(true);
        expect(decompressNow(stored, bytes).equals(raw)).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  it('I9 refuses another length and bytes that are not zstd', async () => {
    for (const bytes of [1_000, 100_000]) {
      const stored = await compress(text(bytes));
      for (const length of [0, 1, bytes - 1, bytes + 1, bytes * 2]) {
        await expect(decompress(stored, length)).rejects.toThrow(BadBytes);
        expect(() => decompressNow(stored, length)).toThrow(BadBytes);
      }
      for (const bad of [Buffer.alloc(0), stored.subarray(0, stored.length - 1), Buffer.concat([stored, stored]), randomBytes(200)]) {
        await expect(decompress(bad, bytes)).rejects.toThrow(BadBytes);
        expect(() => decompressNow(bad, bytes)).toThrow(BadBytes);
      }
    }
  });

  it('I11 takes many at once', async () => {
    const raws = Array.from({ length: 100 }, (_, index) => text(20_000 + index));
    const stored = await Promise.all(raws.map(compress));
    const back = await Promise.all(stored.map((bytes, index) => decompress(bytes, 20_000 + index)));
    expect(back.every((bytes, index) => bytes.equals(raws[index] as Buffer))).toBe(true);
  });

  it('I9 gives whole results while its thread and this one work at the same time', async () => {
    const raws = Array.from({ length: 200 }, (_, index) => Buffer.concat([randomBytes(4_000 + index), text(60_000)]));
    const stored = raws.map((raw) => compress(raw));
    const inPlace = raws.map((raw) => decompressNow(compressNow(raw.subarray(0, 5_000)), 5_000).equals(raw.subarray(0, 5_000)));
    const back = (await Promise.all(stored)).map((bytes, index) => decompress(bytes, (raws[index] as Buffer).length));
    inPlace.push(...raws.map((raw) => decompressNow(compressNow(raw), raw.length).equals(raw)));
    expect((await Promise.all(back)).every((bytes, index) => bytes.equals(raws[index] as Buffer))).toBe(true);
    expect(inPlace.every(Boolean)).toBe(true);
  });

  it('takes a large body in place', () => {
    const raw = text(40_000_000);
    expect(decompressNow(compressNow(raw), raw.length).equals(raw)).toBe(true);
  });
});
