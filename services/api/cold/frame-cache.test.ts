import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../../shared/observability/metrics.js';
import { encodeFrame } from '../../../shared/storage/frame.js';
import { FsObjectStore } from '../../../shared/storage/fs-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { DeadlinePassed } from '../../../shared/time/joined-signal.js';
import { coldMetrics } from './cold-metrics.js';
import { Switchable } from './cold-rig.contract.js';
import { FrameCache, type FrameOf } from './frame-cache.js';
import { FRAMES_AHEAD } from './limits.js';

const OBJECT = { kind: 'segment', partition: 0, session: 1, plan: 1, attempt: 1, part: 0 } as const;
let dir: string;
let store: Switchable;
let frames: FrameOf[];
const RAW = 10_000;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-frames-'));
  store = new Switchable(await FsObjectStore.open(dir));
  frames = [];
  const bodies: Buffer[] = [];
  let at = 0;
  for (let n = 0; n < 2 * FRAMES_AHEAD; n++) {
    const { bytes, crc } = await encodeFrame(Buffer.alloc(RAW, `frame ${n} `));
    frames.push({ object: OBJECT, frameAt: at, frameBytes: bytes.length, frameCrc: crc });
    bodies.push(bytes);
    at += bytes.length;
  }
  await store.putOnce(objectKey(OBJECT), bodies);
});
afterEach(() => rm(dir, { recursive: true, force: true }));

function cacheOf(bytesMax?: number, deadlineMs?: number): FrameCache {
  return new FrameCache({ store, metrics: coldMetrics(createMetrics()), bytesMax, deadlineMs });
}

/** Everything at once. */
async function all(cache: FrameCache, wanted: readonly FrameOf[], signal?: AbortSignal): Promise<string[]> {
  const raws: string[] = [];
  for await (const raw of cache.read(wanted, signal)) raws.push(raw.toString());
  return raws;
}

async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 5_000; !condition(); await new Promise((resolve) => setTimeout(resolve, 10))) if (Date.now() > end) throw new Error('waited in vain');
}

/** Collects garbage again and again, as a busy node does. */
async function collectGarbage(ms: number): Promise<void> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  for (const end = Date.now() + ms; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 10))) gc();
}

function expected(n: number): string {
  return Buffer.alloc(RAW, `frame ${n} `).toString();
}

describe('the cache of frames', () => {
  it('gives a GET up at its deadline, also when the store never answers and garbage is collected (I11)', async () => {
    store.before = (call) => (call === 'get' ? new Promise(() => undefined) : undefined);
    const cache = cacheOf(undefined, 150);
    const failed = all(cache, frames.slice(0, 2)).then(() => 'read', (error: unknown) => error);
    await collectGarbage(300);
    expect(await Promise.race([failed, new Promise((resolve) => setTimeout(() => resolve('still waiting'), 300))])).toBeInstanceOf(DeadlinePassed);
    store.before = () => undefined;
    expect(await all(cache, frames.slice(0, 2))).toEqual([0, 1].map(expected));
  });

  it('fetches neighbours by one GET, and what it holds by none', async () => {
    const cache = cacheOf();
    expect(await all(cache, frames.slice(2, 6))).toEqual([2, 3, 4, 5].map(expected));
    expect(store.gets).toBe(1);
    expect(await all(cache, frames.slice(2, 6))).toEqual([2, 3, 4, 5].map(expected));
    expect(store.gets).toBe(1);
    // Two holes around what is there.
    expect(await all(cache, frames.slice(0, 8))).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map(expected));
    expect(store.gets).toBe(3);
  });

  it('fetches a frame once however many wait for it (R115)', async () => {
    const cache = cacheOf();
    const read = await Promise.all(Array.from({ length: 200 }, (_, n) => all(cache, frames.slice(n % 3, 8))));
    for (const [n, raws] of read.entries()) expect(raws).toEqual([0, 1, 2, 3, 4, 5, 6, 7].slice(n % 3).map(expected));
    expect(store.gets).toBeLessThanOrEqual(3);
  });

  it('brings little that nobody asks for, and nothing to a reader who rests: then its GET ends (I11)', async () => {
    let cut = 0;
    let given = 0;
    const stream = store.stream.bind(store);
    store.stream = async function* (key, range, signal) {
      let whole = false;
      try {
        for await (const piece of stream(key, range, signal)) {
          for (let at = 0; at < piece.length; at += 50) {
            const part = piece.subarray(at, at + 50);
            given += part.length;
            yield part;
          }
        }
        whole = true;
      } finally {
        if (!whole) cut++;
      }
    };
    const row = frames.slice(0, 2 * FRAMES_AHEAD - 1);
    const cache = cacheOf(0);
    const reader = cache.read(row);
    expect(String((await reader.next()).value)).toBe(expected(0));
    await until(() => cut === 1);
    expect(given).toBeLessThanOrEqual(frames.slice(0, 1 + FRAMES_AHEAD).reduce((sum, { frameBytes }) => sum + frameBytes, 50));
    // It goes on in short GETs, and another one who is faster is not held up.
    const fast = all(cache, row);
    expect(String((await reader.next()).value)).toBe(expected(1));
    expect(await fast).toEqual(row.map((_, n) => expected(n)));
    const rest: string[] = [];
    for await (const raw of reader) rest.push(raw.toString());
    expect(rest).toEqual(row.map((_, n) => expected(n)).slice(2));
  });

  it('gives each frame in memory of its own, so that a reader who holds one holds nothing of its neighbours', async () => {
    const raws = Array.from({ length: 9 }, (_, n) => randomBytes(20_000 + n));
    const stored = await Promise.all(raws.map((raw) => encodeFrame(raw)));
    const object = { ...OBJECT, plan: 2 };
    await store.putOnce(objectKey(object), stored.map(({ bytes }) => bytes));
    let at = 0;
    const row = stored.map(({ bytes, crc }) => ({ object, frameAt: (at += bytes.length) - bytes.length, frameBytes: bytes.length, frameCrc: crc }));
    const got: Buffer[] = [];
    for await (const raw of cacheOf(0).read(row)) got.push(raw);
    expect(got).toEqual(raws);
    for (const [n, raw] of got.entries()) expect(raw.buffer.byteLength).toBeLessThanOrEqual((row[n] as FrameOf).frameBytes);
  });

  it('goes on in the same GET when the next reader comes soon for what lies behind', async () => {
    const cache = cacheOf();
    const first = cache.read(frames);
    for (let n = 0; n < 3; n++) expect(String((await first.next()).value)).toBe(expected(n));
    await first.return();
    expect(await all(cache, frames.slice(3))).toEqual(frames.map((_, n) => expected(n)).slice(3));
    expect(store.gets).toBe(1);
  });

  it('keeps at most its bytes, the newest ones (I11)', async () => {
    const cache = cacheOf(RAW * 3 + RAW / 2);
    for (const n of [0, 1, 2, 3, 4]) await all(cache, [frames[n] as FrameOf]);
    expect(cache.bytes).toBe(RAW * 3);
    const before = store.gets;
    expect(await all(cache, frames.slice(2, 5))).toEqual([2, 3, 4].map(expected));
    expect(store.gets).toBe(before);
    expect(await all(cache, [frames[1] as FrameOf])).toEqual([expected(1)]);
    expect(store.gets).toBe(before + 1);
  });

  it('keeps no failure', async () => {
    const cache = cacheOf();
    store.down = true;
    await expect(all(cache, frames.slice(0, 1))).rejects.toThrow(/unavailable/);
    store.down = false;
    expect(await all(cache, frames.slice(0, 1))).toEqual([expected(0)]);
    const wrong = [{ ...(frames[1] as FrameOf), frameCrc: 1 }];
    await expect(all(cache, wrong)).rejects.toThrow(/checksum/);
    await expect(all(cache, wrong)).rejects.toThrow(/checksum/);
    expect(await all(cache, frames.slice(1, 2))).toEqual([expected(1)]);
  });

  it('cancels a fetch soon after the last one who waits has left, and serves the one who stays', async () => {
    const cache = cacheOf();
    const signals: AbortSignal[] = [];
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const stream = store.stream.bind(store);
    store.stream = async function* (key, range, signal) {
      signals.push(signal as AbortSignal);
      await gate;
      yield* stream(key, range, signal);
    };
    const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
    const a = all(cache, frames.slice(0, 1), first.signal);
    const b = all(cache, frames.slice(0, 1), second.signal);
    const c = all(cache, frames.slice(1, 2), third.signal);
    first.abort();
    third.abort();
    await expect(a).rejects.toThrow();
    await expect(c).rejects.toThrow();
    await until(() => signals.some(({ aborted }) => aborted));
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
    // Somebody new does not get the cancelled fetch.
    const d = all(cache, frames.slice(1, 2));
    release();
    expect(await b).toEqual([expected(0)]);
    expect(await d).toEqual([expected(1)]);
  });
});
