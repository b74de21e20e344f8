import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Offset } from '../protocol/types.js';
import {
  BLOCK_ENTRIES_MAX,
  BLOCK_PAYLOAD_MAX,
  decodeBlock,
  decodeBlockHead,
  encodeBlock,
  mergeBlocks,
  packAppends,
  type Append,
  type BlockEntry,
  type PackedBlock,
} from './block.js';
import { BadBytes } from './codec.js';
import { crc32c } from './crc.js';
import { expectEveryDamageRefused } from './decoder.contract.js';

const at = (position: number): Offset => position as Offset;
const atMs = fc.integer({ min: 0, max: 8_640_000_000_000 });
const start = fc.maxSafeNat().map((value) => at(Math.floor(value / 2)));
const smallAppends = fc.array(fc.record({ payload: fc.uint8Array({ minLength: 1, maxLength: 40 }).map((bytes) => Buffer.from(bytes)), atMs }), { minLength: 1, maxLength: 20 });

/** The plain model: entries of a row of blocks with the pieces of cut appends joined. */
function entriesOf(blocks: readonly PackedBlock[]): BlockEntry[] {
  const entries: BlockEntry[] = [];
  for (const { value } of blocks) {
    for (const [index, entry] of decodeBlock(value).entries.entries()) {
      const last = entries.at(-1);
      if (index === 0 && decodeBlock(value).resumes && last !== undefined) entries[entries.length - 1] = { bytes: last.bytes + entry.bytes, atMs: last.atMs };
      else entries.push(entry);
    }
  }
  return entries;
}

function modelOf(appends: readonly Append[]): BlockEntry[] {
  return appends.map((append) => ({ bytes: append.payload.length, atMs: append.atMs }));
}

describe('block', () => {
  it('I3 gives back range, entries, payload and sum', () => {
    fc.assert(
      fc.property(start, smallAppends, fc.boolean(), fc.boolean(), (from, appends, resumes, continues) => {
        const payload = Buffer.concat(appends.map((append) => append.payload));
        const block = decodeBlock(encodeBlock({ start: from, resumes, continues, entries: modelOf(appends), payload: appends.map((append) => append.payload) }));
        expect(block).toMatchObject({ start: from, end: from + payload.length, resumes, continues, entries: modelOf(appends), crc: crc32c(payload) });
        expect(block.payload.equals(payload)).toBe(true);
      }),
    );
  });

  it('has the bytes that docs/formats.md shows', () => {
    const appends = ['{"a":1}\n', '{"a":2}\n'].map((text, index) => ({ payload: Buffer.from(text), atMs: 1_700_000_000_000 + index * 4 }));
    const shown = '01 00 00 02  80d095ffbc31  08 00  08 08  b4506bd0 234cccc4  7b2261223a317d0a 7b2261223a327d0a';
    expect(packAppends(at(0), appends)[0]?.value.toString('hex')).toBe(shown.replaceAll(' ', ''));
    expect(readFileSync(new URL('../../docs/formats.md', import.meta.url), 'utf8')).toContain(shown);
  });

  it('I9 refuses every cut and every flipped bit', () => {
    const block = encodeBlock({
      start: at(1_234_567),
      resumes: true,
      continues: false,
      entries: [{ bytes: 3, atMs: 1_700_000_000_000 }, { bytes: 200, atMs: 1_700_000_000_004 }, { bytes: 1, atMs: 1_699_999_999_000 }],
      payload: [Buffer.alloc(204, 0x61)],
    });
    expectEveryDamageRefused(block, decodeBlock);
  });

  it('a head alone does not look at the payload but at everything else', () => {
    const [packed] = packAppends(at(0), [{ payload: Buffer.from('abcdef'), atMs: 5 }]);
    const value = Buffer.from((packed as PackedBlock).value);
    value[value.length - 1] = 0;
    expect(decodeBlockHead(value).entries).toEqual([{ bytes: 6, atMs: 5 }]);
    expect(() => decodeBlock(value)).toThrow(BadBytes);
    expect(() => decodeBlockHead(value.subarray(0, value.length - 1))).toThrow(BadBytes);
  });

  it('refuses to write what is not a block', () => {
    const payload = [Buffer.from('ab')];
    const base = { start: at(0), resumes: false, continues: false };
    expect(() => encodeBlock({ ...base, entries: [], payload: [] })).toThrow();
    expect(() => encodeBlock({ ...base, entries: [{ bytes: 1, atMs: 0 }], payload })).toThrow();
    expect(() => encodeBlock({ ...base, entries: [{ bytes: 2, atMs: 0 }, { bytes: 0, atMs: 0 }], payload })).toThrow();
    expect(() => encodeBlock({ ...base, entries: [{ bytes: 2, atMs: -1 }], payload })).toThrow();
    expect(() => encodeBlock({ ...base, entries: [{ bytes: BLOCK_PAYLOAD_MAX + 1, atMs: 0 }], payload: [Buffer.alloc(BLOCK_PAYLOAD_MAX + 1)] })).toThrow();
    expect(() => packAppends(at(0), [])).toThrow();
    expect(() => packAppends(at(0), [{ payload: Buffer.alloc(0), atMs: 0 }])).toThrow();
    expect(() => packAppends(at(0), [{ payload: Buffer.alloc(BLOCK_PAYLOAD_MAX + 1), atMs: 0 }, { payload: Buffer.alloc(0), atMs: 0 }])).toThrow();
  });

  it('packs appends of every size without losing a byte, a border or a time', () => {
    const sizes = fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 100_000, max: 300_000 }), fc.integer({ min: 500_000, max: 900_000 }), fc.constant(BLOCK_PAYLOAD_MAX));
    fc.assert(
      fc.property(start, fc.array(fc.record({ bytes: sizes, atMs }), { minLength: 1, maxLength: 8 }), (from, shapes) => {
        const appends = shapes.map((shape, index) => ({ payload: Buffer.alloc(shape.bytes, index + 1), atMs: shape.atMs }));
        const blocks = packAppends(from, appends);
        let next = from;
        for (const block of blocks) {
          const decoded = decodeBlock(block.value);
          expect([decoded.start, decoded.end]).toEqual([block.start, block.end]);
          expect(block.start).toBe(next);
          next = block.end;
        }
        expect(Buffer.concat(blocks.map((block) => decodeBlock(block.value).payload)).equals(Buffer.concat(appends.map((append) => append.payload)))).toBe(true);
        expect(entriesOf(blocks)).toEqual(modelOf(appends));
      }),
      { numRuns: 30 },
    );
  });

  it('cuts a long append and says so', () => {
    const blocks = packAppends(at(10), [{ payload: Buffer.alloc(2 * BLOCK_PAYLOAD_MAX + 5, 7), atMs: 99 }]).map((block) => decodeBlock(block.value));
    expect(blocks.map((block) => [block.resumes, block.continues, block.payload.length])).toEqual([
      [false, true, BLOCK_PAYLOAD_MAX],
      [true, true, BLOCK_PAYLOAD_MAX],
      [true, false, 5],
    ]);
  });

  it('keeps an append whole that fits into a block of its own', () => {
    const appends = [200_000, 100_000, 100].map((bytes) => ({ payload: Buffer.alloc(bytes, 1), atMs: 1 }));
    expect(packAppends(at(0), appends).map((block) => decodeBlock(block.value).entries.map((entry) => entry.bytes))).toEqual([[200_000], [100_000, 100]]);
  });

  it('starts a new block at the limit of entries', () => {
    const appends = Array.from({ length: BLOCK_ENTRIES_MAX + 1 }, (_, index) => ({ payload: Buffer.from([index & 0xff]), atMs: index }));
    const blocks = packAppends(at(0), appends);
    expect(blocks.map((block) => decodeBlock(block.value).entries.length)).toEqual([BLOCK_ENTRIES_MAX, 1]);
    expect(() => mergeBlocks(blocks.map((block) => block.value))).toThrow();
  });
});

describe('mergeBlocks', () => {
  /** Cuts a row of appends at arbitrary bytes, as packing with a smaller limit would. */
  function cutInto(from: Offset, appends: readonly Append[], cuts: readonly number[]): Buffer[] {
    const payload = Buffer.concat(appends.map((append) => append.payload));
    const borders = [...new Set([0, ...cuts.map((cut) => cut % payload.length), payload.length])].toSorted((a, b) => a - b);
    const ends = new Set<number>([0]);
    let sum = 0;
    for (const append of appends) ends.add((sum += append.payload.length));
    return borders.slice(1).map((to, index) => {
      const begin = borders[index] as number;
      const entries: BlockEntry[] = [];
      let position = 0;
      for (const append of appends) {
        const bytes = Math.min(to, position + append.payload.length) - Math.max(begin, position);
        if (bytes > 0) entries.push({ bytes, atMs: append.atMs });
        position += append.payload.length;
      }
      return encodeBlock({ start: at(from + begin), resumes: !ends.has(begin), continues: !ends.has(to), entries, payload: [payload.subarray(begin, to)] });
    });
  }

  it('joins neighbours to exactly the block that one packing gives, entries joined again', () => {
    fc.assert(
      fc.property(start, smallAppends, fc.array(fc.nat(), { maxLength: 6 }), (from, appends, cuts) => {
        const merged = mergeBlocks(cutInto(from, appends, cuts));
        expect(merged.equals((packAppends(from, appends)[0] as PackedBlock).value)).toBe(true);
      }),
    );
  });

  it('is the same in any order of joining, inside a longer row too', () => {
    fc.assert(
      fc.property(start, smallAppends, fc.array(fc.nat(), { minLength: 3, maxLength: 6 }), (from, appends, cuts) => {
        const blocks = cutInto(from, appends, cuts);
        fc.pre(blocks.length >= 3);
        const [first, ...others] = blocks as [Buffer, ...Buffer[]];
        const outer = mergeBlocks([mergeBlocks([first, others[0] as Buffer]), ...others.slice(1)]);
        expect(outer.equals(mergeBlocks([first, mergeBlocks(others)]))).toBe(true);
        const tail = decodeBlock(mergeBlocks(others));
        expect(tail.resumes).toBe(decodeBlock(others[0] as Buffer).resumes);
      }),
    );
  });

  it('refuses strangers, a lost piece and too much', () => {
    const block = (from: number, flags: { resumes?: boolean; continues?: boolean } = {}, bytes = 4): Buffer =>
      encodeBlock({ start: at(from), resumes: false, continues: false, ...flags, entries: [{ bytes, atMs: 1 }], payload: [Buffer.alloc(bytes, 1)] });
    expect(() => mergeBlocks([])).toThrow();
    expect(() => mergeBlocks([block(0), block(5)])).toThrow('end at 4');
    expect(() => mergeBlocks([block(0, { continues: true }), block(4)])).toThrow(BadBytes);
    expect(() => mergeBlocks([block(0), block(4, { resumes: true })])).toThrow(BadBytes);
    expect(() => mergeBlocks([block(0, {}, BLOCK_PAYLOAD_MAX), block(BLOCK_PAYLOAD_MAX)])).toThrow('too many');
  });

  it('I9 keeps damage of a payload visible', () => {
    const [a, b] = [packAppends(at(0), [{ payload: Buffer.alloc(100, 1), atMs: 1 }]), packAppends(at(100), [{ payload: Buffer.alloc(100, 2), atMs: 2 }])].map((packed) => (packed[0] as PackedBlock).value) as [Buffer, Buffer];
    a[a.length - 5] = 9;
    expect(() => decodeBlock(mergeBlocks([a, b]))).toThrow(BadBytes);
  });
});
