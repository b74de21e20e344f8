import { describe, expect, it } from 'vitest';
import { HotStorePoisoned } from './errors.js';
import { entriesOf, EVERYTHING, failure, put, valueOf, useBeds } from './hot-bed.contract.js';
import { openRocksStore } from './rocks-store.js';
import { StoreClosed, type HotStore } from './store.js';

const newBed = useBeds();

describe('DurableStore after a failed batch (R001)', () => {
  /** A store whose batch number `failing` fails, before or after it was applied. */
  function failingStore(failing: number, applied: boolean): (dir: string) => Promise<HotStore> {
    let batches = 0;
    return async (dir) => {
      const store = await openRocksStore(dir);
      return {
        get: (key) => store.get(key),
        getMany: (keys) => store.getMany(keys),
        scan: (range) => store.scan(range),
        close: () => store.close(),
        batch: async (ops, sync) => {
          if (ops.some((op) => op.key[0] === 2) && ++batches === failing) {
            if (applied) await store.batch(ops, sync);
            throw new Error('IO error: No space left on device');
          }
          await store.batch(ops, sync);
        },
      };
    };
  }

  for (const applied of [false, true]) {
    it(`refuses every commit until it was opened again; the batch ${applied ? 'is there' : 'is not there'}`, async () => {
      const bed = await newBed();
      const store = await bed.open({ openStore: failingStore(4, applied) });
      for (let n = 1; n <= 3; n++) await store.commit([put('a', String(n))]);
      await expect(store.commit([put('a', '4')])).rejects.toThrow('No space left');
      expect(store.poisoned?.message).toContain('No space left');
      expect(store.nextBatch).toBe(4);
      for (let attempt = 0; attempt < 3; attempt++) await expect(store.commit([put('a', '5')])).rejects.toBeInstanceOf(HotStorePoisoned);
      expect(bed.events('error')).toEqual(['hot-store-poisoned']);

      const [reading] = await Promise.all([valueOf(store, 'a'), store.reopen(), store.reopen()]);
      expect(['3', '4']).toContain(reading);
      expect(store.poisoned).toBeNull();
      expect(store.nextBatch).toBe(applied ? 5 : 4);
      expect(await valueOf(store, 'a')).toBe(applied ? '4' : '3');
      await store.commit([put('a', '6')]);
      expect(store.nextBatch).toBe(applied ? 6 : 5);
      await store.close();

      const again = await bed.open();
      expect(await valueOf(again, 'a')).toBe('6');
      expect(again.nextBatch).toBe(applied ? 6 : 5);
      await again.close();
    });
  }

  it('ends scans with StoreClosed when it is opened again, and serves reads that wait for it', async () => {
    const store = await (await newBed()).open();
    await store.commit(Array.from({ length: 3_000 }, (_, index) => put(`k${String(index).padStart(4, '0')}`, 'v')));
    const scan = failure(entriesOf(store, { ...EVERYTHING, pageBytes: 100 }));
    const reopened = store.reopen();
    await expect(store.commit([])).rejects.toBeInstanceOf(HotStorePoisoned);
    const read = valueOf(store, 'k0001');
    const many = entriesOf(store, { from: Buffer.from('\x7f'), to: Buffer.from('\x80') });
    await reopened;
    expect(await scan).toBeInstanceOf(StoreClosed);
    expect(await read).toBe('v');
    expect(await many).toHaveLength(3_000);
    await store.close();
  });

  it('stays poisoned while it cannot be opened again, and heals when it can', async () => {
    const bed = await newBed();
    let broken = false;
    const store = await bed.open({
      openStore: (dir) => (broken ? Promise.reject(new Error('IO error: still no space')) : openRocksStore(dir)),
    });
    await store.commit([put('a', '1')]);
    broken = true;
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(store.reopen()).rejects.toThrow('still no space');
      await expect(store.commit([put('a', '2')])).rejects.toBeInstanceOf(HotStorePoisoned);
      await expect(store.get(Buffer.from('\x7fa'))).rejects.toBeInstanceOf(StoreClosed);
    }
    broken = false;
    await store.reopen();
    await store.commit([put('a', '2')]);
    expect(await valueOf(store, 'a')).toBe('2');
    expect(store.nextBatch).toBe(3);
    await store.close();
  });
});
