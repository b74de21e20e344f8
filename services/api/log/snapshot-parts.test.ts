import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { SnapshotDigest } from '../../../shared/protocol/digest.js';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import { until, useRig, type Rig } from '../cold/cold-rig.contract.js';
import { partRow } from '../hot/keys/index.js';
import { STAGED_PART_AGE_MS } from './limits.js';
import { newPartId } from './snapshot-parts-staged.js';
import type { PublishOutcome } from './types.js';

const TYPE = 'text/plain';
const place = useRig();
let now = 0;
beforeEach(() => {
  now = 1_800_000_000_000;
});

const start = (): Promise<Rig> => place.start({}, { now: () => now });

async function* pieces(...bodies: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* bodies;
}

function upload(rig: Rig, key: string, body: Buffer): Promise<string> {
  return rig.log.stagePart({ key: key as StreamKey, precondition: null, offset: 0 as Offset, declaredBytes: null, body: pieces(body) }).then(({ id }) => id);
}

function digestOf(...bodies: readonly Buffer[]): string {
  const digest = SnapshotDigest.start(TYPE);
  for (const body of bodies) digest.update(body);
  return digest.finish();
}

function commit(rig: Rig, key: string, ids: readonly string[], digest: string, offset = 0): Promise<PublishOutcome> {
  return rig.log.commitParts({ key: key as StreamKey, precondition: null, offset: offset as Offset, contentType: TYPE, digest, ids: async () => ids });
}

async function rowIds(rig: Rig): Promise<string[]> {
  const ids: string[] = [];
  for await (const page of rig.hot.scan(partRow.range())) for (const { key } of page) ids.push(partRow.decodeKey(key).id);
  return ids;
}

const files = (ending = ''): Promise<string[]> => readdir(join(place.dir, 'staging')).then((names) => names.filter((name) => name.endsWith(ending)));

async function expectNothingStaged(rig: Rig): Promise<void> {
  expect([await rowIds(rig), await files('.part')]).toEqual([[], []]);
}

describe('parts that nobody uses', () => {
  it('end after a day, also over a restart; younger ones stay', async () => {
    let rig = await start();
    await rig.create('demo/a');
    const old = await upload(rig, 'demo/a', Buffer.from('old'));
    now += STAGED_PART_AGE_MS - 1;
    const young = await upload(rig, 'demo/a', Buffer.from('young'));
    rig = place.rig = await rig.reopen({}, { now: () => now });
    expect((await rowIds(rig)).sort()).toEqual([old, young].sort());
    now += 1;
    await until(async () => (await rowIds(rig)).length === 1);
    expect(await rowIds(rig)).toEqual([young]);
    await until(async () => (await files('.part')).length === 1);
    await expect(commit(rig, 'demo/a', [old], digestOf(Buffer.from('old')))).rejects.toMatchObject({ code: 'UNKNOWN_PART' });
    await commit(rig, 'demo/a', [young], digestOf(Buffer.from('young')));
    expect((await rig.readSnapshot('demo/a', 0)).toString()).toBe('young');
    await expectNothingStaged(rig);
  });

  it('end with their stream, also when it is created again at once or the node dies just then (I7)', async () => {
    let rig = await start();
    await rig.create('demo/a');
    const id = await upload(rig, 'demo/a', Buffer.from('of the first life'));
    await rig.delete('demo/a');
    await rig.create('demo/a');
    await expect(commit(rig, 'demo/a', [id], digestOf(Buffer.from('of the first life')))).rejects.toMatchObject({ code: 'UNKNOWN_PART', status: 400 });
    await until(async () => (await files('.part')).length === 0);
    await upload(rig, 'demo/a', Buffer.from('of the second life'));
    await rig.delete('demo/a');
    await rig.kill();
    rig = await start();
    await until(async () => (await files('.part')).length === 0);
    await until(async () => (await rowIds(rig)).length === 0);
  });

  it('end with a stream that expires', async () => {
    const rig = await start();
    await rig.create('demo/a', { ttl: '60' });
    await upload(rig, 'demo/a', Buffer.from('x'));
    now += 61_000;
    await until(async () => (await rowIds(rig)).length === 0);
    await until(async () => (await files('.part')).length === 0);
  });
});

describe('staging', () => {
  it('R103 files that no row names go at the start, named ones and strange ones stay', async () => {
    let rig = await start();
    const { incarnation } = await rig.create('demo/a');
    const id = await upload(rig, 'demo/a', Buffer.from('kept'));
    await rig.kill();
    const encoded = Buffer.from('demo/a').toString('base64url');
    const leftovers = [`${encoded}.${newPartId(incarnation)}`, `${encoded}.${newPartId((incarnation + 1) as Incarnation)}`, `${encoded}.odd.part`, `${encoded}.1.2.3.snapshot`];
    for (const name of [...leftovers, 'strange']) await writeFile(join(place.dir, 'staging', name), 'half');
    rig = await start();
    expect((await files()).sort()).toEqual([`${encoded}.${id}`, 'strange'].sort());
    await commit(rig, 'demo/a', [id], digestOf(Buffer.from('kept')));
  });

  it('a body that breaks off leaves neither a file nor room taken', async () => {
    const rig = await start();
    await rig.create('demo/a');
    const broken = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.alloc(100_000);
      throw new Error('gone');
    };
    for (let n = 0; n < 3; n++) {
      await expect(rig.log.stagePart({ key: 'demo/a' as StreamKey, precondition: null, offset: 0 as Offset, declaredBytes: 2_147_483_648, body: broken() })).rejects.toThrow('gone');
    }
    await expectNothingStaged(rig);
    await expect(rig.log.stagePart({ key: 'demo/a' as StreamKey, precondition: null, offset: 0 as Offset, declaredBytes: 2_147_483_649, body: pieces() })).rejects.toMatchObject({ code: 'STAGED_PARTS_LIMIT' });
  });
});

describe('commit', () => {
  it('a part that is damaged or missing is an error, never a snapshot (I9)', async () => {
    const rig = await start();
    await rig.create('demo/a');
    const body = Buffer.from('these bytes');
    const encoded = Buffer.from('demo/a').toString('base64url');
    for (const damaged of [Buffer.from('those bytes'), body.subarray(1), Buffer.concat([body, body])]) {
      const id = await upload(rig, 'demo/a', body);
      await writeFile(join(place.dir, 'staging', `${encoded}.${id}`), damaged);
      const outcome = commit(rig, 'demo/a', [id], digestOf(damaged));
      if (damaged.length > body.length) await expect(outcome).rejects.toMatchObject({ code: 'SNAPSHOT_DIGEST_MISMATCH' });
      else await expect(outcome).rejects.toMatchObject({ code: 'INTERNAL', status: 500 });
      expect((await rig.head('demo/a')).snapshot).toBeNull();
    }
  });

  it('a mismatch keeps the parts, so that the right list can follow; no half body stays', async () => {
    const rig = await start();
    await rig.create('demo/a');
    const [first, second] = [Buffer.alloc(800_000, 'first'), Buffer.alloc(800_000, 'second')];
    const ids = [await upload(rig, 'demo/a', first), await upload(rig, 'demo/a', second)];
    await expect(commit(rig, 'demo/a', [...ids].reverse(), digestOf(first, second))).rejects.toMatchObject({ code: 'SNAPSHOT_DIGEST_MISMATCH' });
    expect((await files('.snapshot')).length).toBe(0);
    await commit(rig, 'demo/a', ids, digestOf(first, second));
    expect((await rig.readSnapshot('demo/a', 0)).equals(Buffer.concat([first, second]))).toBe(true);
    await expectNothingStaged(rig);
    expect((await files('.snapshot')).length).toBe(1);
  });

  it('two copy at a time on a node, one on a stream, where a discard has to wait too', async () => {
    const rig = await start();
    const body = Buffer.alloc(32_000_000, 'large');
    const digest = digestOf(body);
    const ids = new Map<string, string>();
    for (const key of ['demo/a', 'demo/b', 'demo/c', 'demo/d']) {
      await rig.create(key);
      ids.set(key, await upload(rig, key, body));
    }
    const begin = (key: string): Promise<unknown> => commit(rig, key, [ids.get(key)!], digest).then(() => 'done', (error: { code: string }) => error.code);
    const copying = (bodies: number): Promise<void> => until(async () => (await files('.snapshot')).length === bodies);
    const a = begin('demo/a');
    await copying(1);
    expect(await begin('demo/a')).toBe('SNAPSHOT_COMMIT_IN_PROGRESS');
    await expect(rig.log.discardParts('demo/a' as StreamKey, null)).rejects.toMatchObject({ code: 'SNAPSHOT_COMMIT_IN_PROGRESS', status: 503 });
    expect(await a).toBe('done');
    const both = Promise.all([begin('demo/b'), begin('demo/c')]);
    await copying(3);
    expect([await begin('demo/d'), await begin('demo/b')]).toEqual(['SNAPSHOT_COMMITS_BUSY', 'SNAPSHOT_COMMITS_BUSY']);
    await rig.log.discardParts('demo/d' as StreamKey, null);
    expect(await both).toEqual(['done', 'done']);
    expect(await begin('demo/d')).toBe('UNKNOWN_PART');
  });

  it('the same again is answered without its list; one that ran meanwhile counts', async () => {
    const rig = await start();
    await rig.create('demo/a');
    const body = Buffer.from('same');
    const id = await upload(rig, 'demo/a', body);
    const twice = await Promise.allSettled([commit(rig, 'demo/a', [id], digestOf(body)), commit(rig, 'demo/a', [id], digestOf(body))]);
    expect(twice.some(({ status }) => status === 'fulfilled')).toBe(true);
    const ids = (): Promise<never> => Promise.reject(new Error('the list is not needed'));
    const target = { key: 'demo/a' as StreamKey, precondition: null, offset: 0 as Offset, contentType: TYPE };
    expect(await rig.log.commitParts({ ...target, digest: digestOf(body), ids })).toMatchObject({ digest: digestOf(body) });
    await expect(rig.log.commitParts({ ...target, digest: digestOf(), ids })).rejects.toMatchObject({ code: 'SNAPSHOT_CONFLICT', status: 409 });
  });

  it('parts that were staged before the node ended badly can be committed after it', async () => {
    let rig = await start();
    await rig.create('demo/a');
    const bodies = [Buffer.from('one '), Buffer.alloc(0), Buffer.alloc(2_000_000, 'two')];
    const ids = await Promise.all(bodies.map((body) => upload(rig, 'demo/a', body)));
    await rig.kill();
    rig = await start();
    await commit(rig, 'demo/a', ids, digestOf(...bodies));
    expect((await rig.readSnapshot('demo/a', 0)).equals(Buffer.concat(bodies))).toBe(true);
    await rig.seal();
    expect((await rig.head('demo/a')).snapshot?.cold).not.toBeNull();
  });
});
