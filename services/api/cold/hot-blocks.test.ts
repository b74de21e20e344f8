import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import { decodeBlock, encodeBlock, packAppends } from '../../../shared/storage/block.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { HotGap } from '../hot/errors.js';
import { dataRow } from '../hot/keys/index.js';
import type { DurableStore } from '../hot/durable.js';
import type { HotEntry, ScanRange } from '../hot/store.js';
import { cutBlock, hotSum, rangeBlocks, RangeSum } from './hot-blocks.js';

const INCARNATION = 2 ** 52 as Incarnation;

/** The scans that these functions make, over a sorted list. */
function storeOf(values: readonly Buffer[]): DurableStore {
  const rows: HotEntry[] = values.map((value) => ({ key: dataRow.key(7, INCARNATION, decodeBlock(value).end), value }));
  return {
    async *scan(range: ScanRange) {
      const found = rows.filter(({ key }) => Buffer.compare(key, range.from) >= 0 && Buffer.compare(key, range.to) < 0);
      for (let at = 0; at < found.length; at += 3) yield found.slice(at, at + 3);
    },
  } as unknown as DurableStore;
}

interface Appended {
  readonly values: Buffer[];
  readonly bytes: Buffer;
  /** End and time of every append. */
  readonly ends: { readonly end: number; readonly atMs: number }[];
}

/** Appends, in batches of one value or several. */
function appended(start: number, batches: readonly (readonly number[])[]): Appended {
  const values: Buffer[] = [];
  const all: Buffer[] = [];
  const ends: { end: number; atMs: number }[] = [];
  let at = start;
  let clock = 1_000;
  for (const sizes of batches) {
    const appends = sizes.map((size) => ({ payload: Buffer.alloc(size, clock % 251), atMs: clock++ }));
    for (const { value } of packAppends(at as Offset, appends)) values.push(value);
    for (const { payload, atMs } of appends) {
      at += payload.length;
      ends.push({ end: at, atMs });
      all.push(payload);
    }
  }
  return { values, bytes: Buffer.concat(all), ends };
}

const anyBatches = fc.array(fc.array(fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 100_000, max: 600_000 })), { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 8 });

async function collect(store: DurableStore, from: number, to: number): Promise<Buffer[]> {
  const blocks: Buffer[] = [];
  for await (const block of rangeBlocks(store, { slot: 7, incarnation: INCARNATION, from: from as Offset, to: to as Offset })) blocks.push(block);
  return blocks;
}

function endsIn(blocks: readonly Buffer[]): { end: number; atMs: number }[] {
  const ends: { end: number; atMs: number }[] = [];
  for (const block of blocks) {
    const { start, entries, continues } = decodeBlock(block);
    let at = start as number;
    entries.forEach((entry, index) => {
      at += entry.bytes;
      if (index < entries.length - 1 || !continues) ends.push({ end: at, atMs: entry.atMs });
    });
  }
  return ends;
}

describe('blocks of a hot range', () => {
  it('hold exactly the range, its bytes and its append boundaries, wherever it is cut (I3)', async () => {
    await fc.assert(fc.asyncProperty(anyBatches, fc.nat(1_000), fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }), async (batches, start, a, b) => {
      const { values, bytes, ends } = appended(start, batches);
      const [low, high] = [Math.min(a, b), Math.max(a, b)].map((part) => start + Math.floor(part * bytes.length)) as [number, number];
      const store = storeOf(values);
      const blocks = await collect(store, low, high);
      let at = low;
      for (const block of blocks) {
        expect(decodeBlock(block).start).toBe(at);
        at = decodeBlock(block).end;
      }
      expect(at).toBe(high);
      expect(Buffer.concat(blocks.map((block) => decodeBlock(block).payload)).equals(bytes.subarray(low - start, high - start))).toBe(true);
      const inside = ends.filter(({ end }) => end > low && end < high);
      expect(endsIn(blocks).filter(({ end }) => end < high)).toEqual(inside);
      const sum = new RangeSum(low as Offset);
      for (const block of blocks) expect(sum.add(decodeBlock(block))).toBe(true);
      expect((await hotSum(store, { slot: 7, incarnation: INCARNATION, from: low as Offset, to: high as Offset })).equals(sum)).toBe(true);
    }), { numRuns: 60 });
  });

  it('are large: neighbours are joined', async () => {
    const { values } = appended(0, Array.from({ length: 500 }, () => [1_000]));
    const blocks = await collect(storeOf(values), 0, 500_000);
    expect(blocks).toHaveLength(2);
  });

  it('throw for a gap and for damage, and never end short', async () => {
    const { values } = appended(0, [[100], [100], [100]]);
    await expect(collect(storeOf([values[0] as Buffer, values[2] as Buffer]), 0, 300)).rejects.toBeInstanceOf(HotGap);
    await expect(collect(storeOf(values), 0, 301)).rejects.toBeInstanceOf(HotGap);
    await expect(hotSum(storeOf(values.slice(0, 2)), { slot: 7, incarnation: INCARNATION, from: 0 as Offset, to: 300 as Offset })).rejects.toBeInstanceOf(HotGap);
    const flipped = Buffer.from(values[1] as Buffer);
    const rows = [values[0] as Buffer, values[1] as Buffer, values[2] as Buffer];
    const store = storeOf(rows);
    flipped[flipped.length - 1] = (flipped[flipped.length - 1] as number) ^ 1;
    const damaged = { async *scan(range: ScanRange) {
      for await (const page of store.scan(range)) yield page.map((row) => (row.value === rows[1] ? { ...row, value: flipped } : row));
    } } as unknown as DurableStore;
    await expect(collect(damaged, 0, 300)).rejects.toBeInstanceOf(BadBytes);
  });

  it('other bytes, other boundaries or other times give another sum', () => {
    const make = (entries: readonly { bytes: number; atMs: number }[], fill: string): RangeSum => {
      const sum = new RangeSum(5 as Offset);
      const bytes = entries.reduce((total, entry) => total + entry.bytes, 0);
      sum.add(decodeBlock(encodeBlock({ start: 5 as Offset, resumes: false, continues: false, entries, payload: [Buffer.alloc(bytes, fill)] })));
      return sum;
    };
    const base = make([{ bytes: 10, atMs: 1 }, { bytes: 10, atMs: 2 }], 'a');
    expect(base.equals(make([{ bytes: 10, atMs: 1 }, { bytes: 10, atMs: 2 }], 'a'))).toBe(true);
    expect(base.equals(make([{ bytes: 10, atMs: 1 }, { bytes: 10, atMs: 2 }], 'b'))).toBe(false);
    expect(base.equals(make([{ bytes: 11, atMs: 1 }, { bytes: 9, atMs: 2 }], 'a'))).toBe(false);
    expect(base.equals(make([{ bytes: 10, atMs: 1 }, { bytes: 10, atMs: 3 }], 'a'))).toBe(false);
    expect(base.equals(make([{ bytes: 20, atMs: 1 }], 'a'))).toBe(false);
  });

  it('a cut that is the whole block gives the very same bytes', () => {
    const [value] = appended(10, [[50, 60]]).values;
    expect(cutBlock(value as Buffer, 0 as Offset, 1_000 as Offset)).toBe(value);
  });
});
