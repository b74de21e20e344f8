import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { DurableStore } from './durable.js';
import { HotBed, TestStream } from './hot-bed.contract.js';
import { createHotReader } from './hot-reader.js';
import type { HotStore } from './store.js';

const INC = 2 ** 52 as Incarnation;
const RESTS_MS = 120;

describe('a hot reader that rests', () => {
  let bed: HotBed;
  let store: DurableStore;
  let stream: TestStream;

  beforeEach(async () => {
    bed = await HotBed.make();
    store = await bed.open();
    stream = new TestStream('demo/rests' as StreamKey, INC);
  });

  afterEach(async () => {
    await store.close();
    await bed.remove();
  });

  async function append(...sizes: number[]): Promise<Buffer> {
    const pieces = sizes.map((size, n) => Buffer.alloc(size, `value ${n} of ${size} bytes;`));
    for (const piece of pieces) await store.commit(stream.append(piece));
    return Buffer.concat(pieces);
  }

  /** The store, with what its scans gave, as long as somebody holds it. */
  function watched(): { readonly store: Pick<HotStore, 'scan'>; readonly values: WeakRef<Buffer>[] } {
    const values: WeakRef<Buffer>[] = [];
    return {
      values,
      store: {
        async *scan(range) {
          for await (const entries of store.scan(range)) {
            for (const { value } of entries) values.push(new WeakRef(value));
            yield entries;
          }
        },
      },
    };
  }

  it('R053 holds what it was given and no more of its page, and misses nothing', async () => {
    const written = await append(...Array.from({ length: 12 }, (_, n) => 200_000 + n));
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('gc') as () => void;
    const { store: scans, values } = watched();
    const source = createHotReader(scans).bytes(stream.slot, INC, 0 as Offset, written.length as Offset)[Symbol.asyncIterator]();
    const got: Buffer[] = [];
    const copyNext = async (): Promise<boolean> => {
      const { done, value } = await source.next();
      if (done !== true) got.push(Buffer.from(value));
      return done !== true;
    };
    await copyNext();
    expect(values.length).toBeGreaterThan(3);
    await new Promise((resolve) => setTimeout(resolve, RESTS_MS));
    for (let turn = 0; turn < 5; turn++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(values.filter((value) => value.deref() !== undefined).length).toBeLessThanOrEqual(1);
    while (await copyNext());
    expect(Buffer.concat(got).equals(written)).toBe(true);
  });

  it('goes on where it was, whatever it has taken, and with small values as well', { timeout: 30_000 }, async () => {
    const written = await append(...Array.from({ length: 60 }, (_, n) => [10, 3_000, 40_000, 90_000, 300_000][n % 5] as number));
    for (const restsAt of [[0], [1, 2], [3, 5, 6], [7, 8, 20]]) {
      const got: Buffer[] = [];
      for await (const piece of createHotReader(store).bytes(stream.slot, INC, 5 as Offset, (written.length - 5) as Offset)) {
        if (restsAt.includes(got.length)) await new Promise((resolve) => setTimeout(resolve, RESTS_MS));
        got.push(Buffer.from(piece));
      }
      expect(Buffer.concat(got).equals(written.subarray(5, written.length - 5))).toBe(true);
    }
  });
});
