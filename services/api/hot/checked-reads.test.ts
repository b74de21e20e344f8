import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { checkedGet, checkedScan, probesOf } from './checked-reads.js';
import { HotStoreCorrupt } from './errors.js';
import { entriesOf, EVERYTHING } from './hot-bed.contract.js';
import { openRocksStore } from './rocks-store.js';
import { isSelfChecked, rowSum, withoutSum, withSum } from './row-check.js';
import type { HotEntry } from './store.js';

const dirs: string[] = [];

async function tempDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'firn-checked-'));
  dirs.push(dir);
  return dir;
}

afterEach(async () => {
  await Promise.all(dirs.splice(0).map((dir) => rm(dir, { recursive: true, force: true })));
});

describe('the sum behind a value', () => {
  it('gives the value back under its key and under no other', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 30 }), fc.uint8Array({ maxLength: 30 }), fc.uint8Array({ minLength: 1, maxLength: 30 }), (a, b, c) => {
        const [key, value, other] = [Buffer.from([0x7f, ...a]), Buffer.from(b), Buffer.from([0x7f, ...c])];
        const stored = withSum(value, rowSum(key, value));
        expect(withoutSum(key, stored)).toEqual(value);
        if (!other.equals(key)) expect(() => withoutSum(other, stored)).toThrow(HotStoreCorrupt);
        for (let at = 0; at < stored.length; at++) {
          const damaged = Buffer.from(stored);
          damaged[at] = (damaged[at] as number) ^ 1;
          expect(() => withoutSum(key, damaged)).toThrow(HotStoreCorrupt);
        }
        for (let length = 0; length < Math.min(4, stored.length); length++) expect(() => withoutSum(key, stored.subarray(0, length))).toThrow(HotStoreCorrupt);
      }),
    );
  });

  it('is left out for data and markers, which carry their own', () => {
    expect([0x12, 0x02, 0x10, 0x01].map((kind) => isSelfChecked(Buffer.from([kind, 0])))).toEqual([true, true, false, false]);
    const raw = Buffer.from('raw');
    expect(withoutSum(Buffer.from([0x12]), raw)).toBe(raw);
  });
});

describe('checked reads', () => {
  it('probe the first row and then one in each stretch of half a block', () => {
    const entry = (index: number, bytes: number): HotEntry => ({ key: Buffer.from([0x7f, index]), value: Buffer.alloc(bytes) });
    const indices = (page: HotEntry[]): number[] => probesOf(page).map((key) => key[1] as number);
    expect(indices([])).toEqual([]);
    expect(indices([entry(0, 10)])).toEqual([0]);
    expect(indices(Array.from({ length: 9 }, (_, index) => entry(index, 600)))).toEqual([0, 3, 6]);
    expect(indices(Array.from({ length: 4 }, (_, index) => entry(index, 5_000)))).toEqual([0, 1, 2, 3]);
  });

  it('gives undefined for what is not there', async () => {
    const store = await openRocksStore(await tempDir());
    expect(await checkedGet(store, Buffer.from([0x7f]))).toBeUndefined();
    await store.batch([{ type: 'put', key: Buffer.from([0x7f]), value: Buffer.from('no sum') }], true);
    await expect(checkedGet(store, Buffer.from([0x7f]))).rejects.toBeInstanceOf(HotStoreCorrupt);
    await expect(entriesOf({ scan: (range) => checkedScan(store, range) }, EVERYTHING)).rejects.toBeInstanceOf(HotStoreCorrupt);
    expect(await entriesOf({ scan: (range) => checkedScan(store, range) }, { ...EVERYTHING, values: false })).toHaveLength(1);
    await store.close();
  });
});
