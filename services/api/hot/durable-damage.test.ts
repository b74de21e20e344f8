import { access, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import { HotStoreDamaged, type DurableStore } from './durable.js';
import { HotStoreCorrupt } from './errors.js';
import { entriesOf, EVERYTHING, flip, type HotBed, put, TestStream, valueOf, useBeds } from './hot-bed.contract.js';

const INC = 2 ** 52 as Incarnation;
const newBed = useBeds();

describe('DurableStore after damage (architecture section 5)', () => {
  /** 1,000 commits over 20 streams, and the directory as a kill leaves it. */
  async function written(): Promise<{ bed: HotBed; crashed: HotBed; store: DurableStore; log: string; length: number }> {
    const bed = await newBed();
    const store = await bed.open();
    const streams = Array.from({ length: 20 }, (_, index) => new TestStream(`demo/s${index}` as StreamKey, (INC + index) as Incarnation));
    for (let n = 0; n < 1_000; n++) await store.commit((streams[n % 20] as TestStream).append(Buffer.from(`append ${n} `.repeat(1 + (n % 7)))));
    const crashed = await bed.crashCopy();
    const log = (await crashed.files('.log')).at(-1) as string;
    return { bed, crashed, store, log, length: (await readFile(log)).length };
  }

  async function refused(bed: HotBed): Promise<HotStoreDamaged> {
    const error: unknown = await bed.open().then(async (store) => (await store.close(), 'opened'), (reason: unknown) => reason);
    expect(error).toBeInstanceOf(HotStoreDamaged);
    return error as HotStoreDamaged;
  }

  it('I9 opens a killed directory with every batch', async () => {
    const { crashed, store } = await written();
    const before = await entriesOf(store, EVERYTHING);
    await store.close();
    const again = await crashed.open();
    expect(again.nextBatch).toBe(1_001);
    const kept = (entries: typeof before): string[] => entries.filter((entry) => entry.key[0] !== 1).map((entry) => `${entry.key.toString('hex')}=${entry.value.toString('hex')}`);
    expect(kept(await entriesOf(again, EVERYTHING))).toEqual(kept(before));
    await again.close();
  });

  it('R005 a flipped byte in the write-ahead log is refused, names the missing batches and the streams with gaps, at every later open too', async () => {
    const { crashed, store, log, length } = await written();
    await store.close();
    const name = log.slice(crashed.dir.length + 1);
    // 13 positions over the whole file, then the last byte.
    for (let step = 1; step <= 14; step++) {
      const bed = await crashed.crashCopy();
      const at = step === 14 ? length - 1 : Math.floor((length * step) / 14);
      await flip(`${bed.dir}/${name}`, at);
      const error = await refused(bed);
      expect(error.missingBatches.length, `byte ${at} of ${length}`).toBeGreaterThan(0);
      const missing = error.missingBatches.reduce((sum, { from, to }) => sum + to - from + 1, 0);
      expect(missing).toBeLessThanOrEqual(1_000);
      expect(error.message).toContain('are missing');
      if (at < length * 0.9) expect(error.streamsWithGaps.length).toBeGreaterThan(0);
      for (const stream of error.streamsWithGaps) expect(stream).toMatch(/^demo\/s\d+$/);
      // RocksDB has put what was left into tables by now: the loss must not become normal.
      expect((await refused(bed)).missingBatches).toEqual(error.missingBatches);
      await bed.remove();
    }
  });

  it('I9 a log cut below the acknowledged batch is refused, one cut above it opens', async () => {
    const { bed: live, crashed, store, log, length } = await written();
    await store.commit([put('beyond', 'x'.repeat(100))]);
    const later = await live.crashCopy();
    await store.close();
    const laterLog = (await later.files('.log')).at(-1) as string;
    // The crash came between the sync of batch 1,001 and its note: the file still says 1,000.
    await writeFile(later.ackedFile, await readFile(crashed.ackedFile));
    const whole = await later.crashCopy();
    const opened = await whole.open();
    expect(opened.nextBatch).toBe(1_002);
    await opened.close();
    // And that batch may be torn, wherever it is cut.
    const laterLength = (await readFile(laterLog)).length;
    for (const cut of [length, length + 1, length + 20, laterLength - 1]) {
      const torn = await later.crashCopy();
      await truncate(`${torn.dir}${laterLog.slice(later.dir.length)}`, cut);
      const store = await torn.open();
      expect(store.nextBatch).toBe(1_001);
      expect(await valueOf(store, 'beyond')).toBeUndefined();
      await store.commit([put('next', '1')]);
      await store.close();
      await torn.remove();
    }
    for (const cut of [1, 20, 5_000]) {
      const below = await crashed.crashCopy();
      await truncate(`${below.dir}${log.slice(crashed.dir.length)}`, length - cut);
      const error = await refused(below);
      expect(error.missingBatches).toHaveLength(1);
      expect(error.missingBatches[0]?.to).toBe(1_000);
      await below.remove();
    }
  });

  it('a missing or torn acked file is reported, and the store opens', async () => {
    const { crashed, store } = await written();
    await store.close();
    const damages: [string, (bed: HotBed) => Promise<void>][] = [
      ['missing', (bed) => rm(bed.ackedFile)],
      ['short', (bed) => truncate(bed.ackedFile, 10)],
      ['flipped', (bed) => flip(bed.ackedFile, 9)],
      ['foreign', (bed) => writeFile(bed.ackedFile, 'something else that is long enough')],
    ];
    for (const [name, damage] of damages) {
      const bed = await crashed.crashCopy();
      await damage(bed);
      const opened = await bed.open();
      expect([name, opened.nextBatch, bed.events('warn')]).toEqual([name, 1_001, ['acked-unknown']]);
      await opened.commit([put('a', '1')]);
      await opened.close();
      // Known again.
      await (await bed.open()).close();
      expect(bed.events('warn')).toEqual(['acked-unknown']);
      await bed.remove();
    }
  });

  it('an acked file of another history is refused', async () => {
    const { crashed, store } = await written();
    await store.close();
    const other = await newBed();
    const elsewhere = await other.open();
    for (let n = 0; n < 500; n++) await elsewhere.commit([put('a', String(n))]);
    await elsewhere.close();
    await writeFile(crashed.ackedFile, await readFile(other.ackedFile));
    expect((await refused(crashed)).message).toContain('batch 500 is not the one that was acknowledged');
  });

  it('I9 a flipped byte in a table is never read as data, by get or by scan', async () => {
    const { crashed, store } = await written();
    const expected = new Map((await entriesOf(store, EVERYTHING)).filter((entry) => entry.key[0] !== 1).map((entry) => [entry.key.toString('hex'), entry.value.toString('hex')]));
    await store.close();
    await (await crashed.open()).close();
    const tables = await crashed.files('.sst');
    const table = tables.at(-1) as string;
    const length = (await readFile(table)).length;
    let loudScans = 0;
    let refusals = 0;
    for (let step = 0; step < 24; step++) {
      const bed = await crashed.crashCopy();
      await flip(`${bed.dir}${table.slice(crashed.dir.length)}`, Math.floor((length * (step + 0.5)) / 24), 1 << (step % 8));
      let opened: DurableStore;
      try {
        opened = await bed.open();
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
        refusals++;
        await bed.remove();
        continue;
      }
      for (const [key, value] of expected) {
        const got = await opened.get(Buffer.from(key, 'hex')).catch((error: unknown) => error);
        if (!(got instanceof HotStoreCorrupt)) expect((got as Buffer | undefined)?.toString('hex')).toBe(value);
      }
      // Data rows prove themselves through their reader; everything else is proven by the scan.
      const scanned = await entriesOf(opened, { from: Buffer.from([0x10]), to: Buffer.from([0x12]) }).catch((error: unknown) => error);
      if (scanned instanceof HotStoreCorrupt) loudScans++;
      else for (const entry of scanned as { key: Buffer; value: Buffer }[]) expect(entry.value.toString('hex')).toBe(expected.get(entry.key.toString('hex')));
      await opened.close();
      await bed.remove();
    }
    expect(loudScans + refusals).toBeGreaterThan(0);
  });

  it('I9 a missing table is loud', async () => {
    const { crashed, store } = await written();
    await store.close();
    await (await crashed.open()).close();
    const table = (await crashed.files('.sst')).at(-1) as string;
    await rm(table);
    const outcome: unknown = await crashed.open().then(
      async (opened) => {
        const read: unknown = await entriesOf(opened, EVERYTHING).catch((error: unknown) => error);
        await opened.close();
        return read;
      },
      (error: unknown) => error,
    );
    expect(outcome).toBeInstanceOf(Error);
    await expect(access(table)).rejects.toThrow();
  });

  it('R003 every batch is there after kills over many rolls of the log', async () => {
    let bed = await newBed();
    let store = await bed.open({ rocks: { writeBufferBytes: 65_536 } });
    const expected = new Map<string, string>();
    let logs = 0;
    for (let kill = 0; kill < 5; kill++) {
      for (let n = 0; n < 200; n++) {
        const value = `${kill}-${n}`.padEnd(1_000, '.');
        await store.commit([put(`k${(n * 7) % 150}`, value)]);
        expected.set(`k${(n * 7) % 150}`, value);
      }
      const found = await bed.files('.log');
      logs = Math.max(logs, Number((found.at(-1) as string).match(/(\d+)\.log$/)?.[1]));
      const crashed = await bed.crashCopy();
      await store.close();
      bed = crashed;
      store = await bed.open({ rocks: { writeBufferBytes: 65_536 } });
      expect(store.nextBatch).toBe((kill + 1) * 200 + 1);
      for (const [name, value] of expected) expect(await valueOf(store, name)).toBe(value);
    }
    // File numbers rise with each new log.
    expect(logs).toBeGreaterThan(15);
    await store.close();
    await (await bed.open()).close();
  });
});
