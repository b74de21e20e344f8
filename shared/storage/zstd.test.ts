import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes } from './codec.js';
import { ZSTD_BYTES_MAX, compress, compressNow, decompress, decompressNow } from './zstd.js';

/** Shrinks to next to nothing. */
const text = (bytes: number): Buffer => Buffer.from('{"origin":"LAX","delay":12}\n'.repeat(Math.ceil(bytes / 28))).subarray(0, bytes);
/** Shrinks to a little more than half. */
const digits = (bytes: number): Buffer => Buffer.from(randomBytes(Math.ceil(bytes / 2)).toString('hex')).subarray(0, bytes);
const KINDS = { text, digits, random: randomBytes, zeros: Buffer.alloc } as const;

async function packed(raw: Buffer): Promise<Buffer> {
  const stored = await compress([raw]);
  if (stored === null) throw new Error(`${raw.length} bytes do not shrink`);
  return stored;
}

/** Cuts at these places, whatever their order. */
function cut(raw: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...places.map((place) => place % (raw.length + 1)), raw.length].sort((a, b) => a - b);
  return ends.map((end, n) => raw.subarray(n === 0 ? 0 : ends[n - 1], end));
}

describe('zstd', () => {
  it('gives back small and large input, whole and in pieces, in place and in its thread, the same bytes from both', async () => {
    const length = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 16_000, max: 17_000 }), fc.integer({ min: 100_000, max: 300_000 }));
    await fc.assert(
      fc.asyncProperty(length, fc.constantFrom(...Object.keys(KINDS) as (keyof typeof KINDS)[]), fc.array(fc.nat(), { maxLength: 20 }), async (bytes, kind, places) => {
        const raw = KINDS[kind](bytes);
        const now = compressNow(raw);
        const stored = await compress(cut(raw, places));
        expect(stored?.equals(now)).toBe(now.length < bytes ? true : undefined);
        expect((await decompress(now, bytes)).equals(raw)).toBe(true);
        expect(decompressNow(now, bytes).equals(raw)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('I9 refuses another length and bytes that are not zstd', async () => {
    for (const raw of [text(1_000), text(100_000), digits(100_000)]) {
      const bytes = raw.length;
      const stored = await packed(raw);
      for (const length of [0, 1, bytes - 1, bytes + 1, bytes * 2, ZSTD_BYTES_MAX + 1]) {
        await expect(decompress(stored, length)).rejects.toThrow(BadBytes);
        expect(() => decompressNow(stored, length)).toThrow(BadBytes);
      }
      for (const bad of [Buffer.alloc(0), stored.subarray(0, stored.length - 1), Buffer.concat([stored, stored]), randomBytes(200), randomBytes(200_000)]) {
        await expect(decompress(bad, bytes)).rejects.toThrow(BadBytes);
        expect(() => decompressNow(bad, bytes)).toThrow(BadBytes);
      }
    }
  });

  it('I9 refuses what is damaged among much that is sound, and that alone', async () => {
    const raws = Array.from({ length: 60 }, (_, n) => digits(20_000 + n * 1_000));
    const stored = await Promise.all(raws.map(packed));
    const isBad = (n: number): boolean => n % 7 === 3;
    const given = stored.map((bytes, n) => (isBad(n) ? Buffer.concat([bytes.subarray(0, bytes.length - 100), randomBytes(50)]) : bytes));
    const back = await Promise.allSettled(given.map((bytes, n) => decompress(bytes, (raws[n] as Buffer).length)));
    for (const [n, result] of back.entries()) {
      if (isBad(n)) expect(result).toMatchObject({ status: 'rejected', reason: expect.any(BadBytes) });
      else expect(result.status === 'fulfilled' && result.value.equals(raws[n] as Buffer)).toBe(true);
    }
  });

  it('I11 takes many at once, the longest among them, and nothing longer', async () => {
    const raws = Array.from({ length: 100 }, (_, index) => (index % 30 === 0 ? digits(ZSTD_BYTES_MAX) : digits(20_000 + index)));
    const stored = await Promise.all(raws.map(packed));
    const back = await Promise.all(stored.map((bytes, index) => decompress(bytes, (raws[index] as Buffer).length)));
    expect(back.every((bytes, index) => bytes.equals(raws[index] as Buffer))).toBe(true);
    expect(back.every((bytes) => bytes.buffer.byteLength === bytes.length)).toBe(true);
    await expect(compress([digits(ZSTD_BYTES_MAX), digits(1)])).rejects.toThrow(RangeError);
    await expect(decompress(digits(ZSTD_BYTES_MAX + 1), 100)).rejects.toThrow(BadBytes);
  });

  it('I9 gives whole results while its thread and this one work at the same time', async () => {
    const raws = Array.from({ length: 200 }, (_, index) => Buffer.concat([digits(4_000 + index), text(60_000), digits(20_000)]));
    const stored = raws.map(packed);
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
