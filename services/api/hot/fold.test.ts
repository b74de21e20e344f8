import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { advance, ZERO, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import { decodeBlock, packAppends, type BlockEntry } from '../../../shared/storage/block.js';
import type { DurableStore } from './durable.js';
import { HotDamaged } from './errors.js';
import { FOLD_ROWS_MIN, FOLD_SMALL_BYTES, FOLD_STEP_BYTES, FOLD_TARGET_BYTES, foldStep, planFold } from './fold.js';
import { entriesOf, HotBed, TestStream } from './hot-bed.contract.js';
import { dataRow } from './keys/data.js';
import type { HotEntry, HotOp } from './store.js';

const INC = 2 ** 52 as Incarnation;
const SLOT = 7;

/** Values of one stream, one an element of `batches`; each batch holds appends of these sizes. */
function rowsOf(batches: readonly (readonly number[])[]): HotEntry[] {
  const rows: HotEntry[] = [];
  let tail: Offset = ZERO;
  let seed = 0;
  for (const sizes of batches) {
    const appends = sizes.map((size) => ({ payload: Buffer.alloc(size, (seed++ & 0x7f) + 1), atMs: 1_700_000_000_000 + seed }));
    for (const { end, value } of packAppends(tail, appends)) rows.push({ key: dataRow.key(SLOT, INC, end), value });
    for (const size of sizes) tail = advance(tail, size);
  }
  return rows;
}

/** The rows after the operations, in key order. */
function apply(rows: readonly HotEntry[], ops: readonly HotOp[]): HotEntry[] {
  const byKey = new Map(rows.map((row) => [row.key.toString('hex'), row]));
  for (const op of ops) {
    if (op.type === 'del') {
      expect(byKey.delete(op.key.toString('hex'))).toBe(true);
    } else {
      expect(byKey.has(op.key.toString('hex'))).toBe(true);
      byKey.set(op.key.toString('hex'), op);
    }
  }
  return [...byKey.values()].sort((a, b) => Buffer.compare(a.key, b.key));
}

/** Bytes and whole entries over all rows: what clients see. */
function contentOf(rows: readonly HotEntry[]): { bytes: Buffer; entries: BlockEntry[] } {
  const entries: BlockEntry[] = [];
  const payloads: Buffer[] = [];
  let expected = 0;
  for (const { key, value } of rows) {
    const block = decodeBlock(value);
    expect(block.start).toBe(expected);
    expect(dataRow.decodeKey(key).end).toBe(block.end);
    expected = block.end;
    payloads.push(block.payload);
    for (const [index, { bytes, atMs }] of block.entries.entries()) {
      const open = entries.at(-1);
      if (index === 0 && block.resumes && open !== undefined) entries[entries.length - 1] = { bytes: open.bytes + bytes, atMs: open.atMs };
      else entries.push({ bytes, atMs });
    }
  }
  return { bytes: Buffer.concat(payloads), entries };
}

function expectSameContent(rows: readonly HotEntry[], expected: readonly HotEntry[]): void {
  const [left, right] = [contentOf(rows), contentOf(expected)];
  // The matcher for equality takes seconds for buffers of megabytes.
  expect(left.bytes.equals(right.bytes)).toBe(true);
  expect(left.entries).toEqual(right.entries);
}

const anyBatches = fc.array(fc.array(fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 1, max: 3_000 }) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 70_000 }) }, { weight: 1, arbitrary: fc.constantFrom(262_144, 300_000) }), { minLength: 1, maxLength: 4 }), { maxLength: 40 });

describe('planFold', () => {
  it('keeps bytes, entry borders and times, and crosses no border', () => {
    fc.assert(
      fc.property(anyBatches, fc.array(fc.nat()), (batches, picks) => {
        const rows = rowsOf(batches);
        const ends = rows.map((row) => dataRow.decodeKey(row.key).end);
        const borders = ends.length === 0 ? [] : picks.map((pick) => ends[pick % ends.length] as Offset);
        const folded = apply(rows, planFold(rows, borders));
        expectSameContent(folded, rows);
        const left = new Set<number>(folded.map((row) => dataRow.decodeKey(row.key).end));
        for (const border of borders) expect(left.has(border)).toBe(true);
        for (const row of folded) {
          const block = decodeBlock(row.value);
          if (!rows.some((other) => other.value === row.value)) expect(block.end - block.start).toBeLessThanOrEqual(FOLD_TARGET_BYTES);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('comes to rest: folding again and again writes each byte a few times', () => {
    let rows = rowsOf(Array.from({ length: 1_000 }, () => [1_000]));
    let written = 0;
    for (let round = 0; round < 10; round++) {
      const ops = planFold(rows, []);
      for (const op of ops) if (op.type === 'put') written += op.value.length;
      rows = apply(rows, ops);
    }
    expect(rows.length).toBeLessThan(32);
    expect(written).toBeLessThan(2 * 1_000_000);
    expect(planFold(rows, [])).toEqual([]);
  });

  it('writes each byte a few times too when values come in one by one', () => {
    let rows: HotEntry[] = [];
    let written = 0;
    const all = rowsOf(Array.from({ length: 600 }, () => [1_000]));
    for (const row of all) {
      rows.push(row);
      const ops = planFold(rows, []);
      for (const op of ops) if (op.type === 'put') written += op.value.length;
      rows = apply(rows, ops);
    }
    expect(rows.length).toBeLessThan(600_000 / FOLD_SMALL_BYTES + FOLD_ROWS_MIN);
    expect(written).toBeLessThan(12 * 600_000);
    expectSameContent(rows, all);
  });

  it('leaves alone what is not worth it', () => {
    const plan = (batches: number[][]): number => planFold(rowsOf(batches), []).length;
    expect(plan([])).toBe(0);
    expect(plan([[10]])).toBe(0);
    expect(plan(Array.from({ length: FOLD_ROWS_MIN - 1 }, () => [10]))).toBe(0);
    expect(plan(Array.from({ length: FOLD_ROWS_MIN }, () => [10]))).toBe(FOLD_ROWS_MIN);
    expect(plan([[FOLD_SMALL_BYTES], [FOLD_SMALL_BYTES], [FOLD_SMALL_BYTES], [FOLD_SMALL_BYTES]])).toBe(0);
    expect(plan([[FOLD_SMALL_BYTES - 1], [1]])).toBe(2);
    expect(plan([[10], [10], [40_000], [10], [10]])).toBe(0);
  });

  it('I9 refuses rows that do not touch or are damaged', () => {
    const rows = rowsOf(Array.from({ length: 5 }, () => [10]));
    expect(() => planFold(rows.filter((_, index) => index !== 2), [])).toThrow(HotDamaged);
    const damaged = rows.map((row, index) => (index === 1 ? { key: row.key, value: Buffer.from(row.value.map((byte, at) => (at === 3 ? byte ^ 1 : byte))) } : row));
    expect(() => planFold(damaged, [])).toThrow(HotDamaged);
    const misplaced = rows.map((row, index) => (index === 1 ? { key: row.key, value: (rows[2] as HotEntry).value } : row));
    expect(() => planFold(misplaced, [])).toThrow(HotDamaged);
  });

  it('does not hide a payload that was damaged before', () => {
    const rows = rowsOf(Array.from({ length: 5 }, () => [100]));
    const payloadAt = decodeBlock((rows[2] as HotEntry).value).payloadAt;
    (rows[2] as HotEntry).value[payloadAt + 5] = 0xff;
    const [merged] = planFold(rows, []).filter((op) => op.type === 'put');
    expect(merged?.type).toBe('put');
    expect(() => decodeBlock((merged as HotOp & { type: 'put' }).value)).toThrow('checksum');
  });
});

describe('foldStep', () => {
  let bed: HotBed;
  let store: DurableStore;

  beforeEach(async () => {
    bed = await HotBed.make();
    store = await bed.open();
  });

  afterEach(async () => {
    await store.close();
    await bed.remove();
  });

  it('folds a stream step by step, within its range only', async () => {
    const stream = new TestStream('demo/folds' as StreamKey, INC);
    for (let batch = 0; batch < 250; batch++) await store.commit(Array.from({ length: 10 }, () => stream.append(Buffer.alloc(1_000, batch))[0] as HotOp));
    const rows = (): Promise<HotEntry[]> => entriesOf(store, dataRow.range(stream.slot, INC));
    const before = await rows();
    // Starts inside the second value and ends inside one: both stay as they are.
    const [from, to] = [1_500 as Offset, 2_400_500 as Offset];
    let at: Offset = from;
    let steps = 0;
    for (let more = true; more; steps++) {
      const step = await foldStep(store, stream.slot, INC, at, to, [100_000 as Offset]);
      await store.commit(step.ops);
      expect(step.ops.reduce((sum, op) => sum + (op.type === 'put' ? op.value.length : 0), 0)).toBeLessThan(FOLD_STEP_BYTES + 100_000);
      at = step.to;
      more = step.more;
    }
    expect(steps).toBeGreaterThan(1);
    expect(at).toBe(2_400_000);
    const after = await rows();
    expectSameContent(after, before);
    const ends = after.map((row) => dataRow.decodeKey(row.key).end as number);
    expect(ends.slice(0, 2)).toEqual([1_000, 2_000]);
    expect(ends).toContain(100_000);
    expect(ends.filter((end) => end > 2_400_000)).toHaveLength(100);
    expect(after.length).toBeLessThan(150);
  });

  it('finds nothing to do in an empty range', async () => {
    expect(await foldStep(store, SLOT, INC, ZERO, 1_000 as Offset, [])).toEqual({ ops: [], from: 0, to: 1_000, more: false });
  });
});
