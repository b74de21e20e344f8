import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { DurableStore } from './durable.js';
import { HotDamaged, HotGap } from './errors.js';
import { foldStep } from './fold.js';
import { entriesOf, HotBed, TestStream } from './hot-bed.contract.js';
import { createHotReader, READ_PAGE_BYTES, type HotReader } from './hot-reader.js';
import { dataRow } from './keys/data.js';
import { StoreClosed } from './store.js';

const INC = 2 ** 52 as Incarnation;

describe('HotReader', () => {
  let bed: HotBed;
  let store: DurableStore;
  let reader: HotReader;
  let stream: TestStream;
  let written: Buffer;

  beforeEach(async () => {
    bed = await HotBed.make();
    store = await bed.open();
    reader = createHotReader(store);
    stream = new TestStream('demo/reads' as StreamKey, INC);
    written = Buffer.alloc(0);
  });

  afterEach(async () => {
    await store.close();
    await bed.remove();
  });

  /** One commit an append. */
  async function append(...sizes: number[]): Promise<void> {
    for (const size of sizes) {
      const payload = Buffer.alloc(size);
      for (let index = 0; index < size; index++) payload[index] = (written.length + index * 7) & 0xff;
      written = Buffer.concat([written, payload]);
      await store.commit(stream.append(payload));
    }
  }

  async function read(from: number, to: number, signal?: AbortSignal): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const piece of reader.bytes(stream.slot, INC, from as Offset, to as Offset, signal)) {
      expect(piece.length).toBeGreaterThan(0);
      expect(piece.length).toBeLessThanOrEqual(1_048_576);
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  async function failure(run: Promise<unknown>): Promise<unknown> {
    return run.then(() => 'no failure', (error: unknown) => error);
  }

  it('I1 gives exactly the bytes of any range', async () => {
    await append(1, 2, 3, 1_000, 40_000, 5, 300_000, 10, 262_144, 262_145, 7, 7, 7);
    await fc.assert(
      fc.asyncProperty(fc.nat(written.length), fc.nat(written.length), async (a, b) => {
        const [from, to] = [Math.min(a, b), Math.max(a, b)];
        expect((await read(from, to)).equals(written.subarray(from, to))).toBe(true);
      }),
      { numRuns: 60 },
    );
    expect((await read(0, written.length)).equals(written)).toBe(true);
    expect(await read(5, 5)).toEqual(Buffer.alloc(0));
  });

  it('reads over many pages, whatever the size of the values', async () => {
    await store.commit(stream.append(...Array.from({ length: 3 }, () => Buffer.alloc(2_000_000, 'a'))));
    for (let batch = 0; batch < 40; batch++) await store.commit(Array.from({ length: 50 }, () => stream.append(Buffer.alloc(1_000, 'b'))[0]).filter((op) => op !== undefined));
    const bytes = await read(0, stream.tail);
    expect(bytes.length).toBe(8_000_000);
    expect(bytes.equals(Buffer.concat([Buffer.alloc(6_000_000, 'a'), Buffer.alloc(2_000_000, 'b')]))).toBe(true);
  });

  it('does not touch a neighbour', async () => {
    const before = new TestStream(stream.key, (INC + 1) as Incarnation);
    await store.commit(before.append(Buffer.from('other incarnation')));
    await append(10);
    expect((await failure(read(0, 20))) as HotGap).toMatchObject({ incarnation: INC, at: 10 });
    expect(await read(0, 10)).toEqual(written);
  });

  it('throws HotGap where a copy is missing: at the start, in the middle, at the end', async () => {
    await append(100, 100, 100, 100);
    await store.commit([{ type: 'del', key: dataRow.key(stream.slot, INC, 200 as Offset) }]);
    for (const [from, to, at] of [[100, 200, 100], [150, 160, 150], [0, 400, 100], [150, 400, 150], [300, 500, 400], [400, 401, 400]] as const) {
      const error = await failure(read(from, to));
      expect(error).toBeInstanceOf(HotGap);
      expect((error as HotGap).at).toBe(at);
    }
    // What lies before the hole is given first.
    const pieces: Buffer[] = [];
    const gap = await failure((async () => {
      for await (const piece of reader.bytes(stream.slot, INC, 50 as Offset, 300 as Offset)) pieces.push(piece);
    })());
    expect(gap).toBeInstanceOf(HotGap);
    expect(Buffer.concat(pieces)).toEqual(written.subarray(50, 100));
    expect(await read(200, 400)).toEqual(written.subarray(200, 400));
  });

  it('I9 throws HotDamaged for a value whose bytes are wrong, under a wrong key, or that overlaps', async () => {
    await append(100, 100, 100);
    const key = dataRow.key(stream.slot, INC, 200 as Offset);
    const value = (await store.get(key)) as Buffer;
    for (let at = 0; at < value.length; at += 9) {
      const damaged = Buffer.from(value);
      damaged[at] = (damaged[at] as number) ^ 1;
      await store.commit([{ type: 'put', key, value: damaged }]);
      const error = await failure(read(50, 250));
      expect(error).toBeInstanceOf(HotDamaged);
      expect((error as HotDamaged).incarnation).toBe(INC);
    }
    await store.commit([{ type: 'put', key, value: (await store.get(dataRow.key(stream.slot, INC, 300 as Offset))) as Buffer }]);
    expect(await failure(read(50, 250))).toBeInstanceOf(HotDamaged);
    await store.commit([{ type: 'put', key, value }, ...overlapping(150)]);
    expect(await failure(read(0, 300))).toBeInstanceOf(HotDamaged);
  });

  /** A value 100 .. `end` beside that of 100 .. 200. */
  function overlapping(end: number) {
    const other = new TestStream(stream.key, INC);
    other.tail = 100 as Offset;
    return other.append(Buffer.alloc(end - 100)).slice(0, 1);
  }

  it('stops when it is aborted', async () => {
    await store.commit(stream.append(Buffer.alloc(5 * READ_PAGE_BYTES)));
    const control = new AbortController();
    let bytes = 0;
    const error = await failure((async () => {
      for await (const piece of reader.bytes(stream.slot, INC, 0 as Offset, stream.tail, control.signal)) {
        bytes += piece.length;
        control.abort(new Error('gone'));
      }
    })());
    expect(String(error)).toContain('gone');
    expect(bytes).toBeLessThanOrEqual(2 * READ_PAGE_BYTES);
    expect(await failure(read(0, 1, AbortSignal.abort(new Error('before'))))).toMatchObject({ message: 'before' });
  });

  it('goes on at its own offset when the store is opened again, and when values are folded', async () => {
    for (let batch = 0; batch < 80; batch++) await append(...Array.from({ length: 4 }, () => 7_000));
    const pieces: Buffer[] = [];
    let reopened = 0;
    for await (const piece of reader.bytes(stream.slot, INC, 0 as Offset, stream.tail)) {
      pieces.push(piece);
      if (pieces.length === 2) {
        await store.reopen();
        reopened++;
      }
      if (pieces.length === 4) {
        const step = await foldStep(store, stream.slot, INC, 0 as Offset, stream.tail, []);
        expect(step.ops.length).toBeGreaterThan(0);
        await store.commit(step.ops);
      }
    }
    expect(reopened).toBe(1);
    expect(Buffer.concat(pieces).equals(written)).toBe(true);

    const ends = (await entriesOf(store, dataRow.range(stream.slot, INC))).length;
    expect(ends).toBeLessThan(320);
    const reads = Promise.all(Array.from({ length: 20 }, () => read(0, stream.tail)));
    const again = store.reopen();
    for (const bytes of await reads) expect(bytes.equals(written)).toBe(true);
    await again;
  });

  it('fails with StoreClosed when the store is closed for good', async () => {
    await append(10);
    const reading = failure(read(0, 10));
    await store.close();
    const outcome = await reading;
    expect(outcome === 'no failure' || outcome instanceof StoreClosed).toBe(true);
    expect(await failure(read(0, 10))).toBeInstanceOf(StoreClosed);
  });
});
