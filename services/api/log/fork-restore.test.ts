import { randomBytes } from 'node:crypto';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics } from '../../../shared/observability/metrics.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { FsObjectStore } from '../../../shared/storage/fs-store.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { coldMetrics } from '../cold/cold-metrics.js';
import { until, useRig, type Rig } from '../cold/cold-rig.contract.js';
import { restore, type RestoreReport } from '../cold/restore.js';
import { verifyStore, type VerifyReport } from '../cold/verify.js';
import type { ForkRequest } from './types.js';

const place = useRig();
const { start } = place;

function from(key: string): ForkRequest {
  return { key: key as StreamKey, offset: null, sub: 0 };
}

function verify(of: Rig): Promise<VerifyReport> {
  const stagedBytes = (file: string): Promise<number | null> => stat(join(place.dir, 'staging', file)).then(({ size }) => size, () => null);
  return verifyStore({ store: of.core.store, objects: of.objects, deep: true, stagedBytes, signal: AbortSignal.timeout(30_000) });
}

async function loseHot(): Promise<void> {
  await place.rig.close();
  await rm(join(place.dir, 'hot'), { recursive: true });
}

async function restoreHere(cold: 'fs' | 's3', over: (store: ObjectStore) => ObjectStore = (store) => store): Promise<RestoreReport> {
  const objects = over(await FsObjectStore.open(join(place.dir, 'objects')));
  return restore({
    config: { dataDir: place.dir, cold }, objects, newIncarnations: false, logger: createLogger('silent'), metrics: coldMetrics(createMetrics()), now: Date.now, nonce: () => randomBytes(16).toString('hex'), signal: AbortSignal.timeout(30_000),
  });
}

describe.each(['fs', 's3'] as const)('a restore of forks (%s)', (cold) => {
  it('a fork that had ended, and whose end the log does not hold, does not come back without what it inherited', async () => {
    let node = await start({ cold, hotKeepMs: 0 });
    await node.create('src/s', { body: 'abcdef' });
    await node.create('f/f', { fork: from('src/s'), body: 'own' });
    await node.seal();
    await node.snapshot('src/s', 6, Buffer.from('snap'));
    await node.log.retain('src/s' as StreamKey, null, 6 as Offset);
    await node.delete('f/f');
    // The log learns that the source needs what lies below its boundary no longer, and not yet why.
    await node.seal('src/');
    await loseHot();
    const report = await restoreHere(cold);
    node = await start({ cold, hotKeepMs: 0 });
    await expect(node.head('f/f')).rejects.toMatchObject({ code: 'STREAM_NOT_FOUND' });
    expect(report.losses.map(({ key }) => key)).toEqual(['f/f']);
    expect(await node.head('src/s')).toMatchObject({ forks: 0, retained: 6 });
    expect((await verify(node)).findings).toEqual([]);
  });

  it('FORK-26 a deleted source whose forks the log does not hold is let go, and one that is not deleted counts those that are there', async () => {
    let node = await start({ cold });
    for (const key of ['src/gone', 'src/stays']) {
      await node.create(key, { body: 'abc' });
      await node.create(`f/${key.slice(4)}-lost`, { fork: from(key) });
    }
    await node.create('f/held', { fork: from('src/stays') });
    await node.seal('f/held');
    await node.delete('src/gone');
    await node.seal('src/');
    expect((await node.head('src/stays')).forks).toBe(2);
    await loseHot();
    await restoreHere(cold);
    node = await start({ cold });
    await until(() => node.head('src/gone').then(() => false, (error: { code: string }) => error.code === 'STREAM_NOT_FOUND'));
    expect((await node.head('src/stays')).forks).toBe(1);
    expect((await node.read('f/held')).toString()).toBe('abc');
    await node.seal();
    expect(await verify(node)).toMatchObject({ ok: true, findings: [], streams: 2 });
    await node.delete('src/stays');
    await node.delete('f/held');
    await until(() => node.head('src/stays').then(() => false, (error: { code: string }) => error.code === 'STREAM_NOT_FOUND'));
  });

  it('a fork that had ended is not bound to another stream that its path of the source names by now (I7)', async () => {
    let node = await start({ cold });
    await node.create('src/s', { body: 'old life' });
    await node.create('f/f', { fork: from('src/s') });
    await node.seal();
    await node.delete('f/f');
    await node.delete('src/s');
    await node.create('src/s', { body: 'a new life that is longer' });
    await node.seal('src/');
    for (let again = 0; again < 3; again++) {
      await loseHot();
      await restoreHere(cold);
      node = await start({ cold });
      await expect(node.head('f/f')).rejects.toMatchObject({ code: 'STREAM_NOT_FOUND' });
      expect((await node.read('src/s')).toString()).toBe('a new life that is longer');
      expect((await node.head('src/s')).forks).toBe(0);
      if (again === 1) await node.cold.checkpointNow(AbortSignal.timeout(10_000));
    }
  });

  it.each([false, true])('one that was broken off anywhere gives back sources and forks when it is done again (checkpoint: %s)', { timeout: 60_000 }, async (checkpoint) => {
    let node = await start({ cold, partitions: 4 });
    for (const n of [1, 2, 3]) {
      await node.create(`s/${n}`, { body: `source ${n};` });
      await node.create(`f/${n}`, { fork: from(`s/${n}`), body: `fork ${n};` });
      await node.create(`g/${n}`, { fork: from(`f/${n}`), body: `deep ${n};` });
    }
    await node.delete('s/3');
    await node.seal();
    if (checkpoint) await node.cold.checkpointNow(AbortSignal.timeout(10_000));
    await loseHot();
    // Broken off behind each record that it writes.
    for (let writes = 1; ; writes++) {
      let left = writes;
      const broken = await restoreHere(cold, (store) => new Proxy(store, {
        get(target, name) {
          const member = Reflect.get(target, name) as unknown;
          if (typeof member !== 'function') return member;
          if (name !== 'putOnce') return member.bind(target) as unknown;
          return async (...args: unknown[]) => {
            if (String(args[0]).includes('/log/') && left-- <= 0) throw new Error('the power went');
            return (member as (...args: unknown[]) => unknown).apply(target, args);
          };
        },
      })).then(() => null, (error: Error) => error);
      if (broken === null) break;
      expect(String(broken)).toContain('the power went');
      await rm(join(place.dir, 'hot'), { recursive: true });
    }
    node = await start({ cold, partitions: 4 });
    for (const n of [1, 2, 3]) expect((await node.read(`g/${n}`)).toString()).toBe(`source ${n};fork ${n};deep ${n};`);
    await expect(node.head('s/3')).rejects.toMatchObject({ code: 'STREAM_GONE' });
    expect((await verify(node)).findings).toEqual([]);
    await Promise.all([1, 2, 3].flatMap((n) => [node.delete(`f/${n}`), node.delete(`g/${n}`)]));
    await until(() => node.head('s/3').then(() => false, (error: { code: string }) => error.code === 'STREAM_NOT_FOUND'));
  });
});

describe('a chain of 64 forks', () => {
  it('FORK-29 is sealed link by link within one call, read from cold storage, and restored', { timeout: 60_000 }, async () => {
    let node = await start({ partitions: 4, hotKeepMs: 0 });
    await node.create('c/0', { body: '0;' });
    for (let i = 1; i <= 64; i++) await node.create(`c/${i}`, { fork: from(`c/${i - 1}`), body: `${i};` });
    await node.seal('c/64', 30_000);
    const whole = Array.from({ length: 65 }, (_, i) => `${i};`).join('');
    expect((await node.read('c/64')).toString()).toBe(whole);
    await loseHot();
    expect((await restoreHere('fs')).lossCount).toBe(0);
    node = await start({ partitions: 4, hotKeepMs: 0 });
    expect((await node.read('c/64', 7)).toString()).toBe(whole);
    expect(await verify(node)).toMatchObject({ ok: true, streams: 65 });
  });
});

describe('a seal by prefix', () => {
  it.each([1, 4])('takes the source along that a fork waits for (%i partitions)', async (partitions) => {
    const node = await start({ partitions });
    for (const n of [1, 2, 3, 4]) {
      await node.create(`s${n}/s`, { body: 'abc' });
      await node.create(`f${n}/f`, { fork: from(`s${n}/s`), body: 'd' });
      await node.seal(`f${n}/`, 5_000);
      expect((await node.head(`f${n}/f`)).sealed).toBe(4);
    }
  });
});
