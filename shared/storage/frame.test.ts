import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes } from './codec.js';
import { crc32c } from './crc.js';
import { expectEveryDamageRefusedLater } from './decoder.contract.js';
import { FRAME_OVERHEAD_BYTES, FRAME_RAW_BYTES_MAX, blockIn, encodeFrame, frameLengthAt, readFrame } from './frame.js';

const text = Buffer.from('{"origin":"LAX","delay":12}\n'.repeat(40));

describe('frame', () => {
  it('comes back, compressed or stored', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 200_000 }), fc.boolean(), async (bytes, random) => {
        const raw = random ? randomBytes(bytes) : Buffer.alloc(bytes, 'flights ');
        const frame = await encodeFrame(raw);
        expect(frame.bytes.length).toBeLessThanOrEqual(bytes + FRAME_OVERHEAD_BYTES);
        expect(frame.crc).toBe(crc32c(frame.bytes.subarray(0, frame.bytes.length - 4)));
        expect(frameLengthAt(Buffer.concat([Buffer.from('abc'), frame.bytes, Buffer.from('more')]), 3)).toBe(frame.bytes.length);
        const back = await readFrame(frame.bytes, { frameAt: 8, frameBytes: frame.bytes.length, frameCrc: frame.crc });
        expect(back.equals(raw)).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  it('I9 refuses every cut and every flipped bit', async () => {
    for (const raw of [text, randomBytes(64)]) {
      const frame = await encodeFrame(raw);
      // A cut frame is refused for its own length too, not only for that of the reference.
      await expectEveryDamageRefusedLater(frame.bytes, (bytes) => readFrame(bytes, { frameAt: 0, frameBytes: bytes.length, frameCrc: frame.crc }));
    }
  });

  it('I4 refuses another sound frame of the same length', async () => {
    const [a, b] = await Promise.all([encodeFrame(Buffer.from('0123456789')), encodeFrame(Buffer.from('9876543210'))]);
    expect(a.bytes.length).toBe(b.bytes.length);
    await expect(readFrame(b.bytes, { frameAt: 0, frameBytes: a.bytes.length, frameCrc: a.crc })).rejects.toThrow('not that of the reference');
    await expect(readFrame(a.bytes, { frameAt: 0, frameBytes: a.bytes.length + 1, frameCrc: a.crc })).rejects.toThrow(BadBytes);
  });

  it('keeps within its limit', async () => {
    await expect(encodeFrame(Buffer.alloc(FRAME_RAW_BYTES_MAX + 1))).rejects.toThrow(RangeError);
    await expect(encodeFrame(Buffer.alloc(0))).rejects.toThrow(RangeError);
    expect((await encodeFrame(Buffer.alloc(FRAME_RAW_BYTES_MAX))).bytes.length).toBeLessThan(1_000);
  });

  it('gives the block that a reference names, and none beyond the end', () => {
    const raw = Buffer.from('0123456789');
    expect(blockIn(raw, { blockAt: 2, blockBytes: 8 }).toString()).toBe('23456789');
    expect(() => blockIn(raw, { blockAt: 2, blockBytes: 9 })).toThrow(BadBytes);
  });
});
