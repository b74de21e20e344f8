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
  for (let n = 0; n < 10; n++) {
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
    const failed = cache.get(frames.slice(0, 2)).then(() => 'read', (error: unknown) => error);
    await collectGarbage(300);
    expect(await Promise.race([failed, new Promise((resolve) => setTimeout(() => resolve('still waiting'), 300))])).toBeInstanceOf(DeadlinePassed);
    store.before = () => undefined;
    expect((await cache.get(frames.slice(0, 2))).map(String)).toEqual([0, 1].map(expected));
  });

  it('fetches neighbours by one GET, and what it holds by none', async () => {
    const cache = cacheOf();
    expect((await cache.get(frames.slice(2, 6))).map(String)).toEqual([2, 3, 4, 5].map(expected));
    expect(store.gets).toBe(1);
    expect((await cache.get(frames.slice(2, 6))).map(String)).toEqual([2, 3, 4, 5].map(expected));
    expect(store.gets).toBe(1);
    // Two holes around what is there.
    expect((await cache.get(frames.slice(0, 8))).map(String)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map(expected));
    expect(store.gets).toBe(3);
  });

  it('fetches a frame once however many wait for it (R115)', async () => {
    const cache = cacheOf();
    const all = await Promise.all(Array.from({ length: 200 }, (_, n) => cache.get(frames.slice(n % 3, 3))));
    expect(all).toHaveLength(200);
    expect(store.gets).toBeLessThanOrEqual(3);
  });

  it('keeps at most its bytes, the newest used ones (I11)', async () => {
    const cache = cacheOf(RAW * 3);
    for (const n of [0, 1, 2, 0, 3]) await cache.get([frames[n] as FrameOf]);
    expect(cache.bytes).toBe(RAW * 3);
    const before = store.gets;
    await cache.get([frames[0] as FrameOf]);
    expect(store.gets).toBe(before);
    await cache.get([frames[1] as FrameOf]);
    expect(store.gets).toBe(before + 1);
  });

  it('keeps no failure', async () => {
    const cache = cacheOf();
    store.down = true;
    await expect(cache.get([frames[0] as FrameOf])).rejects.toThrow(/unavailable/);
    store.down = false;
    expect(String((await cache.get([frames[0] as FrameOf]))[0])).toBe(expected(0));
    await expect(cache.get([{ ...(frames[1] as FrameOf), frameCrc: 1 }])).rejects.toThrow(/checksum/);
    expect(String((await cache.get([frames[1] as FrameOf]))[0])).toBe(expected(1));
  });

  it('cancels a fetch when the last one who waits leaves, and serves the one who stays', async () => {
    const cache = cacheOf();
    const signals: AbortSignal[] = [];
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const get = store.get.bind(store);
    store.get = async (key, range, signal) => {
      signals.push(signal as AbortSignal);
      await gate;
      return get(key, range, signal);
    };
    const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
    const a = cache.get([frames[0] as FrameOf], first.signal);
    const b = cache.get([frames[0] as FrameOf], second.signal);
    const c = cache.get([frames[1] as FrameOf], third.signal);
    first.abort();
    third.abort();
    await expect(a).rejects.toThrow();
    await expect(c).rejects.toThrow();
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
    // Somebody new does not get the cancelled fetch.
    const d = cache.get([frames[1] as FrameOf]);
    release();
    expect(String((await b)[0])).toBe(expected(0));
    expect(String((await d)[0])).toBe(expected(1));
  });
});
