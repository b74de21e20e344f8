import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { DurableStore } from './durable.js';
import { HotStoreDamaged } from './durable.js';
import { HotDamaged, HotStoreCorrupt, HotStoreError } from './errors.js';
import { entriesOf, EVERYTHING, failure, HotBed, TestStream } from './hot-bed.contract.js';
import { createHotReader } from './hot-reader.js';
import { dirtyRow } from './keys/dirty.js';
import { expiryRow } from './keys/expiry.js';
import { producerRow } from './keys/producer.js';
import { openRocksStore } from './rocks-store.js';
import { unsnappy } from './snappy.js';
import type { HotEntry, HotOp } from './store.js';
import { checkTables } from './table-check.js';

const dirs: string[] = [];

afterEach(async () => {
  await Promise.all(dirs.splice(0).map((dir) => rm(dir, { recursive: true, force: true })));
});

/** 3,000 rows with small values, 1,500 without any, and a stream. */
function rows(stream: TestStream): HotOp[] {
  const ops: HotOp[] = [];
  for (let index = 0; index < 3_000; index++) ops.push({ type: 'put', key: dirtyRow.key(0, index * 16, (2 ** 52 + index) as Incarnation), value: dirtyRow.encode({ key: `demo/stream-${index}` as StreamKey, sinceMs: index, deleted: false }) });
  for (let index = 0; index < 1_500; index++) ops.push({ type: 'put', key: expiryRow.key(0, index * 1_000, index, `demo/stream-${index}` as StreamKey), value: expiryRow.encode() });
  for (let index = 0; index < 100; index++) ops.push(...stream.append(Buffer.from(`append ${index} `.repeat(30))).slice(0, 1));
  ops.push(stream.state());
  return ops;
}

function show(entries: readonly HotEntry[]): string[] {
  return entries.map((entry) => `${entry.key.toString('hex')}=${entry.value.toString('hex')}`);
}

/** Everything but bookkeeping, in one scan. */
const ROWS = { ...EVERYTHING, from: Buffer.from([0x10]) };

describe('damage in tables', () => {
  /** A closed directory whose rows are in a table, that table, and what it holds. */
  async function inTable(): Promise<{ bed: HotBed; stream: TestStream; table: string; content: Buffer; expected: string[] }> {
    const bed = await HotBed.make();
    dirs.push(bed.root);
    const stream = new TestStream('demo/kept' as StreamKey, (2 ** 52 + 77_777) as Incarnation);
    const store = await bed.open();
    await store.commit(rows(stream));
    const expected = show(await entriesOf(store, ROWS));
    await store.close();
    // An open writes the log into a table.
    await (await bed.open()).close();
    const [table] = (await bed.files('.sst')).slice(-1);
    return { bed, stream, table: table as string, content: await readFile(table as string), expected };
  }

  it('I9 flipped bits and overwritten bytes anywhere give an error or the truth, and never end the process', async () => {
    const { bed, stream, table, content, expected } = await inTable();
    const loud = { open: 0, scan: 0, read: 0 };
    for (let step = 0; step < 120; step++) {
      const damaged = Buffer.from(content);
      const at = Math.floor((content.length * (step + 0.5)) / 120);
      if (step % 3 === 2) damaged.fill((step * 7_919) & 0xff, at, at + 64);
      else damaged[at] = (damaged[at] as number) ^ (1 << (step % 8));
      await writeFile(table, damaged);
      const copy = await bed.crashCopy();
      dirs.push(copy.root);
      const store = await copy.open().catch((error: unknown) => {
        expect(error instanceof HotStoreDamaged || error instanceof HotStoreError).toBe(true);
        return null;
      });
      if (store === null) loud.open++;
      else await tryReads(store, stream, expected, loud);
      await copy.remove();
    }
    // Some bits lie where nobody looks (properties of the table); most do not.
    expect(loud.open + loud.scan).toBeGreaterThan(100);
  });

  async function tryReads(store: DurableStore, stream: TestStream, expected: readonly string[], loud: { scan: number; read: number }): Promise<void> {
    const found = await entriesOf(store, ROWS).then(show, (error: unknown) => error);
    if (found instanceof HotStoreCorrupt) loud.scan++;
    else expect(found).toEqual(expected);
    const values = await store.getMany(expected.map((row) => Buffer.from(row.split('=')[0] as string, 'hex'))).catch((error: unknown) => error);
    if (!(values instanceof HotStoreCorrupt)) expect((values as Buffer[]).map((value, index) => `${expected[index]?.split('=')[0]}=${value.toString('hex')}`)).toEqual(expected);
    const bytes = await failure((async () => {
      let read = 0;
      for await (const piece of createHotReader(store).bytes(stream.slot, stream.incarnation, 0 as Offset, stream.tail)) read += piece.length;
      expect(read).toBe(stream.tail);
    })());
    if (bytes !== 'no failure') {
      expect(bytes).toBeInstanceOf(HotDamaged);
      loud.read++;
    }
    await store.close();
  }

  it('R007 one damaged block fails what lies there; everything else is served, and the file is named', async () => {
    const { bed, stream, table, content } = await inTable();
    const report = await checkTables(bed.dir, 1e9);
    expect(report.damaged).toEqual([]);
    const name = table.slice(bed.dir.length + 1);
    // The middle of the table: rows of kind `dirty`.
    const damaged = Buffer.from(content);
    damaged[content.length >> 1] = (damaged[content.length >> 1] as number) ^ 1;
    await writeFile(table, damaged);
    const [range] = (await checkTables(bed.dir, 1e9)).damaged;
    expect(range?.file).toBe(name);
    expect(range?.at).toBeLessThanOrEqual(content.length >> 1);

    const store = await bed.open();
    expect(store.damagedFiles).toEqual([name]);
    expect(bed.events('error')).toEqual(['hot-store-table-damaged']);
    await expect(entriesOf(store, ROWS)).rejects.toBeInstanceOf(HotStoreCorrupt);
    await expect(entriesOf(store, { ...ROWS, reverse: true, limit: 1_000_000 })).rejects.toBeInstanceOf(HotStoreCorrupt);
    let read = 0;
    for await (const piece of createHotReader(store).bytes(stream.slot, stream.incarnation, 0 as Offset, stream.tail)) read += piece.length;
    expect(read).toBe(stream.tail);
    const outcomes = await Promise.all(Array.from({ length: 3_000 }, (_, index) => store.get(dirtyRow.key(0, index * 16, (2 ** 52 + index) as Incarnation)).then((value) => (value === undefined ? 'absent' : 'read'), (error: unknown) => (error instanceof HotStoreCorrupt ? 'corrupt' : 'other'))));
    const count = (outcome: string): number => outcomes.filter((other) => other === outcome).length;
    expect(count('absent') + count('other')).toBe(0);
    expect(count('corrupt')).toBeGreaterThan(0);
    expect(count('corrupt')).toBeLessThan(300);
    await store.commit([{ type: 'put', key: producerRow.key(1, 2 ** 52 as Incarnation, 'p'), value: Buffer.from('v') }]);
    await store.close();

    // The byte comes back: so does everything.
    await writeFile(table, content);
    const healed = await bed.open();
    expect(healed.damagedFiles).toEqual([]);
    expect((await entriesOf(healed, ROWS)).length).toBeGreaterThan(4_500);
    await healed.close();
  });

  it('checks the newest tables first, up to a limit, and leaves alone what is no table', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'firn-tables-'));
    dirs.push(dir);
    // Each open makes one table of what the log holds. Three are fewer than what RocksDB merges by itself, at a moment of its own.
    for (let run = 0; run < 4; run++) {
      const store = await openRocksStore(dir, { writeBufferBytes: 1_048_576 });
      await store.batch(Array.from({ length: 500 }, (_, index) => ({ type: 'put', key: Buffer.from(`k${index}`), value: Buffer.from(`${run} ${index} `.repeat(20)) }) as const), true);
      await store.close();
    }
    const all = await checkTables(dir, 1e9);
    expect(all.files).toBe(3);
    expect(all.damaged).toEqual([]);
    const some = await checkTables(dir, all.bytes - 1);
    expect(some.files).toBe(all.files - 1);
    expect(some.uncheckedBytes + some.bytes).toBe(all.bytes);
    await writeFile(join(dir, '999999.sst'), 'not a table');
    expect((await checkTables(dir, 1e9)).damaged).toEqual([]);
    expect(await checkTables(join(dir, 'absent'), 1e9)).toEqual({ damaged: [], files: 0, bytes: 0, uncheckedBytes: 0 });
    expect((await readdir(dir)).length).toBeGreaterThan(3);
  });
});

describe('unsnappy', () => {
  it('gives literals and copies of every form back', () => {
    const literal = (text: string): number[] => [(text.length - 1) << 2, ...Buffer.from(text)];
    expect(unsnappy(Buffer.from([0]))).toEqual(Buffer.alloc(0));
    expect(unsnappy(Buffer.from([5, ...literal('hello')]))?.toString()).toBe('hello');
    // Copy with one byte of offset: 4 bytes from 3 back, overlapping itself.
    expect(unsnappy(Buffer.from([7, ...literal('abc'), 0b000_000_01, 3]))?.toString()).toBe('abcabca');
    expect(unsnappy(Buffer.from([8, ...literal('abcd'), (3 << 2) | 2, 4, 0]))?.toString()).toBe('abcdabcd');
    expect(unsnappy(Buffer.from([8, ...literal('abcd'), (3 << 2) | 3, 4, 0, 0, 0]))?.toString()).toBe('abcdabcd');
    const long = Buffer.alloc(300, 'long ');
    expect(unsnappy(Buffer.from([0xac, 0x02, 61 << 2, 43, 1, ...long]))).toEqual(long);
  });

  it('refuses what is cut short, too long, or points outside', () => {
    const sound = Buffer.from([7, 8, 97, 98, 99, 1, 3]);
    expect(unsnappy(sound)?.toString()).toBe('abcabca');
    for (let length = 0; length < sound.length; length++) expect(unsnappy(sound.subarray(0, length))).toBeNull();
    expect(unsnappy(Buffer.from([7, 8, 97, 98, 99, 1, 4]))).toBeNull();
    expect(unsnappy(Buffer.from([7, 8, 97, 98, 99, 1, 0]))).toBeNull();
    expect(unsnappy(Buffer.from([6, 8, 97, 98, 99, 1, 3]))).toBeNull();
    expect(unsnappy(Buffer.from([8, 8, 97, 98, 99, 1, 3]))).toBeNull();
    expect(unsnappy(Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, 0]))).toBeNull();
    expect(unsnappy(Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]))).toBeNull();
  });
});
