import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, open, readFile, readdir, rm, symlink, truncate, utimes, writeFile, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DIRTY_BYTES_MAX, FsObjectStore } from './fs-store.js';
import { objectStoreContract } from './object-store.contract.js';
import { ObjectDamaged, ObjectMissing, StoreUnavailable } from './object-store.js';

async function newDirectory(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'firn-fs-store-'));
}

objectStoreContract('directory', async () => {
  const directory = await newDirectory();
  const store = await FsObjectStore.open(join(directory, 'objects'));
  return {
    store,
    async done() {
      await store.close();
      await rm(directory, { recursive: true });
    },
  };
});

describe('object store in a directory', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await newDirectory();
  });
  afterEach(() => rm(directory, { recursive: true }));

  async function listed(store: FsObjectStore): Promise<string[]> {
    const keys: string[] = [];
    for await (const { key } of store.list('')) keys.push(key);
    return keys;
  }

  it.each(['putOnce', 'putUnique'] as const)('%s never has more of a body unsynced than other writers of the disk can wait for', async (put) => {
    const probe = await open(join(directory, 'probe'), 'w');
    const proto = Object.getPrototypeOf(probe) as FileHandle;
    await probe.close();
    const { write, datasync, sync } = proto;
    let dirty = 0;
    let dirtyMost = 0;
    let syncs = 0;
    try {
      proto.write = async function (this: FileHandle, ...args: unknown[]) {
        const result = await (write as unknown as (...given: unknown[]) => Promise<{ bytesWritten: number; buffer: Buffer }>).apply(this, args);
        dirty += result.bytesWritten;
        dirtyMost = Math.max(dirtyMost, dirty);
        return result;
      } as typeof write;
      const synced = (original: () => Promise<void>) => async function (this: FileHandle): Promise<void> {
        await original.call(this);
        dirty = 0;
        syncs++;
      };
      proto.datasync = synced(datasync);
      proto.sync = synced(sync);
      const store = await FsObjectStore.open(join(directory, 'objects'));
      // Pieces that end within, at and behind the limit.
      const parts = [700_000, 700_000, 5_000_001, 1, 1_048_576, 17].map((bytes, n) => Buffer.alloc(bytes, n + 1));
      const whole = Buffer.concat(parts);
      syncs = 0;
      if (put === 'putOnce') expect(await store.putOnce('segments/one', parts)).toBe('created');
      else await store.putUnique('segments/one', (async function* () { yield* parts; })(), whole.length);
      expect(dirtyMost).toBeGreaterThan(0);
      expect(dirtyMost).toBeLessThanOrEqual(DIRTY_BYTES_MAX);
      expect(dirty).toBe(0);
      // Small pieces share a sync.
      expect(syncs).toBeLessThanOrEqual(Math.ceil(whole.length / DIRTY_BYTES_MAX) + 5);
      expect((await store.get('segments/one')).equals(whole)).toBe(true);
    } finally {
      Object.assign(proto, { write, datasync, sync });
    }
  });

  it('I4 ignores what a killed process left unfinished and removes it at the next open', async () => {
    const gone = spawnSync(process.execPath, ['-e', '']).pid;
    await FsObjectStore.open(directory);
    for (const name of [`${gone}-half`, `${process.pid}-half`, 'strange']) await writeFile(join(directory, '.tmp', name), 'half an obj');
    await writeFile(join(directory, '.tmp', '1-of-another-process'), 'being written');
    const store = await FsObjectStore.open(directory);
    expect(await listed(store)).toEqual([]);
    expect(await readdir(join(directory, '.tmp'))).toEqual(['1-of-another-process']);
    await utimes(join(directory, '.tmp', '1-of-another-process'), 0, 0);
    await FsObjectStore.open(directory);
    expect(await readdir(join(directory, '.tmp'))).toEqual([]);
  });

  it('I10 a second open does not disturb a put that is under way', async () => {
    const store = await FsObjectStore.open(directory);
    const body = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.from('first ');
      await FsObjectStore.open(directory);
      yield Buffer.from('second');
    };
    await store.putUnique('snapshots/one', body(), 12);
    expect((await store.get('snapshots/one')).toString()).toBe('first second');
  });

  it('I10 of creators in several stores on one directory exactly one wins', async () => {
    const stores = await Promise.all(Array.from({ length: 4 }, () => FsObjectStore.open(directory)));
    const outcomes = await Promise.all(stores.flatMap((store, index) => [0, 1, 2].map((again) => store.putOnce('sessions/000001', Buffer.from(`node ${index}.${again}`)))));
    expect(outcomes.filter((outcome) => outcome === 'created').length).toBe(1);
    expect(outcomes.filter((outcome) => outcome === 'exists-theirs').length).toBe(11);
  });

  it('leaves no temporary file behind, however a put ends', async () => {
    const store = await FsObjectStore.open(directory);
    await store.putOnce('a/b', Buffer.from('x'));
    await store.putOnce('a/b', Buffer.from('x'));
    await store.putOnce('a/b', Buffer.from('y'));
    await expect(store.putUnique('a/c', (async function* () { yield Buffer.from('abc'); })(), 2)).rejects.toThrow('2 were declared');
    expect(await readdir(join(directory, '.tmp'))).toEqual([]);
    expect(await listed(store)).toEqual(['a/b']);
  });

  it('goes on when somebody removed empty folders', async () => {
    const store = await FsObjectStore.open(directory);
    await store.putOnce('a/b/c', Buffer.from('x'));
    await rm(join(directory, 'a'), { recursive: true });
    expect(await store.putOnce('a/b/c', Buffer.from('y'))).toBe('created');
    expect((await readFile(join(directory, 'a/b/c'))).toString()).toBe('y');
  });

  it('I9 calls an object that was cut short damaged, and one that was removed missing', async () => {
    const store = await FsObjectStore.open(directory);
    await store.putOnce('a/b', Buffer.alloc(1_000));
    await truncate(join(directory, 'a/b'), 500);
    await expect(store.get('a/b', { from: 400, length: 200 })).rejects.toThrow(ObjectDamaged);
    await rm(join(directory, 'a/b'));
    await expect(store.get('a/b')).rejects.toThrow(ObjectMissing);
  });

  it('I9 calls an object that shrinks while it is read damaged', async () => {
    const store = await FsObjectStore.open(directory);
    await store.putOnce('a/b', Buffer.alloc(1_000_000));
    const reading = (async () => {
      for await (const _ of store.stream('a/b')) await truncate(join(directory, 'a/b'), 300_000);
    })();
    await expect(reading).rejects.toThrow(ObjectDamaged);
  });

  it('reports what the file system refuses as unavailable', async () => {
    const store = await FsObjectStore.open(directory);
    await writeFile(join(directory, 'a'), 'a file where a folder has to be');
    await expect(store.putOnce('a/b', Buffer.from('x'))).rejects.toThrow(StoreUnavailable);
    await mkdir(join(directory, 'loop'));
    await symlink(join(directory, 'loop/x'), join(directory, 'loop/x'));
    await expect(store.get('loop/x')).rejects.toThrow(StoreUnavailable);
    await writeFile(join(directory, 'file'), '');
    await expect(FsObjectStore.open(join(directory, 'file', 'below'))).rejects.toThrow(StoreUnavailable);
  });
});
