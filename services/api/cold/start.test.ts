import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Rig, until } from './cold-rig.contract.js';
import { StartRefused } from './start-refused.js';

let dir: string;
let rig: Rig | null = null;

beforeEach(async () => {
  dir = await Rig.dir();
});
afterEach(async () => {
  await rig?.close();
  rig = null;
  await Rig.remove(dir);
});

async function filled(): Promise<void> {
  rig = await Rig.open(dir);
  await rig.create('demo/x');
  await rig.append('demo/x', 'one\n');
  await rig.seal();
  await rig.append('demo/x', 'two\n');
  await rig.close();
  rig = null;
}

describe('start rules (architecture section 7)', () => {
  it('known directory, store away: serves and takes writes under the last session, seals once the store is back', async () => {
    await filled();
    rig = await Rig.open(dir, {}, { down: true });
    expect(rig.cold.refusal(0)).toBeNull();
    expect(rig.cold.session(0)).toBe(1);
    expect(rig.cold.reasons().join()).toContain('no session claimed');
    await rig.append('demo/x', 'three\n');
    await rig.create('demo/y');
    const before = (await rig.head('demo/y')).incarnation;
    expect((await rig.read('demo/x')).toString()).toBe('one\ntwo\nthree\n');
    rig.objects.down = false;
    await until(() => rig?.cold.session(0) === 2);
    expect(await rig.seal()).toMatchObject({ streams: 2 });
    expect(rig.cold.reasons()).toEqual([]);
    expect((await rig.create('demo/z')).incarnation).not.toBe(before);
  });

  it('empty directory, store away: no writes before store.json was created; then it begins by itself', async () => {
    rig = await Rig.open(dir, {}, { down: true });
    expect(rig.cold.refusal(0)).toMatchObject({ code: 'NO_LEADER', status: 503 });
    await expect(rig.create('demo/x')).rejects.toMatchObject({ code: 'NO_LEADER' });
    rig.objects.down = false;
    await until(() => rig?.cold.refusal(0) === null);
    await rig.create('demo/x');
    await rig.append('demo/x', 'one\n');
    expect(await rig.seal()).toMatchObject({ streams: 1 });
  });

  it('bucket holds a store and the directory is empty: refuses and names firn restore', async () => {
    await filled();
    await rm(join(dir, 'hot'), { recursive: true });
    await rm(join(dir, 'acked'), { force: true });
    await expect(Rig.open(dir)).rejects.toThrow(/firn restore/);
  });

  it('a directory that had a store finds none: refuses and names both', async () => {
    await filled();
    await rm(join(dir, 'objects'), { recursive: true });
    await expect(Rig.open(dir)).rejects.toThrow(/belongs to store [0-9a-f]+, but directory .* holds none/);
  });

  it('store id, cold kind: refuses and names both', async () => {
    await filled();
    await expect(Rig.open(dir, { cold: 's3' })).rejects.toThrow(/created with FIRN_COLD=fs/);
    const other = await Rig.dir();
    try {
      const foreign = await Rig.open(other);
      await foreign.close();
      await expect(Rig.open(dir, {}, { objectsDir: join(other, 'objects') })).rejects.toThrow(/belongs to store [0-9a-f]+, but .* holds store [0-9a-f]+/);
    } finally {
      await Rig.remove(other);
    }
  });

  it('the bucket has moved on, or lies behind: refuses', async () => {
    await filled();
    const copy = await Rig.dir();
    try {
      await cp(dir, copy, { recursive: true });
      rig = await Rig.open(dir);
      await rig.close();
      rig = null;
      // The copy of the directory, with the bucket that the original moved on.
      await expect(Rig.open(copy, {}, { objectsDir: join(dir, 'objects') })).rejects.toBeInstanceOf(StartRefused);
      // The directory that moved on, with the bucket as it was before.
      await expect(Rig.open(dir, {}, { objectsDir: join(copy, 'objects') })).rejects.toThrow(/does not hold/);
    } finally {
      await Rig.remove(copy);
    }
  });

  it('keeps the partitions that the store was created with', async () => {
    rig = await Rig.open(dir, { partitions: 4 });
    for (let n = 0; n < 20; n++) {
      await rig.create(`demo/s${n}`);
      await rig.append(`demo/s${n}`, `stream ${n}`);
    }
    expect(await rig.seal()).toMatchObject({ streams: 20 });
    rig = await rig.reopen({ partitions: 1 });
    expect(rig.cold.partitions).toHaveLength(4);
    for (let n = 0; n < 20; n++) expect((await rig.read(`demo/s${n}`)).toString()).toBe(`stream ${n}`);
  });
});
