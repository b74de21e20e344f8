/**
 * What every implementation of `HotStore` must do. Mount it with one line in the implementation's test.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StoreClosed, type HotEntry, type HotOp, type HotStore, type ScanRange } from './store.js';

export interface HotStoreBed {
  /** Opens the one directory of this bed; called again after a close. */
  open(): Promise<HotStore>;
  remove(): Promise<void>;
}

export function hotStoreContract(name: string, makeBed: () => Promise<HotStoreBed>): void {
  describe(`${name} is a hot store`, () => {
    let bed: HotStoreBed;
    let store: HotStore;

    beforeEach(async () => {
      bed = await makeBed();
      store = await bed.open();
    });

    afterEach(async () => {
      await store.close();
      await bed.remove();
    });

    it('gives back what a batch put, and undefined for what is not there', async () => {
      await store.batch([put('a', '1'), put('b', '')], true);
      expect(await store.get(bytes('a'))).toEqual(bytes('1'));
      expect(await store.get(bytes('b'))).toEqual(bytes(''));
      expect(await store.get(bytes('c'))).toBeUndefined();
      expect(await store.getMany([bytes('c'), bytes('b'), bytes('a'), bytes('a')])).toEqual([undefined, bytes(''), bytes('1'), bytes('1')]);
      expect(await store.getMany([])).toEqual([]);
    });

    it('applies the operations of a batch in order and all together', async () => {
      await store.batch([put('a', 'old'), put('gone', 'x')], true);
      await store.batch([put('a', 'new'), del('gone'), put('b', '1'), del('b'), del('never'), put('c', '1'), put('c', '2')], false);
      expect(await all(store, {})).toEqual(['a=new', 'c=2']);
    });

    it('refuses an empty key and writes nothing of that batch', async () => {
      await expect(store.batch([put('a', '1'), put('', '2')], true)).rejects.toThrow('empty key');
      await expect(store.get(bytes(''))).rejects.toThrow('empty key');
      await expect(store.getMany([bytes('a'), bytes('')])).rejects.toThrow('empty key');
      expect(await all(store, {})).toEqual([]);
    });

    it('does not look at the buffers of a batch after the call returned', async () => {
      const value = bytes('before');
      const written = store.batch([{ type: 'put', key: bytes('k'), value }], true);
      value.fill('x');
      await written;
      expect(await store.get(bytes('k'))).toEqual(bytes('before'));
    });

    it('orders keys bytewise', async () => {
      const keys = [[0], [0, 0], [0, 255], [1], [127], [128], [255], [255, 0], [255, 255]].map((key) => Buffer.from(key));
      await store.batch([...keys].reverse().map((key) => ({ type: 'put', key, value: key }) as const), true);
      const found: Buffer[] = [];
      for await (const page of store.scan({ from: Buffer.from([0]), to: Buffer.from([255, 255, 255]) })) found.push(...page.map((entry) => entry.key));
      expect(found).toEqual(keys);
    });

    it('scans from an inclusive to an exclusive bound, forwards and backwards', async () => {
      await store.batch(['a', 'b', 'c', 'd', 'e'].map((key) => put(key, key)), true);
      expect(await all(store, { from: bytes('b'), to: bytes('d') })).toEqual(['b=b', 'c=c']);
      expect(await all(store, { from: bytes('b'), to: bytes('d'), reverse: true })).toEqual(['c=c', 'b=b']);
      expect(await all(store, { from: bytes('bb'), to: bytes('dd') })).toEqual(['c=c', 'd=d']);
      expect(await all(store, { from: bytes('bb'), to: bytes('dd'), reverse: true })).toEqual(['d=d', 'c=c']);
      expect(await all(store, { from: bytes('c'), to: bytes('c') })).toEqual([]);
      expect(await all(store, { from: bytes('d'), to: bytes('b') })).toEqual([]);
      expect(await all(store, { from: bytes('e'), to: bytes('z'), reverse: true })).toEqual(['e=e']);
      expect(await all(store, { from: bytes('f'), to: bytes('z') })).toEqual([]);
    });

    it('stops at the limit', async () => {
      await store.batch(numbered(50), true);
      for (const limit of [0, 1, 2, 49, 50, 51]) {
        expect(await all(store, { limit })).toHaveLength(Math.min(limit, 50));
        expect(await all(store, { limit, reverse: true, pageBytes: 1 })).toEqual((await all(store, {})).reverse().slice(0, limit));
      }
    });

    it('leaves values out on request', async () => {
      await store.batch([put('a', 'value')], true);
      expect(await all(store, { values: false })).toEqual(['a=']);
    });

    it('gives the same entries whatever the size of the pages', async () => {
      await store.batch(numbered(3_000), true);
      const expected = numbered(3_000).map((op) => `${op.key}=${op.value}`);
      for (const pageBytes of [1, 100, 10_000, 1_048_576]) {
        const sizes: number[] = [];
        expect(await all(store, { pageBytes }, sizes)).toEqual(expected);
        expect(Math.max(...sizes)).toBeLessThanOrEqual(pageBytes + 100);
      }
    });

    it('keeps big values whole', async () => {
      const big = Buffer.alloc(300_000, 'big value ');
      await store.batch([...'abcdefgh'].map((key) => ({ type: 'put', key: bytes(key), value: big }) as const), true);
      expect(await store.get(bytes('h'))).toEqual(big);
      let found = 0;
      for await (const page of store.scan({ from: bytes('a'), to: bytes('z') })) {
        for (const entry of page) {
          expect(entry.value.equals(big)).toBe(true);
          found++;
        }
      }
      expect(found).toBe(8);
    });

    it('shows a scan one moment while writes go on', async () => {
      await store.batch(numbered(2_000), true);
      const before = await all(store, {});
      const found: string[] = [];
      for await (const page of store.scan({ from: bytes('k'), to: bytes('l'), pageBytes: 2_000 })) {
        found.push(...page.map(show));
        await store.batch([put('k00000', 'changed'), put(`k9${found.length}`, 'new'), put('k01999', 'changed'), del('k01000')], false);
      }
      expect(found).toEqual(before);
      expect(await all(store, { from: bytes('k01999') })).not.toEqual(before.slice(-1));
    });

    it('runs many scans at once', async () => {
      await store.batch(numbered(2_000), true);
      const expected = await all(store, {});
      const runs = Array.from({ length: 200 }, (_, index) => all(store, { pageBytes: 1_000 + index * 50 }));
      for (const found of await Promise.all(runs)) expect(found).toEqual(expected);
    });

    it('ends the view when a loop breaks or throws', async () => {
      await store.batch(numbered(2_000), true);
      for await (const page of store.scan({ from: bytes('k'), to: bytes('l'), pageBytes: 100 })) {
        expect(page).toHaveLength(1);
        break;
      }
      const failing = (async () => {
        for await (const page of store.scan({ from: bytes('k'), to: bytes('l'), pageBytes: 100 })) throw new Error(`after ${page.length}`);
      })();
      await expect(failing).rejects.toThrow('after 1');
      await store.close();
    });

    it('keeps what was written over a close', async () => {
      await store.batch(numbered(100), true);
      await store.batch([del('k00050')], true);
      const before = await all(store, {});
      await store.close();
      store = await bed.open();
      expect(await all(store, {})).toEqual(before);
    });

    it('R091 closing ends a scan with StoreClosed, never with an early end', async () => {
      await store.batch(numbered(5_000), true);
      const seen: string[] = [];
      const scans = Array.from({ length: 40 }, async () => {
        for await (const page of store.scan({ from: bytes('k'), to: bytes('l'), pageBytes: 500 })) {
          seen.push(...page.map(show));
          await new Promise((resolve) => setImmediate(resolve));
        }
        return 'ended';
      });
      const outcomes = Promise.allSettled(scans);
      while (seen.length < 1_000) await new Promise((resolve) => setImmediate(resolve));
      await store.close();
      for (const outcome of await outcomes) {
        expect(outcome.status).toBe('rejected');
        expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(StoreClosed);
      }
    });

    it('R091 closing waits for reads and writes that run, and refuses later ones', async () => {
      await store.batch(numbered(100), true);
      const reads = Array.from({ length: 50 }, (_, index) => store.get(bytes(`k${String(index).padStart(5, '0')}`)));
      const many = store.getMany(numbered(100).map((op) => op.key));
      const write = store.batch([put('last', '1')], true);
      const closed = store.close();
      expect(store.close()).toBe(closed);
      for (const refused of [store.get(bytes('k')), store.getMany([bytes('k')]), store.batch([put('x', '1')], false), all(store, {})]) await expect(refused).rejects.toBeInstanceOf(StoreClosed);
      expect((await Promise.all(reads)).every((value) => value !== undefined)).toBe(true);
      expect((await many).every((value) => value !== undefined)).toBe(true);
      await write;
      await closed;
      store = await bed.open();
      expect(await store.get(bytes('last'))).toEqual(bytes('1'));
      expect(await store.get(bytes('x'))).toBeUndefined();
    });

    it('R091 a scan that is left standing does not keep the store from closing', async () => {
      await store.batch(numbered(100), true);
      const scan = store.scan({ from: bytes('k'), to: bytes('l'), pageBytes: 1 })[Symbol.asyncIterator]();
      expect((await scan.next()).done).toBe(false);
      await store.close();
      await expect(scan.next()).rejects.toBeInstanceOf(StoreClosed);
    });
  });
}

function bytes(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

function put(key: string, value: string): HotOp & { type: 'put' } {
  return { type: 'put', key: bytes(key), value: bytes(value) };
}

function del(key: string): HotOp {
  return { type: 'del', key: bytes(key) };
}

function numbered(count: number): (HotOp & { type: 'put' })[] {
  return Array.from({ length: count }, (_, index) => put(`k${String(index).padStart(5, '0')}`, `value ${index}`));
}

function show(entry: HotEntry): string {
  return `${entry.key.toString('latin1')}=${entry.value.toString('latin1')}`;
}

/** Everything in a range as `key=value`; `sizes` collects the bytes of each page. */
async function all(store: HotStore, range: Partial<ScanRange>, sizes: number[] = []): Promise<string[]> {
  const found: string[] = [];
  for await (const page of store.scan({ from: bytes('\0'), to: bytes('\xff'), ...range })) {
    found.push(...page.map(show));
    sizes.push(page.reduce((sum, entry) => sum + entry.key.length + entry.value.length, 0));
  }
  return found;
}
