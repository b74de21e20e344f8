import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../../shared/protocol/types.js';
import { checkpointPrefix, logPrefix, sessionPrefix } from '../../../../shared/storage/keys.js';
import { StoreUnavailable } from '../../../../shared/storage/object-store.js';
import { collectHandler, collectJobId } from '../../../worker/handlers/collect.js';
import { namesIn, until, useRig } from '../cold-rig.contract.js';
import { claimSession } from '../sessions.js';
import { alive, Clock, dataObjects, expectOnlyAlive, fillEach, SHORT_GRACE_MS, verify } from './collect-rig.contract.js';

const place = useRig();
const start = (config = {}, options = {}): ReturnType<typeof place.start> => place.start({ hotKeepMs: 0, ...config }, { collectGraceMs: SHORT_GRACE_MS, ...options });
const GRACE_MS = 3_600_000;

describe('a collection', () => {
  it('deletes the objects of deleted streams and keeps what lives (I8)', async () => {
    const node = await start();
    await fillEach(place.rig, ['demo/a', 'demo/b', 'demo/c']);
    await node.delete('demo/a');
    await node.delete('demo/c');
    await node.seal();
    expect(await verify(node)).toMatchObject({ ok: true, unknownObjects: [] });
    const before = await dataObjects(node);
    const done = await node.collect();
    expect(done).toMatchObject({ objects: 2, orphans: 0, unknown: 0, waiting: 0, pinned: 0 });
    expect(done.bytes).toBeGreaterThan(100);
    expect(before).toHaveLength(3);
    expect(await dataObjects(node)).toHaveLength(1);
    await expectOnlyAlive(node);
    expect((await node.read('demo/b')).toString()).toBe('bytes of demo/b');
    expect([node.metrics.objectsDeleted.object.value, node.metrics.objectBytesDeleted.value]).toEqual([2, done.bytes]);
    expect(node.cold.garbage(0)).toEqual({ bytes: 0, unknown: 0 });
  });

  it('leaves an object alone of which some bytes live', async () => {
    const node = await start();
    for (const key of ['demo/a', 'demo/b']) {
      await node.create(key);
      await node.append(key, key);
    }
    await node.seal();
    await node.delete('demo/a');
    await node.seal();
    expect(await node.collect()).toMatchObject({ objects: 0, waiting: 0 });
    expect((await node.read('demo/b')).toString()).toBe('demo/b');
    await expectOnlyAlive(node);
  });

  it('writes nothing when nothing is garbage, and again nothing', async () => {
    const node = await start();
    await fillEach(place.rig, ['demo/a']);
    await node.collect();
    const { length } = node.objects.puts;
    for (let n = 0; n < 3; n++) expect(await node.collect()).toMatchObject({ objects: 0, orphans: 0, checkpoints: 0, logs: 0 });
    expect(node.objects.puts).toHaveLength(length);
  });

  it('keeps the newest two checkpoints, the log behind the older one, every claim and the end of every session', async () => {
    let node = await start();
    for (let life = 0; life < 3; life++) {
      await fillEach(place.rig, [`demo/${life}`, `demo/${life}x`]);
      await node.delete(`demo/${life}x`);
      await node.seal();
      await node.collect();
      node = place.rig = await node.reopen({ hotKeepMs: 0 }, { collectGraceMs: SHORT_GRACE_MS });
    }
    expect(await namesIn(node.objects, checkpointPrefix(0))).toHaveLength(2);
    expect(await namesIn(node.objects, sessionPrefix(0))).toHaveLength(4);
    const log = await namesIn(node.objects, logPrefix(0));
    for (const session of ['000001', '000002']) expect(log.filter((name) => name.includes(`/${session}/`))).toHaveLength(1);
    expect(log.length).toBeLessThan(8);
    await expectOnlyAlive(node);
    for (let life = 0; life < 3; life++) expect((await node.read(`demo/${life}`)).toString()).toBe(`bytes of demo/${life}`);
  });

  it('frees a purged bucket, and nothing of another one', async () => {
    const node = await start();
    await fillEach(place.rig, ['gone/a', 'gone/b', 'stays/a']);
    await node.log.purge('gone');
    await node.seal();
    expect(await node.collect()).toMatchObject({ objects: 2 });
    expect((await node.read('stays/a')).toString()).toBe('bytes of stays/a');
    await expectOnlyAlive(node);
  });

  it('tells a deleted life from the one that came after it (I7)', async () => {
    const node = await start();
    await fillEach(place.rig, ['demo/a']);
    await node.delete('demo/a');
    await fillEach(place.rig, ['demo/a']);
    expect(await node.collect()).toMatchObject({ objects: 1 });
    expect((await node.read('demo/a')).toString()).toBe('bytes of demo/a');
    await expectOnlyAlive(node);
  });

  it('keeps the bytes of a source for its forks, and frees them with the last one', async () => {
    const node = await start();
    await fillEach(place.rig, ['demo/source']);
    await node.create('demo/fork', { fork: { key: 'demo/source' as StreamKey, offset: null, sub: 0 } });
    await node.append('demo/fork', ' and more');
    await node.seal();
    await node.delete('demo/source');
    await node.seal();
    expect(await node.collect()).toMatchObject({ objects: 0 });
    expect((await node.read('demo/fork')).toString()).toBe('bytes of demo/source and more');
    await node.delete('demo/fork');
    await node.seal();
    await until(async () => (await alive(node)).length === 0 || (await node.seal(), false));
    expect(await node.collect()).toMatchObject({ objects: 2 });
    await expectOnlyAlive(node);
  });

  it('frees superseded snapshots, packed and offloaded ones, and ranges below the boundary (R032)', async () => {
    const node = await start();
    const [first, second] = [Buffer.alloc(1_100_000, 'first '), Buffer.alloc(1_100_000, 'second ')];
    await node.create('demo/a');
    await node.append('demo/a', 'x'.repeat(100));
    await node.snapshot('demo/a', 10, first);
    await node.seal();
    await node.append('demo/a', 'y'.repeat(100));
    await node.snapshot('demo/a', 150, second);
    await node.log.retain('demo/a' as StreamKey, null, 100 as Offset);
    await node.seal();
    expect(await dataObjects(node)).toHaveLength(4);
    expect(await node.collect()).toMatchObject({ objects: 2 });
    expect((await node.readSnapshot('demo/a', 150)).equals(second)).toBe(true);
    expect((await node.read('demo/a')).toString()).toBe('y'.repeat(100));
    await expectOnlyAlive(node);
  });

  it('works on four partitions', async () => {
    const node = await start({ partitions: 4 });
    const keys = Array.from({ length: 24 }, (_, n) => `demo/s${n}`);
    await fillEach(place.rig, keys);
    for (const [n, key] of keys.entries()) if (n % 2 === 0) await node.delete(key);
    await node.seal();
    expect(await node.collect()).toMatchObject({ objects: 12, unknown: 0 });
    for (const [n, key] of keys.entries()) if (n % 2 === 1) expect((await node.read(key)).toString()).toBe(`bytes of ${key}`);
    await expectOnlyAlive(node);
  });

  it('by two at once deletes the same once, and nothing else', async () => {
    const node = await start();
    await fillEach(place.rig, ['demo/a', 'demo/b', 'demo/c']);
    for (const key of ['demo/a', 'demo/b']) await node.delete(key);
    await node.seal();
    for (let n = 0; n < 2; n++) {
      await node.create(`demo/n${n}`);
      await node.append(`demo/n${n}`, 'x');
      await node.seal();
      await node.cold.checkpointNow(AbortSignal.timeout(5_000));
    }
    const both = (): Promise<unknown> => Promise.all([1, 2].map((n) => collectHandler(node.cold.port)(collectJobId(0, 1, 900 + n), AbortSignal.timeout(5_000))));
    await both();
    await new Promise((resolve) => setTimeout(resolve, SHORT_GRACE_MS + 5));
    await both();
    expect((await node.collect()).waiting).toBe(0);
    expect((await node.read('demo/c')).toString()).toBe('bytes of demo/c');
    await expectOnlyAlive(node);
  });
});

describe('objects without a record', () => {
  const orphan = 'partitions/0000/segments/0000-000001-0000000099-0001-00000';

  it('go in two steps once their session is fenced; what nobody knows is kept and told (I8)', async () => {
    const clock = new Clock();
    let node = await start({}, { now: clock.now, collectGraceMs: GRACE_MS });
    const foreign = ['backup.tar', 'partitions/0000/segments/somebody-else', 'partitions/0000/segments/0000-000009-0000000001-0001-00000', 'partitions/0007/log/000001/0000000001', 'zzz/readme'];
    for (const key of [orphan, ...foreign]) await node.objects.putOnce(key, Buffer.from('nobody names this'));
    // Plan 99 was not made yet in the session that runs.
    expect(await node.collect()).toMatchObject({ orphans: 0, unknown: foreign.length + 1 });
    node = place.rig = await node.reopen({ hotKeepMs: 0 }, { now: clock.now, collectGraceMs: GRACE_MS });
    const collecting = node.collect();
    await until(async () => (await node.cold.runner.stats()).collect.done > 0);
    expect(await node.objects.size(orphan)).not.toBeNull();
    expect(await verify(node)).toMatchObject({ ok: true, leftOvers: 1, unknownObjectCount: foreign.length });
    clock.skewMs += GRACE_MS;
    const done = await collecting;
    expect(done).toMatchObject({ objects: 0, orphans: 1, unknown: foreign.length });
    expect([...done.unknownObjects].sort()).toEqual([...foreign].sort());
    expect(await node.objects.size(orphan)).toBeNull();
    for (const key of foreign) expect(await node.objects.size(key)).toBe(17);
    expect(node.cold.garbage(0).unknown).toBe(foreign.length);
  });

  it('of a plan that is open stay, and go when it is finished without them', async () => {
    const node = await start();
    await node.create('demo/a');
    await node.append('demo/a', 'x');
    let looks = 0;
    let goOn: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (goOn = resolve));
    node.objects.before = (call, key) => {
      // The first try comes to nothing after its upload; the second one waits there.
      if (call !== 'get' || !key.includes('/segments/')) return;
      if (++looks === 1) throw new StoreUnavailable('cut off');
      return held;
    };
    const sealing = node.seal();
    await until(() => looks === 2);
    expect(await dataObjects(node)).toHaveLength(2);
    expect(await node.collect()).toMatchObject({ orphans: 0, unknown: 0, waiting: 0 });
    expect(await dataObjects(node)).toHaveLength(2);
    goOn();
    await sealing;
    expect(await node.collect()).toMatchObject({ orphans: 1, objects: 0 });
    await expectOnlyAlive(node);
    expect((await node.read('demo/a')).toString()).toBe('x');
  });

  it('a clock that is set back makes the grace longer, never shorter', async () => {
    const clock = new Clock();
    const node = await start({}, { now: clock.now, collectGraceMs: GRACE_MS });
    await fillEach(place.rig, ['demo/a']);
    await node.delete('demo/a');
    await node.seal();
    const collecting = node.collect(30_000);
    const runs = async (): Promise<number> => (await node.cold.runner.stats()).collect.done;
    await until(async () => (await runs()) >= 2);
    clock.skewMs -= 10 * GRACE_MS;
    await until(async () => (await runs()) >= 3);
    clock.skewMs += GRACE_MS / 2;
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(await dataObjects(node)).toHaveLength(1);
    clock.skewMs += GRACE_MS;
    expect(await collecting).toMatchObject({ objects: 1 });
    expect(await dataObjects(node)).toEqual([]);
  });
});

describe('a store or a session that goes away in the middle', () => {
  async function withGarbage(): ReturnType<typeof start> {
    const node = await start();
    await fillEach(place.rig, ['demo/a', 'demo/b', 'demo/c', 'demo/d']);
    for (const key of ['demo/a', 'demo/b', 'demo/c']) await node.delete(key);
    await node.seal();
    return node;
  }

  it.each(['delete', 'deleted'] as const)('a deletion that fails at "%s" is made again by the next collection', async (call) => {
    const node = await withGarbage();
    let left = 1;
    node.objects.before = (what, key) => {
      if (what === call && key.includes('/segments/') && left-- > 0) throw new StoreUnavailable('the answer was lost');
    };
    await expect(node.collect()).rejects.toThrow('the answer was lost');
    node.objects.before = () => undefined;
    expect(await verify(node)).toMatchObject({ ok: true, findings: [] });
    await node.collect();
    await expectOnlyAlive(node);
    expect((await node.read('demo/d')).toString()).toBe('bytes of demo/d');
  });

  it('deletes nothing without its record in the log', async () => {
    const node = await withGarbage();
    node.objects.before = (what, key) => {
      if (what === 'delete' && key.includes('/segments/')) {
        const named = node.objects.puts.at(-1);
        expect(named).toMatch(/\/log\//);
      }
    };
    expect(await node.collect()).toMatchObject({ objects: 3 });
  });

  it('a node whose session is over deletes nothing (R097)', async () => {
    const node = await withGarbage();
    await claimSession(node.objects, { partition: 0, session: 2, node: 'f'.repeat(32), claimedAtMs: Date.now() });
    await expect(node.collect()).rejects.toThrow(/session 1 .* is over/);
    expect(node.objects.deletes).toEqual([]);
    expect(await dataObjects(node)).toHaveLength(4);
  });

  it('a run of a session that is over is given nothing', async () => {
    const node = await withGarbage();
    await expect(node.cold.port.collect(collectJobId(0, 7, 1), { dropped: await dataObjects(node), strays: [] })).rejects.toThrow(/is not open any more/);
    expect(node.objects.deletes).toEqual([]);
  });
});

describe('a node', () => {
  it('gives nothing free that it counts a reference to, that an open plan may still name, or that is of another partition, whatever a worker says', async () => {
    const node = await start({ partitions: 4 });
    await fillEach(place.rig, ['demo/a', 'demo/b']);
    const living = await alive(node);
    const session = 1;
    for (let partition = 0; partition < 4; partition++) {
      const job = collectJobId(partition, session, 1);
      for (let round = 0; round < 2; round++) {
        const unborn = `partitions/000${partition}/segments/000${partition}-000001-0000000099-0001-00000`;
        const verdict = await node.cold.port.collect(job, { dropped: [...living, 'nonsense'], strays: [...living, unborn, 'store.json', `partitions/000${partition}/log/000001/0000000001`] });
        expect(verdict).toEqual({ free: [], pinned: 0, retryMs: null });
        await new Promise((resolve) => setTimeout(resolve, SHORT_GRACE_MS + 5));
      }
    }
  });
});

describe('readers', () => {
  const BYTES = randomBytes(12_000_000);

  async function withReader(clock: Clock): Promise<{ read: AsyncIterator<Buffer>; first: Buffer }> {
    const node = await start({}, { now: clock.now, frameCacheBytes: 1 });
    await node.create('demo/a');
    await node.append('demo/a', BYTES);
    await node.seal();
    const window = await node.log.read({ key: 'demo/a' as StreamKey, precondition: null, from: 0 as Offset, maxBytes: BYTES.length, cut: 'bytes' });
    const read = window.body()[Symbol.asyncIterator]();
    const first = Buffer.from((await read.next()).value as Buffer);
    await node.delete('demo/a');
    await node.seal();
    return { read, first };
  }

  it('one that is open across a collection ends with every byte; then its object goes (R032)', { timeout: 30_000 }, async () => {
    const { read, first } = await withReader(new Clock());
    const node = place.rig;
    expect(await node.collect()).toMatchObject({ objects: 0, pinned: 1, waiting: 1 });
    const pieces = [first];
    for (let next = await read.next(); next.done !== true; next = await read.next()) pieces.push(Buffer.from(next.value));
    expect(Buffer.concat(pieces).equals(BYTES)).toBe(true);
    expect(await node.collect()).toMatchObject({ objects: 1, pinned: 0, waiting: 0 });
    await expectOnlyAlive(node);
  });

  it('one that holds an object for too long is cut loudly, and the object goes (I9)', { timeout: 30_000 }, async () => {
    const clock = new Clock();
    const { read } = await withReader(clock);
    const node = place.rig;
    clock.skewMs += 901_000;
    expect(await node.collect()).toMatchObject({ objects: 1, pinned: 0 });
    const rest = async (): Promise<void> => {
      for (let next = await read.next(); next.done !== true; next = await read.next()) continue;
    };
    await expect(rest()).rejects.toThrow('no such stream');
    expect([node.metrics.coldReadersCut.value, node.metrics.damage.object.value]).toEqual([1, 0]);
    expect(await dataObjects(node)).toEqual([]);
  });
});
