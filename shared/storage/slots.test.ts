import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StreamKey } from '../protocol/types.js';
import { crc32c } from './crc.js';
import { PARTITIONS_MAX, SLOTS, partitionOf, slotOf, slotRangeOf } from './slots.js';

describe('slots', () => {
  it('are the low 16 bits of the sum of the key', () => {
    // 0xE3069283 is the published check value of CRC32C.
    expect(slotOf('123456789' as StreamKey)).toBe(0x9283);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
        expect(slotOf(text as StreamKey)).toBe(crc32c(Buffer.from(text, 'utf8')) & 0xffff);
      }),
    );
    const long = 'ä'.repeat(3_000);
    expect(slotOf(long as StreamKey)).toBe(crc32c(Buffer.from(long)) & 0xffff);
  });

  it('fall into contiguous partitions that cover every slot once', () => {
    for (const partitions of [1, 2, 3, 4, 7, 1_000, PARTITIONS_MAX]) {
      let next = 0;
      for (let partition = 0; partition < partitions; partition++) {
        const { from, to } = slotRangeOf(partition, partitions);
        expect(from).toBe(next);
        expect(to).toBeGreaterThan(from);
        expect(partitionOf(from, partitions)).toBe(partition);
        expect(partitionOf(to - 1, partitions)).toBe(partition);
        next = to;
      }
      expect(next).toBe(SLOTS);
    }
  });

  it('refuses what is no slot or partition', () => {
    expect(() => partitionOf(65_536, 1)).toThrow(RangeError);
    expect(() => partitionOf(0, 0)).toThrow(RangeError);
    expect(() => slotRangeOf(4, 4)).toThrow(RangeError);
    expect(() => slotRangeOf(0, 1_025)).toThrow(RangeError);
  });
});
