import { rm } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { HotStoreDamaged } from './durable.js';
import { HotStoreFormat, HotStoreLocked } from './errors.js';
import { entriesOf, EVERYTHING, put, valueOf, useBeds } from './hot-bed.contract.js';
import { metaRow } from './keys/meta.js';
import { openRocksStore } from './rocks-store.js';
import { rowSum, withSum } from './row-check.js';
import { StoreClosed, type HotOp } from './store.js';

const newBed = useBeds();

describe('DurableStore', () => {
  it('commits, reads, and goes on with the next number after a restart', async () => {
    const bed = await newBed();
    let store = await bed.open();
    expect(store.nextBatch).toBe(1);
    await store.commit([put('a', '1'), put('b', '2')]);
    await store.commit([{ type: 'del', key: Buffer.from('\x7fb') }]);
    await store.commit([]);
    expect(store.nextBatch).toBe(4);
    await store.close();
    store = await bed.open();
    expect(store.nextBatch).toBe(4);
    expect([await valueOf(store, 'a'), await valueOf(store, 'b')]).toEqual(['1', undefined]);
    expect((await store.getMany([Buffer.from('\x7fb'), Buffer.from('\x7fa')])).map(String)).toEqual(['undefined', '1']);
    expect((await entriesOf(store, { from: Buffer.from('\x7f'), to: Buffer.from('\x80') })).map((entry) => `${entry.key}=${entry.value}`)).toEqual(['\x7fa=1']);
    await store.close();
    expect(bed.events('warn')).toEqual([]);
  });

  it('asserts that one commit runs at a time', async () => {
    const store = await (await newBed()).open();
    const first = store.commit([put('a', '1')]);
    await expect(store.commit([put('a', '2')])).rejects.toThrow('before the one before has settled');
    await first;
    await store.commit([put('a', '3')]);
    expect(await valueOf(store, 'a')).toBe('3');
    await store.close();
  });

  it('R095 refuses a directory in use and leaves the other owner unharmed', async () => {
    const bed = await newBed();
    const store = await bed.open();
    for (let attempt = 0; attempt < 3; attempt++) await expect(bed.open()).rejects.toBeInstanceOf(HotStoreLocked);
    await store.commit([put('a', '1')]);
    await store.close();
    await (await bed.open()).close();
  });

  it('closes while a commit and scans run, and refuses everything after', async () => {
    const bed = await newBed();
    const store = await bed.open();
    await store.commit(Array.from({ length: 3_000 }, (_, index) => put(`k${index}`, 'v')));
    const scan = store.scan({ ...EVERYTHING, pageBytes: 100 })[Symbol.asyncIterator]();
    expect((await scan.next()).done).toBe(false);
    const commit = store.commit([put('last', '1')]);
    await store.close();
    await commit;
    await expect(scan.next()).rejects.toBeInstanceOf(StoreClosed);
    for (const refused of [store.commit([]), store.get(Buffer.from('k')), store.getMany([Buffer.from('k')]), entriesOf(store, EVERYTHING), store.reopen()]) await expect(refused).rejects.toBeInstanceOf(StoreClosed);
    const again = await bed.open();
    expect(await valueOf(again, 'last')).toBe('1');
    await again.close();
  });

  it('refuses an unknown format, a foreign directory, and one whose format row is gone', async () => {
    const cases: [HotOp[], unknown, string][] = [
      [[{ type: 'put', key: metaRow.key('format'), value: checked('format', 'firn-hot 3') }], HotStoreFormat, 'has format 3, this program knows format 2'],
      [[{ type: 'put', key: metaRow.key('format'), value: checked('format', 'other') }], HotStoreFormat, 'is not a hot store of Firn'],
      [[{ type: 'del', key: metaRow.key('format') }], HotStoreDamaged, 'not the row that names its format'],
      [[{ type: 'del', key: metaRow.key('verified') }], HotStoreDamaged, 'how far the batches were checked is missing'],
    ];
    for (const [ops, kind, text] of cases) {
      const bed = await newBed();
      await (await bed.open()).close();
      const raw = await openRocksStore(bed.dir);
      await raw.batch(ops, true);
      await raw.close();
      const error: unknown = await bed.open().catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(kind);
      expect((error as Error).message).toContain(text);
      expect(bed.events('error')).toEqual(['hot-store-refused']);
    }
  });

  it('opens a directory of format 1, which is one of the current format from then on', async () => {
    const bed = await newBed();
    const store = await bed.open();
    await store.commit([put('a', '1')]);
    await store.close();
    const raw = await openRocksStore(bed.dir);
    await raw.batch([{ type: 'put', key: metaRow.key('format'), value: checked('format', 'firn-hot 1') }], true);
    await raw.close();
    const again = await bed.open();
    expect(await valueOf(again, 'a')).toBe('1');
    expect((await again.get(metaRow.key('format')))?.toString()).toBe('firn-hot 2');
    await again.close();
  });

  it('refuses an empty directory when batches were acknowledged', async () => {
    const bed = await newBed();
    const store = await bed.open();
    for (let n = 0; n < 3; n++) await store.commit([put('a', String(n))]);
    await store.close();
    await rm(bed.dir, { recursive: true });
    const error: unknown = await bed.open().catch((reason: unknown) => reason);
    expect((error as HotStoreDamaged).missingBatches).toEqual([{ from: 1, to: 3 }]);
  });

  it('checks only the batches that are not in tables yet', async () => {
    const bed = await newBed();
    const store = await bed.open({ rocks: { writeBufferBytes: 65_536 }, lookEveryCommits: 16 });
    for (let n = 0; n < 2_000; n++) await store.commit([put(`k${n}`, 'v'.repeat(500))]);
    const crashed = await bed.crashCopy();
    await store.close();
    await (await crashed.open()).close();
    const [opened] = crashed.lines.filter((line) => line.event === 'hot-store-open');
    expect(opened?.fields).toMatchObject({ batch: 2_000, checkedFrom: expect.any(Number) });
    const { checkedFrom } = opened?.fields as { checkedFrom?: number } | undefined ?? {};
    expect(checkedFrom).toBeGreaterThan(1_000);
    expect(checkedFrom).toBeLessThan(2_000);
  });

  it('keeps few markers: the ring turns', async () => {
    const bed = await newBed();
    for (let run = 0; run < 3; run++) {
      const store = await bed.open({ markerRing: 16 });
      expect(store.nextBatch).toBe(run * 50 + 1);
      for (let n = 0; n < 50; n++) await store.commit([put('a', `${run}-${n}`)]);
      const markers = await entriesOf(store, { from: Buffer.from([2]), to: Buffer.from([3]) });
      expect(markers).toHaveLength(16);
      await store.close();
    }
  });
});

function checked(name: string, value: string): Buffer {
  return withSum(Buffer.from(value), rowSum(metaRow.key(name), Buffer.from(value)));
}
