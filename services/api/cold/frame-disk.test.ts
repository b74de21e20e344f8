import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics } from '../../../shared/observability/metrics.js';
import { encodeFrame } from '../../../shared/storage/frame.js';
import { FsObjectStore } from '../../../shared/storage/fs-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { coldMetrics } from './cold-metrics.js';
import { Switchable } from './cold-rig.contract.js';
import { FrameCache, type FrameOf } from './frame-cache.js';
import { FrameDisk, type FrameDiskOptions } from './frame-disk.js';
import { CACHE_REST_MS } from './limits.js';

const OBJECT = { kind: 'segment', partition: 0, session: 1, plan: 1, attempt: 1, part: 0 } as const;
const FRAMES = 12;
/** Stored as it is, so that each takes three blocks of 4 KiB. */
const RAW = 10_000;
const TAKEN = 12_288;

let top: string;
let dir: string;
let store: Switchable;
let frames: FrameOf[];
let raws: Buffer[];
let metrics: ReturnType<typeof createMetrics>;
const opened: FrameDisk[] = [];

beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), 'firn-cache-'));
  dir = join(top, 'cache');
  metrics = createMetrics();
  store = new Switchable(await FsObjectStore.open(join(top, 'objects')));
  raws = Array.from({ length: FRAMES }, () => randomBytes(RAW));
  const stored = await Promise.all(raws.map((raw) => encodeFrame(raw)));
  let at = 0;
  frames = stored.map(({ bytes, crc }) => ({ object: OBJECT, frameAt: (at += bytes.length) - bytes.length, frameBytes: bytes.length, frameCrc: crc }));
  await store.putOnce(objectKey(OBJECT), stored.map(({ bytes }) => bytes));
});
afterEach(async () => {
  for (const disk of opened.splice(0)) await disk.close();
  await rm(top, { recursive: true, force: true });
});

async function diskOf(more: Partial<FrameDiskOptions> = {}): Promise<FrameDisk> {
  const disk = await FrameDisk.open({ dir, bytesMax: 1_000_000, isShort: () => false, metrics: coldMetrics(metrics), logger: createLogger('silent'), now: Date.now, ...more });
  if (disk === null) throw new Error('no cache');
  opened.push(disk);
  await disk.loaded;
  return disk;
}

/** A cache that keeps nothing in memory. */
function cacheOf(disk: FrameDisk): FrameCache {
  return new FrameCache({ store, metrics: coldMetrics(metrics), disk, bytesMax: 0 });
}

/** Reads frames through a cache, and compares them. */
async function expectRead(cache: FrameCache, wanted: readonly FrameOf[] = frames): Promise<void> {
  let n = frames.indexOf(wanted[0] as FrameOf);
  for await (const raw of cache.read(wanted)) expect(raw.equals(raws[n++] as Buffer)).toBe(true);
  expect(n).toBe(frames.indexOf(wanted.at(-1) as FrameOf) + 1);
}

async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 5_000; !condition(); await new Promise((resolve) => setTimeout(resolve, 5))) if (Date.now() > end) throw new Error('waited in vain');
}

/** A disk that holds every frame. */
async function filled(more: Partial<FrameDiskOptions> = {}): Promise<FrameDisk> {
  const disk = await diskOf(more);
  await expectRead(cacheOf(disk));
  await until(() => disk.bytes === FRAMES * TAKEN);
  store.gets = 0;
  return disk;
}

async function bytesInFolder(): Promise<number> {
  const sizes = await Promise.all((await readdir(dir)).map((name) => stat(join(dir, name))));
  return sizes.reduce((sum, { size }) => sum + Math.ceil(size / 4_096) * 4_096, 0);
}

describe('the cache of frames on disk', () => {
  it('gives what memory no longer holds without the store, also after a restart', async () => {
    const disk = await filled();
    await expectRead(cacheOf(disk));
    expect(store.gets).toBe(0);
    await disk.close();
    store.down = true;
    await expectRead(cacheOf(await diskOf()));
    expect([store.gets, metrics.diskCache.hit.value]).toEqual([0, 2 * FRAMES]);
  });

  it('I9 any flipped byte, a cut file, one that is gone and one of something else are misses, found at the read and mended', async () => {
    const disk = await filled();
    const names = (await readdir(dir)).toSorted((a, b) => Number(a.split('@')[1]) - Number(b.split('@')[1]));
    const path = (n: number): string => join(dir, names[n] as string);
    for (const [n, at] of [[0, 0], [1, 1], [2, 5], [3, RAW / 2], [4, RAW + 13]] as const) {
      const bytes = await readFile(path(n));
      bytes[at] = (bytes[at] as number) ^ 1;
      await writeFile(path(n), bytes);
    }
    await truncate(path(5), 100);
    await rm(path(6));
    await writeFile(path(7), await readFile(path(8)));
    for (const frame of frames) await expectRead(cacheOf(disk), [frame]);
    expect([metrics.diskCache.damaged.value, metrics.damage.object.value]).toEqual([7, 0]);
    await until(() => disk.bytes === FRAMES * TAKEN);
    store.gets = 0;
    await expectRead(cacheOf(disk));
    expect(store.gets).toBe(0);
  });

  it('I11 keeps at most its bytes and files, the ones used last, whatever a process before it left', async () => {
    const disk = await filled({ bytesMax: FRAMES * TAKEN });
    const [first, second] = frames as [FrameOf, FrameOf];
    await expectRead(cacheOf(disk), [first]);
    await disk.close();
    // Half a file, as a kill leaves it.
    await writeFile(join(dir, 'left@0'), 'half');
    await utimes(join(dir, 'left@0'), 0, 0);
    const smaller = await diskOf({ bytesMax: 3 * TAKEN + 100 });
    expect([smaller.bytes, await bytesInFolder()]).toEqual([3 * TAKEN, 3 * TAKEN]);
    await expectRead(cacheOf(smaller), [first, second]);
    await until(() => smaller.has(first) && smaller.has(second));
    expect(await bytesInFolder()).toBeLessThanOrEqual(3 * TAKEN);
    await smaller.close();
    const few = await diskOf({ filesMax: 2 });
    await expectRead(cacheOf(few));
    await few.close();
    expect(await readdir(dir)).toHaveLength(2);
  });

  it('keeps what is read again and again', async () => {
    const disk = await diskOf({ bytesMax: 4 * TAKEN });
    const cache = cacheOf(disk);
    const [hot] = frames as [FrameOf];
    for (const frame of frames) {
      await expectRead(cache, [frame]);
      await until(() => disk.has(frame));
      await expectRead(cache, [hot]);
    }
    expect(store.gets).toBe(FRAMES);
    expect(metrics.frameEvictions.disk.value).toBe(FRAMES - 4);
  });

  it('goes on without a folder that was taken away, makes it anew later, and never fails a reader', async () => {
    let now = 1_000_000;
    const disk = await filled({ now: () => now });
    await rm(dir, { recursive: true });
    await expectRead(cacheOf(disk));
    await until(() => metrics.diskCacheWriteFailures.value === 1);
    // In its place lies a file: nothing can be kept, and everything is read.
    await rm(dir, { recursive: true, force: true });
    await writeFile(dir, 'not a folder');
    now += CACHE_REST_MS;
    await expectRead(cacheOf(disk));
    await until(() => metrics.diskCacheWriteFailures.value === 2);
    await rm(dir);
    now += CACHE_REST_MS;
    await expectRead(cacheOf(disk));
    await until(() => metrics.diskCacheWriteFailures.value === 3);
    now += CACHE_REST_MS;
    await expectRead(cacheOf(disk));
    await until(() => disk.bytes === FRAMES * TAKEN);
    store.down = true;
    await expectRead(cacheOf(disk));
  });

  it('writes nothing while the hot tier needs the room, and gives back what it holds', async () => {
    let short = false;
    const disk = await filled({ isShort: () => short });
    short = true;
    await expect.poll(() => readdir(dir), { timeout: 5_000 }).toEqual([]);
    expect(disk.bytes).toBe(0);
    await expectRead(cacheOf(disk));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await readdir(dir)).toEqual([]);
  });

  it('is fetched from once however many wait, and a reader who leaves takes nothing from the others (R115)', async () => {
    const disk = await filled();
    const cache = cacheOf(disk);
    const abort = new AbortController();
    const left = (async () => {
      for await (const _ of cache.read(frames, abort.signal)) abort.abort(new Error('gone'));
    })();
    await Promise.all([expect(left).rejects.toThrow('gone'), ...Array.from({ length: 50 }, () => expectRead(cache))]);
    expect(store.gets).toBe(0);
    expect(metrics.diskCache.hit.value).toBeLessThan(3 * FRAMES);
  });

  it('a bound of 0 leaves no folder behind', async () => {
    const disk = await filled();
    await disk.close();
    expect(await FrameDisk.open({ dir, bytesMax: 0, isShort: () => false, metrics: coldMetrics(metrics), logger: createLogger('silent'), now: Date.now })).toBeNull();
    await expect(readdir(dir)).rejects.toThrow('ENOENT');
  });
});
