import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { HotStoreCorrupt } from '../hot/errors.js';
import { nameRow, streamRow, unpinRow } from '../hot/keys/index.js';
import { until, useRig, type Rig } from '../cold/cold-rig.contract.js';
import { verifyStore, type VerifyReport } from '../cold/verify.js';
import type { ForkRequest } from './types.js';

const place = useRig();
const { start } = place;
const NOT_FOUND = { code: 'STREAM_NOT_FOUND' };
const GONE = { code: 'STREAM_GONE' };

function from(key: string, at: { readonly offset?: number; readonly sub?: number } = {}): ForkRequest {
  return { key: key as StreamKey, offset: at.offset === undefined ? null : (at.offset as Offset), sub: at.sub ?? 0 };
}

function verify(of: Rig): Promise<VerifyReport> {
  const stagedBytes = (file: string): Promise<number | null> => stat(join(place.dir, 'staging', file)).then(({ size }) => size, () => null);
  return verifyStore({ store: of.core.store, objects: of.objects, deep: true, stagedBytes, signal: AbortSignal.timeout(10_000) });
}

/** Holds the next read of the object store until it is let go. */
function holdReads(of: Rig): { readonly held: Promise<void>; release(): void } {
  let release = (): void => undefined;
  const go = new Promise<void>((resolve) => (release = resolve));
  const held = new Promise<void>((resolve) => {
    of.objects.before = async (call) => {
      if (call !== 'get') return;
      resolve();
      await go;
    };
  });
  return { held, release };
}

async function coldSource(of: Rig): Promise<void> {
  await of.create('src/s', { body: 'hello' });
  await of.seal();
  await until(async () => (await of.head('src/s')).hotStart === 5);
}

async function unpins(of: Rig): Promise<number> {
  let rows = 0;
  for await (const page of of.hot.scan(unpinRow.range())) rows += page.length;
  return rows;
}

describe('a fork that waits for cold bytes of its source', () => {
  it('BKT-07 BKT-08 does not come about in a bucket that is purged meanwhile', async () => {
    const node = await start({ hotKeepMs: 0 });
    await coldSource(node);
    const reads = holdReads(node);
    const made = node.create('gone/f', { fork: from('src/s', { offset: 0, sub: 2 }) });
    made.catch(() => undefined);
    await reads.held;
    await node.log.purge('gone');
    reads.release();
    await expect(made).rejects.toMatchObject({ code: 'BUCKET_ERASED' });
    expect(await node.log.list('gone/', null, 10)).toEqual([]);
    expect((await node.head('src/s')).forks).toBe(0);
  });

  it.each([['delete', 'STREAM_NOT_FOUND'], ['retain', 'FORK_SOURCE_GONE']] as const)('is refused after a %s of the source meanwhile', async (what, code) => {
      const node = await start({ hotKeepMs: 0 });
      await coldSource(node);
      const reads = holdReads(node);
      const made = node.create('f/f', { fork: from('src/s', { offset: 0, sub: 2 }) });
      made.catch(() => undefined);
      await reads.held;
      if (what === 'delete') {
        await node.delete('src/s');
      } else {
        await node.snapshot('src/s', 5, Buffer.from('s'));
        await node.log.retain('src/s' as StreamKey, null, 1 as Offset);
      }
      reads.release();
      await expect(made).rejects.toMatchObject({ code });
      await expect(node.head('f/f')).rejects.toMatchObject(NOT_FOUND);
      await node.delete('src/s').catch(() => undefined);
      await expect(node.head('src/s')).rejects.toMatchObject(NOT_FOUND);
  });

  it('pins the life whose bytes it looked at, when its source is made anew', async () => {
    const node = await start({ hotKeepMs: 0 });
    await coldSource(node);
    const reads = holdReads(node);
    const made = node.create('f/f', { fork: from('src/s', { offset: 0, sub: 4 }) });
    made.catch(() => undefined);
    await reads.held;
    await node.delete('src/s');
    const again = await node.create('src/s', { body: 'abc' });
    reads.release();
    // The new life has no append of four bytes.
    await expect(made).rejects.toMatchObject({ code: 'INVALID_OFFSET' });
    expect(await node.head('src/s')).toMatchObject({ incarnation: again.incarnation, forks: 0 });
  });
});

describe('the end of forks', () => {
  it('one source that cannot be read keeps no other from being let go', async () => {
    const node = await start();
    const keys = ['a/s', 'b/s', 'c/s'];
    for (const key of keys) {
      await node.create(key, { body: 'x' });
      await node.create(`${key}-fork`, { fork: from(key) });
      await node.delete(key);
    }
    const slots = keys.map((key) => ({ key, slot: slotOf(key as StreamKey) })).sort((x, y) => x.slot - y.slot);
    const bad = slots[0]!.key;
    const using = node.core.using.bind(node.core);
    node.core.using = ((asked, work) => (asked === bad ? Promise.reject(new HotStoreCorrupt('the row of a stream is damaged')) : using(asked, work))) as typeof using;
    for (const key of keys) await node.delete(`${key}-fork`);
    for (const { key } of slots.slice(1)) await until(() => node.head(key).then(() => false, (error: { code: string }) => error.code === 'STREAM_NOT_FOUND'));
    node.core.using = using;
    await until(() => node.head(bad).then(() => false, (error: { code: string }) => error.code === 'STREAM_NOT_FOUND'));
    expect(await unpins(node)).toBe(0);
  });

  it('FORK-26 FORK-27 a crash between the end of the last fork and that of its source is made up for at the next start', async () => {
    let node = await start();
    await node.create('a/s', { body: 'abc' });
    await node.create('a/f', { fork: from('a/s'), body: 'd' });
    await node.create('a/g', { fork: from('a/f') });
    await node.delete('a/s');
    await node.delete('a/f');
    // What the crash leaves behind: the batch of the delete, and none of the ones that follow.
    const { incarnation } = await node.head('a/g');
    const stage = node.core.stage.bind(node.core);
    node.core.stage = (change) => (change.next === null && change.slot.key !== 'a/g' ? new Promise(() => undefined) : stage(change));
    void node.delete('a/g').catch(() => undefined);
    await until(async () => (await node.hot.get(streamRow.key(slotOf('a/g' as StreamKey), 'a/g' as StreamKey))) === undefined);
    expect(await unpins(node)).toBe(1);
    await node.kill();
    node = await node.reopen();
    place.rig = node;
    for (const key of ['a/s', 'a/f']) await until(() => node.head(key).then(() => false, (error: { code: string }) => error.code === 'STREAM_NOT_FOUND'));
    expect(await unpins(node)).toBe(0);
    await node.seal();
    expect(await verify(node)).toMatchObject({ ok: true, findings: [], streams: 0 });
    expect(incarnation).toBeGreaterThan(0);
  });

  it('a source is counted down once for each fork, however often what ended is looked at', async () => {
    const node = await start();
    await node.create('a/s', { body: 'abc' });
    await Promise.all(Array.from({ length: 300 }, (_, i) => node.create(`f/${i}`, { fork: from('a/s') })));
    expect((await node.head('a/s')).forks).toBe(300);
    await node.delete('a/s');
    await Promise.all(Array.from({ length: 299 }, (_, i) => node.delete(`f/${i}`)));
    await until(async () => (await unpins(node)) === 0);
    await expect(node.head('a/s')).rejects.toMatchObject(GONE);
    expect((await node.read('f/299')).toString()).toBe('abc');
    await node.delete('f/299');
    await until(() => node.head('a/s').then(() => false, (error: { code: string }) => error.code === 'STREAM_NOT_FOUND'));
  });
});

describe('damage (I9)', () => {
  it('a fork whose source is not there answers 5xx, never 404 and never less', async () => {
    let node = await start();
    await node.create('a/s', { body: 'abc' });
    await node.create('a/f', { fork: from('a/s'), body: 'd' });
    await node.create('a/g', { fork: from('a/f'), body: 'e' });
    const slot = slotOf('a/s' as StreamKey);
    await node.core.stageOps([{ type: 'del', key: streamRow.key(slot, 'a/s' as StreamKey) }, { type: 'del', key: nameRow.key('a/s' as StreamKey) }]);
    node = await node.reopen();
    place.rig = node;
    for (const key of ['a/f', 'a/g']) {
      await expect(node.read(key)).rejects.toMatchObject({ code: 'INTERNAL' });
      expect((await node.head(key)).tail).toBeGreaterThan(3);
    }
    expect(node.metrics.damage.hot.value).toBeGreaterThan(0);
    expect((await verify(node)).findings.map(({ where, what }) => `${where}: ${what}`).join('\n')).toMatch(/a\/f: .*a\/s/);
  });

  it('verify finds a count of forks that is wrong, and a source that knows of none or ends too early', async () => {
    const node = await start();
    for (const name of ['more', 'none', 'short']) {
      await node.create(`s/${name}`, { body: 'abc' });
      await node.create(`f/${name}`, { fork: from(`s/${name}`) });
    }
    expect(await verify(node)).toMatchObject({ ok: true, findings: [] });
    const wrong = [['more', { forks: 5 }], ['none', { forks: 0 }], ['short', { tail: 2 as Offset }]] as const;
    const rows = await Promise.all(wrong.map(async ([name, over]) => {
      const key = `s/${name}` as StreamKey;
      return { type: 'put' as const, key: streamRow.key(slotOf(key), key), value: streamRow.encode({ ...(await node.head(key)), ...over }) };
    }));
    await node.core.stageOps(rows);
    const found = (await verify(node)).findings.map(({ where, what }) => `${where} ${what}`).join('\n');
    expect(found).toMatch(/s\/more counts 5 forks, there are 1/);
    expect(found).toMatch(/f\/none is a fork of s\/none, which knows of none/);
    expect(found).toMatch(/f\/short inherits \[0, 3\) of s\/short, which ends at 2/);
  });
});
