import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { StoreUnavailable } from '../../../shared/storage/object-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { objectRow, snapshotRow } from '../hot/keys/index.js';
import { readLog } from '../../../shared/storage/history/log-reader.js';
import { Rig, until, useCounts, useRig } from './cold-rig.contract.js';

const place = useRig();
const { start } = place;

describe('space', () => {
  it('retention gives references and hot values back once the log holds the boundary', async () => {
    const node = await start({ hotKeepMs: 0 });
    await node.create('demo/a');
    const piece = randomBytes(200_000);
    for (let n = 0; n < 8; n++) {
      await node.append('demo/a', piece);
      await node.seal();
    }
    await node.append('demo/a', piece);
    await node.snapshot('demo/a', 1_000_000, Buffer.from('covers the first five'));
    await node.log.retain('demo/a' as StreamKey, null, 900_000 as Offset);
    await node.seal();
    const { incarnation } = await node.head('demo/a');
    const refs = await node.refs(slotOf('demo/a' as StreamKey), incarnation, 0 as Offset, 100);
    expect(refs[0]?.start).toBe(800_000);
    const { rows, counted } = await useCounts(node);
    const snapshotObject = (await node.head('demo/a')).snapshot?.cold?.ref.object;
    if (snapshotObject !== undefined) counted.set(objectKey(snapshotObject), (counted.get(objectKey(snapshotObject)) ?? 0) + 1);
    expect(rows).toEqual(counted);
    expect([...rows.values()].filter((refs_) => refs_ === 0)).toHaveLength(4);
    const all = Buffer.concat(Array.from({ length: 9 }, () => piece)).subarray(900_000);
    expect((await node.read('demo/a', 123_456)).equals(all)).toBe(true);
  });

  it('a superseded snapshot keeps its object until the log holds the newer one, then counts as garbage (R032)', async () => {
    const node = await start({ hotKeepMs: 0 });
    const [first, second] = [Buffer.alloc(1_100_000, 'first '), Buffer.alloc(1_100_000, 'second ')];
    await node.create('demo/a');
    await node.append('demo/a', 'x'.repeat(100));
    await node.snapshot('demo/a', 10, first);
    await node.seal();
    const old = (await node.head('demo/a')).snapshot?.cold?.ref.object;
    expect(old?.kind).toBe('snapshot');
    await until(async () => (await node.head('demo/a')).snapshot?.hot === null);
    expect(await readdir(join(place.dir, 'staging'))).toEqual([]);
    expect((await node.readSnapshot('demo/a', 10)).equals(first)).toBe(true);
    await node.snapshot('demo/a', 50, second);
    const use = async (): Promise<number | undefined> => {
      const value = await node.hot.get(objectRow.key(old as NonNullable<typeof old>));
      return value === undefined ? undefined : objectRow.decode(value).refs;
    };
    expect(await use()).toBe(1);
    await node.seal();
    expect(await use()).toBe(0);
    expect((await node.readSnapshot('demo/a', 50)).equals(second)).toBe(true);
    for await (const page of node.hot.scan(snapshotRow.range(slotOf('demo/a' as StreamKey), (await node.head('demo/a')).incarnation))) {
      for (const { value } of page) expect(snapshotRow.decode(value).cold).toBeNull();
    }
  });

  it('a snapshot superseded or deleted while it waits for its offload does not stop the others', async () => {
    const node = await start();
    for (const key of ['demo/a', 'demo/b', 'demo/c']) {
      await node.create(key);
      await node.append(key, 'x'.repeat(100));
    }
    const held: (() => void)[] = [];
    node.objects.before = (call, key) => (call === 'put' && key.includes('/snapshots/') && held.length === 0 ? new Promise<void>((resolve) => held.push(resolve)) : undefined);
    const body = (name: string): Buffer => Buffer.alloc(1_100_000, name);
    await node.snapshot('demo/a', 10, body('first of a '));
    await until(() => held.length === 1);
    await node.snapshot('demo/b', 10, body('of b '));
    await node.snapshot('demo/c', 10, body('of c '));
    await node.snapshot('demo/a', 20, body('second of a '));
    await node.delete('demo/b');
    held.forEach((release) => release());
    await node.seal();
    for (const [key, offset] of [['demo/a', 20], ['demo/c', 10]] as const) {
      const { snapshot } = await node.head(key);
      expect(snapshot).toMatchObject({ offset, cold: { at: 'object' } });
    }
    expect((await node.readSnapshot('demo/a', 20)).equals(body('second of a '))).toBe(true);
  });

  it('sealed copies stay hot for their time, and go earlier, oldest first, when room is short', async () => {
    let free = Infinity;
    const node = await start({ hotKeepMs: 3_600_000, hotBytesMax: 2_500 }, { freeBytes: () => free });
    for (const name of ['a', 'b', 'c']) {
      await node.create(`demo/${name}`);
      await node.append(`demo/${name}`, name.repeat(1_000));
      await node.seal();
      if (name === 'b') expect((await node.head('demo/a')).hotStart).toBe(0);
    }
    expect(node.cold.hotBytes).toBe(3_000);
    await until(async () => (await node.head('demo/a')).hotStart === 1_000);
    expect((await node.head('demo/c')).hotStart).toBe(0);
    expect(node.cold.hotBytes).toBe(2_000);
    // A restart counts the same bytes, and takes nothing twice (R111).
    place.rig = await node.reopen(node.config, { freeBytes: () => free });
    expect(place.rig.cold.hotBytes).toBe(2_000);
    expect((await place.rig.head('demo/a')).retained).toBe(0);
    free = -1;
    await until(async () => (await place.rig.head('demo/c'))?.hotStart === 1_000);
    for (const name of ['a', 'b', 'c']) expect((await place.rig.read(`demo/${name}`)).toString()).toBe(name.repeat(1_000));
  });

  it('where nothing is kept hot, what was sealed goes at once and not with the next tick of a second', async () => {
    const node = await start({ hotKeepMs: 0, sealBytes: 1 });
    await node.create('demo/a');
    const startedAt = performance.now();
    for (let n = 1; n <= 10; n++) {
      await node.append('demo/a', 'x');
      await until(async () => (await node.head('demo/a')).hotStart === n);
    }
    // Ticks alone would take a second for each.
    expect(performance.now() - startedAt).toBeLessThan(4_000);
  });

  it('a read under way finishes with exact bytes while its hot copies are evicted (R109)', async () => {
    const node = await start({ hotKeepMs: 0 });
    await node.create('demo/a');
    const bytes = randomBytes(6_000_000);
    for (let at = 0; at < bytes.length; at += 500_000) await node.append('demo/a', bytes.subarray(at, at + 500_000));
    const window = await node.log.read({ key: 'demo/a' as StreamKey, precondition: null, from: 0 as Offset, maxBytes: 8_000_000, cut: 'bytes' });
    const pieces: Buffer[] = [];
    let sealed = false;
    for await (const piece of window.body()) {
      pieces.push(Buffer.from(piece));
      if (!sealed) await node.seal();
      sealed = true;
    }
    expect((await node.head('demo/a')).hotStart).toBe(bytes.length);
    expect(Buffer.concat(pieces).equals(bytes)).toBe(true);
  });

  it('a purge reaches the log of every partition, also over a crash while the store was away', async () => {
    const node = await start({ partitions: 2 });
    await node.create('lost/a');
    node.objects.down = true;
    const purging = node.log.purge('lost').catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await node.kill();
    void purging;
    place.rig = await Rig.open(place.dir, { partitions: 2 });
    await place.rig.create('gone/a');
    await place.rig.append('gone/a', 'x');
    await place.rig.seal();
    await place.rig.log.purge('gone');
    await place.rig.seal();
    for (const partition of [0, 1]) {
      const purges: string[] = [];
      for await (const { record } of readLog({ store: place.rig.objects, partition, after: { session: 0, seq: 0 }, until: 2, live: true })) {
        for (const delta of record.deltas) if (delta.kind === 'purge') purges.push(delta.bucket);
      }
      expect(purges).toEqual(['lost', 'gone']);
    }
  });
});

describe('hot bytes that have a cold copy', () => {
  /** Evictions wait until it is given back. */
  function holdEvictions(of: Rig): () => Promise<void> {
    const evictor = of.cold.partitions[0]?.evictor as { step: () => Promise<boolean> };
    const step = evictor.step;
    evictor.step = () => Promise.resolve(false);
    return async () => {
      evictor.step = step;
      await of.cold.partitions[0]?.evictor.due();
    };
  }

  it('no longer count when their stream is deleted or their boundary passes, also over a restart', async () => {
    const node = await start({ hotKeepMs: 1 });
    const letGo = holdEvictions(node);
    for (let n = 0; n < 3; n++) {
      await node.create('demo/a');
      await node.append('demo/a', Buffer.alloc(100_000, 1));
      await node.seal();
      expect(node.cold.hotBytes).toBe(100_000);
      await node.delete('demo/a');
      expect(node.cold.hotBytes).toBe(0);
    }
    await node.create('demo/b');
    await node.append('demo/b', Buffer.alloc(100_000, 1));
    await node.seal();
    await node.snapshot('demo/b', 60_000, Buffer.from('x'));
    await node.log.retain('demo/b' as StreamKey, null, 60_000 as Offset);
    expect(node.cold.hotBytes).toBe(40_000);
    await node.append('demo/b', Buffer.alloc(5_000, 2));
    expect(node.cold.hotBytes).toBe(45_000);
    await node.create('demo/c');
    await node.append('demo/c', Buffer.alloc(7_000, 2));
    await node.seal('demo/c');
    expect(node.cold.hotBytes).toBe(52_000);
    // The newest copy is due a millisecond after its seal.
    await new Promise((resolve) => setTimeout(resolve, 5));
    await letGo();
    expect(node.cold.hotBytes).toBe(5_000);
  });

  it('are counted anew at a start, streams that are dirty too among them', async () => {
    const node = await start();
    for (const key of ['demo/clean', 'demo/dirty']) {
      await node.create(key);
      await node.append(key, Buffer.alloc(10_000, 1));
    }
    await node.seal();
    await node.append('demo/dirty', Buffer.alloc(500, 2));
    expect(node.cold.hotBytes).toBe(20_500);
    const again = await node.reopen();
    place.rig = again;
    expect(again.cold.hotBytes).toBe(20_500);
  });

  it('are evicted while the log waits for its store', async () => {
    const node = await start({ hotKeepMs: 1_500 });
    await node.create('demo/a');
    await node.append('demo/a', Buffer.alloc(100_000, 1));
    await node.seal();
    await node.create('demo/gone');
    await node.delete('demo/gone');
    await node.append('demo/a', 'more');
    let waits = 0;
    node.objects.before = (call, key) => {
      if (call !== 'put' || !key.includes('/log/')) return;
      waits++;
      throw new StoreUnavailable('the log has no store');
    };
    void node.seal('', 30_000).catch(() => undefined);
    await until(() => waits > 0);
    expect((await node.head('demo/a')).hotStart).toBe(0);
    await until(async () => (await node.head('demo/a')).hotStart === 100_000, 6_000);
    expect((await node.head('demo/a')).sealed).toBe(100_000);
    node.objects.before = () => undefined;
    await until(async () => (await node.head('demo/a')).sealed === 100_004);
  });
});
