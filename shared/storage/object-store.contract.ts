/**
 * What every object store promises, as tests to be mounted on each implementation (I4, I9, I10).
 *
 * Owns: the suite. `make` gives a store whose keys nobody else uses; `done` closes and removes it.
 */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ObjectDamaged, ObjectMissing, type ObjectInfoListed, type ObjectStore } from './object-store.js';

const KEY = 'partitions/0000/log/000001/0000000001';
const CREATORS = 20;
const BIG_BYTES = 20_000_000;
/** Above what a single PUT takes. */
const LARGE_BYTES = 68_157_447;

export interface ContractStore {
  readonly store: ObjectStore;
  done(): Promise<void>;
}

export function objectStoreContract(name: string, make: () => Promise<ContractStore>): void {
  describe(`object store contract: ${name}`, () => {
    let made: ContractStore;
    let store: ObjectStore;
    beforeEach(async () => {
      made = await make();
      store = made.store;
    });
    afterEach(() => made.done());
    putOnceTests(() => store);
    putUniqueTests(() => store);
    sweepTests(() => store);
    readTests(() => store);
    listTests(() => store);
    otherTests(() => store);
  });
}

function putOnceTests(at: () => ObjectStore): void {
  it('I10 lets exactly one of 20 concurrent creators win', async () => {
    for (let round = 0; round < 5; round++) {
      const key = `partitions/0000/log/000001/000000000${round}`;
      const bodies = Array.from({ length: CREATORS }, (_, index) => Buffer.from(`creator ${index} of round ${round}`));
      const outcomes = await Promise.all(bodies.map((body) => at().putOnce(key, body)));
      const winner = outcomes.indexOf('created');
      expect(outcomes.filter((outcome) => outcome === 'exists-theirs').length).toBe(CREATORS - 1);
      expect(await at().get(key)).toEqual(bodies[winner]);
    }
  });

  it('I10 lets exactly one of 20 concurrent creators of the same bytes win, the others find their own', async () => {
    const outcomes = await Promise.all(Array.from({ length: CREATORS }, () => at().putOnce(KEY, Buffer.from('same'))));
    expect(outcomes.toSorted()).toEqual(['created', ...Array.from({ length: CREATORS - 1 }, () => 'exists-ours')]);
  });

  it('I4 tells a repeat of the same bytes from other bytes, and changes nothing', async () => {
    const body = randomBytes(700_000);
    expect(await at().putOnce(KEY, body)).toBe('created');
    expect(await at().putOnce(KEY, body)).toBe('exists-ours');
    expect(await at().putOnce(KEY, [body.subarray(0, 1), body.subarray(1, 500_000), body.subarray(500_000)])).toBe('exists-ours');
    const altered = Buffer.from(body);
    altered[699_999] = (altered[699_999] as number) ^ 1;
    for (const other of [altered, body.subarray(1), Buffer.concat([body, Buffer.from([0])]), Buffer.alloc(0)]) expect(await at().putOnce(KEY, other)).toBe('exists-theirs');
    expect((await at().get(KEY)).equals(body)).toBe(true);
  });

  it('takes a body in pieces, an empty one, and a big one', async () => {
    expect(await at().putOnce('a/pieces', [Buffer.from('ab'), Buffer.alloc(0), Buffer.from('c')])).toBe('created');
    expect((await at().get('a/pieces')).toString()).toBe('abc');
    expect(await at().putOnce('a/empty', Buffer.alloc(0))).toBe('created');
    expect(await at().putOnce('a/empty', [])).toBe('exists-ours');
    expect(await at().size('a/empty')).toBe(0);
    expect((await at().get('a/empty')).length).toBe(0);
    const big = randomBytes(BIG_BYTES);
    expect(await at().putOnce('a/big', big)).toBe('created');
    expect((await at().get('a/big')).equals(big)).toBe(true);
  });

  it('takes 64 MiB in one put', async () => {
    const parts = Array.from({ length: 4 }, () => randomBytes(16_777_216));
    expect(await at().putOnce('a/largest', parts)).toBe('created');
    expect(await at().size('a/largest')).toBe(67_108_864);
    expect((await at().get('a/largest')).equals(Buffer.concat(parts))).toBe(true);
  });

  it('takes every character that a key may have', async () => {
    const segment = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.';
    const keys = [segment, `-/_/${segment}`, 'a..b/c.', '_.json', `${'k'.repeat(200)}/${'l'.repeat(200)}/${'m'.repeat(110)}`];
    for (const [index, key] of keys.entries()) {
      expect(await at().putOnce(key, Buffer.from(key))).toBe('created');
      expect((await at().get(key)).toString()).toBe(key);
      expect((await all(at().list(key))).map((listed) => listed.key), String(index)).toEqual([key]);
    }
    expect((await all(at().list(''))).map(({ key }) => key)).toEqual(keys.toSorted());
    for (const key of keys) await at().delete(key);
    expect(await all(at().list(''))).toEqual([]);
  });

  it('refuses more than 64 MiB in one put', async () => {
    const piece = Buffer.alloc(33_554_433);
    await expect(at().putOnce(KEY, [piece, piece])).rejects.toThrow(RangeError);
    expect(await at().size(KEY)).toBeNull();
  });

  it('puts nothing when it was aborted before', async () => {
    await expect(at().putOnce(KEY, Buffer.from('x'), AbortSignal.abort())).rejects.toThrow();
    expect(await at().size(KEY)).toBeNull();
  });
}

function putUniqueTests(at: () => ObjectStore): void {
  it('puts a body from a stream', async () => {
    const body = randomBytes(BIG_BYTES);
    await at().putUnique('snapshots/one', piecesOf(body, 1_000_003), body.length);
    expect((await at().get('snapshots/one')).equals(body)).toBe(true);
    await at().putUnique('snapshots/none', piecesOf(Buffer.alloc(0), 10), 0);
    expect(await at().size('snapshots/none')).toBe(0);
  });

  it('puts a body that is larger than a single PUT, and refuses a second one under its name', async () => {
    const body = randomBytes(LARGE_BYTES);
    await at().putUnique('snapshots/large', piecesOf(body, 999_983), body.length);
    expect(await at().size('snapshots/large')).toBe(body.length);
    expect((await at().get('snapshots/large')).equals(body)).toBe(true);
    const range = { from: 16_777_200, length: 33_554_500 };
    expect((await at().get('snapshots/large', range)).equals(body.subarray(range.from, range.from + range.length))).toBe(true);
    await expect(at().putUnique('snapshots/large', piecesOf(Buffer.alloc(LARGE_BYTES), 1_000_000), LARGE_BYTES)).rejects.toThrow('exists');
    await expect(at().putUnique('snapshots/long', piecesOf(body, 1_000_000), body.length - 1)).rejects.toThrow('were declared');
    expect(await at().size('snapshots/long')).toBeNull();
  });

  it('I4 leaves nothing visible of a body that is shorter or longer than declared, or breaks off', async () => {
    const body = randomBytes(300_000);
    await expect(at().putUnique('snapshots/short', piecesOf(body, 65_536), body.length + 1)).rejects.toThrow();
    await expect(at().putUnique('snapshots/long', piecesOf(body, 65_536), body.length - 1)).rejects.toThrow();
    await expect(at().putUnique('snapshots/broken', broken(body), body.length)).rejects.toThrow('broke off');
    expect(await all(at().list(''))).toEqual([]);
    for (const key of ['short', 'long', 'broken']) expect(await at().size(`snapshots/${key}`)).toBeNull();
  });

  it('I4 refuses a key that exists', async () => {
    await at().putUnique('snapshots/one', piecesOf(Buffer.from('first'), 2), 5);
    await expect(at().putUnique('snapshots/one', piecesOf(Buffer.from('other'), 2), 5)).rejects.toThrow();
    expect((await at().get('snapshots/one')).toString()).toBe('first');
  });

  it('can be aborted half-way', async () => {
    const abort = new AbortController();
    const body = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.alloc(100_000);
      abort.abort();
      yield Buffer.alloc(100_000);
    };
    await expect(at().putUnique('snapshots/one', body(), 200_000, abort.signal)).rejects.toThrow();
    expect(await at().size('snapshots/one')).toBeNull();
  });
}

function sweepTests(at: () => ObjectStore): void {
  it('sweeps no upload that is under way, and no object', async () => {
    const body = randomBytes(LARGE_BYTES);
    await at().putOnce(KEY, Buffer.from('an object'));
    let begun: () => void = () => undefined;
    const half = new Promise<void>((resolve) => {
      begun = resolve;
    });
    let goOn: () => void = () => undefined;
    const swept = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const resting = async function* (): AsyncGenerator<Buffer> {
      yield body.subarray(0, LARGE_BYTES / 2);
      begun();
      await swept;
      yield body.subarray(LARGE_BYTES / 2);
    };
    const putting = at().putUnique('snapshots/large', resting(), body.length);
    await half;
    expect(await at().sweepUploads({ isOwn: () => true, olderThanMs: 3_600_000 })).toBe(0);
    goOn();
    await putting;
    expect(await at().sweepUploads({ isOwn: () => true, olderThanMs: 0 })).toBe(0);
    expect((await at().get('snapshots/large')).equals(body)).toBe(true);
    expect((await at().get(KEY)).toString()).toBe('an object');
  });
}

function readTests(at: () => ObjectStore): void {
  it('reads ranges exactly, whole and as a stream', async () => {
    const body = randomBytes(1_000_000);
    await at().putOnce(KEY, body);
    for (const range of [{ from: 0, length: 1 }, { from: 999_999, length: 1 }, { from: 123_456, length: 654_321 }, { from: 0, length: 1_000_000 }, { from: 10, length: 0 }, { from: 1_000_000, length: 0 }]) {
      const expected = body.subarray(range.from, range.from + range.length);
      expect((await at().get(KEY, range)).equals(expected)).toBe(true);
      expect(Buffer.concat(await all(at().stream(KEY, range))).equals(expected)).toBe(true);
    }
    expect(Buffer.concat(await all(at().stream(KEY))).equals(body)).toBe(true);
  });

  it('I9 calls a missing object missing', async () => {
    await at().putOnce(`${KEY}9`, Buffer.from('a neighbour'));
    for (const key of [KEY, 'partitions/0000/log', 'nowhere']) {
      await expect(at().get(key)).rejects.toThrow(ObjectMissing);
      await expect(at().get(key, { from: 0, length: 1 })).rejects.toThrow(ObjectMissing);
      await expect(all(at().stream(key))).rejects.toThrow(ObjectMissing);
      expect(await at().size(key)).toBeNull();
    }
  });

  it('I9 calls a range beyond the end damage, never a shorter answer', async () => {
    await at().putOnce(KEY, Buffer.alloc(100));
    for (const range of [{ from: 0, length: 101 }, { from: 99, length: 2 }, { from: 100, length: 1 }, { from: 5_000, length: 10 }]) {
      await expect(at().get(KEY, range)).rejects.toThrow(ObjectDamaged);
      await expect(all(at().stream(KEY, range))).rejects.toThrow(ObjectDamaged);
    }
  });

  it('can be aborted before and between', async () => {
    await at().putOnce(KEY, randomBytes(5_000_000));
    await expect(at().get(KEY, undefined, AbortSignal.abort())).rejects.toThrow();
    await expect(all(at().stream(KEY, undefined, AbortSignal.abort()))).rejects.toThrow();
    await expect(at().size(KEY, AbortSignal.abort())).rejects.toThrow();
    const abort = new AbortController();
    let seen = 0;
    const reading = (async () => {
      for await (const piece of at().stream(KEY, undefined, abort.signal)) {
        seen += piece.length;
        abort.abort();
      }
    })();
    await expect(reading).rejects.toThrow();
    expect(seen).toBeLessThan(5_000_000);
  });

  it('frees a stream that nobody reads to its end', async () => {
    await at().putOnce(KEY, randomBytes(3_000_000));
    for (let round = 0; round < 50; round++) {
      for await (const piece of at().stream(KEY)) {
        expect(piece.length).toBeGreaterThan(0);
        break;
      }
    }
    expect((await at().get(KEY)).length).toBe(3_000_000);
  });
}

function listTests(at: () => ObjectStore): void {
  const keys = ['a', 'a-b', 'a/b', 'a/b-1', 'a/b/c', 'a/b0', 'a0', 'partitions/0000/log/000001/0000000001', 'partitions/0000/log/000001/0000000002', 'partitions/0001/log/000001/0000000001', 'z'].filter(
    // A directory cannot hold both `a` and `a/b`, and no layout of ours asks for it.
    (key, _, every) => !every.some((other) => other.startsWith(`${key}/`)),
  );
  const listed = async (prefix: string, after?: string): Promise<string[]> => (await all(at().list(prefix, after))).map(({ key }) => key);

  it('lists in byte order with sizes, by prefix, from after a key', async () => {
    const order = keys.toSorted();
    for (const [index, key] of keys.toReversed().entries()) await at().putOnce(key, Buffer.alloc(index));
    expect(await all(at().list(''))).toEqual(order.map((key): ObjectInfoListed => ({ key, bytes: keys.toReversed().indexOf(key) })));
    for (const prefix of ['a', 'a/', 'a/b', 'a/b-', 'partitions/0000/', 'partitions/0000/log/000001/', 'partitions/000', 'partitions/0000/log/000001/0000000002', 'q', 'q/', 'a/q/r']) {
      expect(await listed(prefix)).toEqual(order.filter((key) => key.startsWith(prefix)));
      for (const after of [...keys, 'a/', 'a/b/', 'partitions/0000/log/000001', '0', '~']) {
        expect(await listed(prefix, after)).toEqual(order.filter((key) => key.startsWith(prefix) && key > after));
      }
    }
  });

  it('lists more than one page', async () => {
    const many = Array.from({ length: 1_205 }, (_, index) => `many/${String(index).padStart(5, '0')}`);
    for (let from = 0; from < many.length; from += 50) await Promise.all(many.slice(from, from + 50).map((key) => at().putOnce(key, Buffer.from('x'))));
    expect(await listed('many/')).toEqual(many);
    expect(await listed('many/', 'many/01000')).toEqual(many.slice(1_001));
  });
}

function otherTests(at: () => ObjectStore): void {
  it('deletes, again and again, and the key can be told missing', async () => {
    await at().putOnce(KEY, Buffer.from('x'));
    await at().delete(KEY);
    await at().delete(KEY);
    await at().delete('never/there');
    expect(await at().size(KEY)).toBeNull();
    await expect(at().get(KEY)).rejects.toThrow(ObjectMissing);
    expect(await all(at().list(''))).toEqual([]);
  });

  it('refuses keys that are none', async () => {
    for (const key of ['', '/', 'a/', '/a', 'a//b', '..', 'a/../b', '../x', './a', 'a/.hidden', '.tmp/x', 'a b', 'ä', 'a\\b', 'a\0b', 'x'.repeat(600), 'y'.repeat(300)]) {
      await expect(at().putOnce(key, Buffer.from('x'))).rejects.toThrow(RangeError);
      await expect(at().putUnique(key, piecesOf(Buffer.from('x'), 1), 1)).rejects.toThrow(RangeError);
      await expect(at().get(key)).rejects.toThrow(RangeError);
      await expect(all(at().stream(key))).rejects.toThrow(RangeError);
      await expect(at().size(key)).rejects.toThrow(RangeError);
      await expect(at().delete(key)).rejects.toThrow(RangeError);
    }
    await expect(all(at().list('../'))).rejects.toThrow(RangeError);
    await expect(at().get('a', { from: -1, length: 2 })).rejects.toThrow(RangeError);
    await expect(at().get('a', { from: 0, length: 1.5 })).rejects.toThrow(RangeError);
  });

  it('says what and where it is', () => {
    expect(at().describe.length).toBeGreaterThan(5);
  });

  it('answers nothing once it is closed', async () => {
    await at().close();
    await at().close();
    await expect(at().size(KEY)).rejects.toThrow();
    await expect(at().putOnce(KEY, Buffer.from('x'))).rejects.toThrow();
  });
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

async function* piecesOf(body: Buffer, bytes: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += bytes) yield body.subarray(at, at + bytes);
}

async function* broken(body: Buffer): AsyncGenerator<Buffer> {
  yield body.subarray(0, body.length / 2);
  throw new Error('broke off');
}
