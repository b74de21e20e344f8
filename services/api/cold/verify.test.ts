import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { bodyRow, dataRow, nameRow, objectRow, producerRow, refRow, streamRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { Rig, until } from './cold-rig.contract.js';
import { verifyStore, type VerifyReport } from './verify.js';

const KEY = 'demo/a' as StreamKey;
const SLOT = slotOf(KEY);
let dir: string;
let rig: Rig;

beforeEach(async () => {
  dir = await Rig.dir();
  rig = await Rig.open(dir);
  await rig.create('demo/a');
  await rig.append('demo/a', 'x'.repeat(1_000), { id: 'p', epoch: 0, seq: 0 });
  await rig.seal();
  await rig.append('demo/a', 'y'.repeat(1_000));
  await rig.snapshot('demo/a', 500, Buffer.from('small'));
  await rig.create('demo/b');
});
afterEach(async () => {
  await rig.close();
  await Rig.remove(dir);
});

function verify(deep = true): Promise<VerifyReport> {
  const stagedBytes = (file: string): Promise<number | null> => stat(join(dir, 'staging', file)).then(({ size }) => size, () => null);
  return verifyStore({ store: rig.core.store, objects: rig.objects, deep, stagedBytes, signal: AbortSignal.timeout(10_000) });
}

async function found(ops: readonly HotOp[], what: RegExp, deep = true): Promise<void> {
  expect(await verify(deep)).toMatchObject({ ok: true, findings: [] });
  await rig.core.stageOps(ops);
  const report = await verify(deep);
  expect(report.ok).toBe(false);
  expect(report.findings.map((finding) => `${finding.where} ${finding.what}`).join('\n')).toMatch(what);
}

async function pathOf(folder: string): Promise<string> {
  const at = join(dir, 'objects', 'partitions', '0000', folder);
  return join(at, (await readdir(at)).sort()[0] as string);
}

async function flip(path: string, at: number): Promise<void> {
  const bytes = await readFile(path);
  bytes[at] = (bytes[at] as number) ^ 1;
  await writeFile(path, bytes);
}

describe('verify finds', () => {
  it('nothing on a sound store, and says what it looked at', async () => {
    expect(await verify()).toMatchObject({ ok: true, streams: 2, bytes: 2_000, objects: 1, history: [{ partition: 0, sessions: 1, records: 1, streams: 1 }], unknownObjects: [] });
  });

  it('a missing hot value', async () => {
    const { incarnation } = await rig.head('demo/a');
    await found([{ type: 'del', key: dataRow.key(SLOT, incarnation, 2_000 as Offset) }], /hot copies end at 1000/);
  });

  it('a missing reference', async () => {
    const { incarnation } = await rig.head('demo/a');
    await found([{ type: 'del', key: refRow.key(SLOT, incarnation, 1_000 as Offset) }], /references end at 0, the frontier is 1000/);
  });

  it('a lost producer, name or snapshot body', async () => {
    const { incarnation } = await rig.head('demo/a');
    await found([
      { type: 'del', key: producerRow.key(SLOT, incarnation, 'p') },
      { type: 'del', key: nameRow.key(KEY) },
      { type: 'del', key: bodyRow.key(SLOT, incarnation, 500 as Offset, 0) },
    ], /index of names[\s\S]*0 producers on record[\s\S]*body of the snapshot/);
  });

  it('a stream record that does not decode, and a name without a stream', async () => {
    await found([{ type: 'put', key: streamRow.key(SLOT, KEY), value: Buffer.from('nonsense') }, { type: 'put', key: nameRow.key('no/stream' as StreamKey), value: Buffer.alloc(0) }], /version|stream record[\s\S]*no such stream/);
  });

  it('an object that nobody counts', async () => {
    const { incarnation } = await rig.head('demo/a');
    const [ref] = await rig.refs(SLOT, incarnation, 0 as Offset, 1);
    await found([{ type: 'del', key: objectRow.key(ref!.object) }], /no row knows it/);
  });

  it('a reference that leads to other bytes (deep)', async () => {
    const { incarnation } = await rig.head('demo/a');
    const [ref] = await rig.refs(SLOT, incarnation, 0 as Offset, 1);
    await found([{ type: 'put', key: refRow.key(SLOT, incarnation, 1_000 as Offset), value: refRow.encode({ ...ref!, blockAt: ref!.blockAt + 1 }) }], /0 of them lead/);
  });

  it('a missing, short or flipped object', async () => {
    const path = await pathOf('segments');
    await flip(path, 40);
    expect((await verify(false)).ok).toBe(true);
    expect((await verify(true)).findings[0]?.what).toMatch(/checksum/);
    await flip(path, 40);
    const bytes = await readFile(path);
    await writeFile(path, bytes.subarray(0, -1));
    expect((await verify(false)).findings[0]?.what).toMatch(/bytes instead of/);
    await rm(path);
    expect((await verify(false)).findings[0]?.what).toMatch(/is missing; 1 references/);
  });

  it('a flipped log record, a damaged checkpoint and a store that is another', async () => {
    const log = join(await pathOf('log'), '0000000001');
    await flip(log, 10);
    expect((await verify(false)).findings[0]).toMatchObject({ where: 'the log of partition 0' });
    await flip(log, 10);
    await rig.cold.checkpointNow(AbortSignal.timeout(5_000));
    expect((await verify(false)).ok).toBe(true);
    const manifest = join(await pathOf('checkpoints'), '0000000001');
    await flip(manifest, 5);
    expect((await verify(false)).ok).toBe(false);
    await flip(manifest, 5);
    await rm(join(dir, 'objects', 'store.json'));
    expect((await verify(false)).findings[0]).toMatchObject({ where: 'store.json', what: 'is missing' });
  });

  it('an object that went without a collection, though nothing names it, and damage of the checkpoint before the newest (I8)', async () => {
    const path = await pathOf('segments');
    await rig.cold.checkpointNow(AbortSignal.timeout(5_000));
    await rig.delete('demo/a');
    await rig.seal();
    await until(async () => (await verify(false)).garbageObjects === 1);
    expect(await verify()).toMatchObject({ ok: true, garbageObjects: 1, leftOvers: 0, unknownObjects: [] });
    await rig.cold.checkpointNow(AbortSignal.timeout(5_000));
    const manifests = join(dir, 'objects', 'partitions', '0000', 'checkpoints', '000001');
    const older = join(manifests, (await readdir(manifests)).sort()[0] as string);
    await flip(older, 5);
    expect((await verify(false)).findings.map(({ where, what }) => `${where} ${what}`).join()).toMatch(/the log of partition 0 /);
    await flip(older, 5);
    expect((await verify(false)).ok).toBe(true);
    await rm(path);
    expect((await verify(false)).findings.map(({ what }) => what).join()).toMatch(/no collection took it away/);
  });

  it('an object that only the history names, and that is not there', async () => {
    const { incarnation } = await rig.head('demo/a');
    const [ref] = await rig.refs(SLOT, incarnation, 0 as Offset, 1);
    await rm(await pathOf('segments'));
    // As a directory that lost the rows of its cold ranges.
    await rig.core.stageOps([{ type: 'del', key: objectRow.key(ref!.object) }]);
    const report = await verify(false);
    expect(report.findings.map(({ where, what }) => `${where} ${what}`).join('\n')).toMatch(/is missing; the log of partition 0 names it/);
  });

  it('unknown names of every kind: listed, no fault, left alone (I8)', async () => {
    const keys = ['backup.tar', 'partitions/0000/log/000001/notes', 'partitions/0000/readme', 'partitions/0009/sessions/000001', 'zzz'];
    for (const key of keys) await rig.objects.putOnce(key, Buffer.from('somebody else'));
    const report = await verify();
    expect(report).toMatchObject({ ok: true, unknownObjectCount: keys.length });
    expect([...report.unknownObjects].sort()).toEqual([...keys].sort());
  });

  it('unknown objects: listed, no fault, left alone (I8)', async () => {
    const key = 'partitions/0000/segments/0000-000001-0000000099-0001-00000';
    await rig.objects.putOnce(key, Buffer.from('somebody else'));
    expect(await verify()).toMatchObject({ ok: true, unknownObjects: [key], unknownObjectCount: 1 });
    expect(await rig.objects.size(key)).toBe(13);
  });

  it('unknown objects before, between and behind the known ones, without holding all names (I11)', async () => {
    const unknown: string[] = [];
    for (const name of ['segments/0000-000000-0000000001-0001-00000', 'segments/somebody-else', 'snapshots/0000-000001-0000000001-0001-00000', 'merged/0000-000009-0000000001-0001-00000']) unknown.push(`partitions/0000/${name}`);
    for (let plan = 50; plan < 150; plan++) unknown.push(`partitions/0000/segments/0000-000001-${String(plan).padStart(10, '0')}-0001-00000`);
    for (const key of unknown) await rig.objects.putOnce(key, Buffer.from('x'));
    let listed = 0;
    let listedAtFirst = 0;
    const list = rig.objects.list.bind(rig.objects);
    rig.objects.list = async function* (...args) {
      for await (const one of list(...args)) {
        listed++;
        yield one;
      }
    };
    const progress = (done: { readonly objects: number }): void => {
      if (done.objects === 1) listedAtFirst = listed;
    };
    const report = await verifyStore({ store: rig.core.store, objects: rig.objects, deep: false, stagedBytes: async () => 0, progress, signal: AbortSignal.timeout(10_000) });
    expect(report).toMatchObject({ objects: 1, unknownObjectCount: unknown.length });
    expect(report.findings.filter(({ where }) => where.includes('/segments/'))).toEqual([]);
    expect([...report.unknownObjects].sort()).toEqual([...unknown].sort());
    expect(listedAtFirst).toBeLessThan(10);
  });

  it('nothing wrong while everything moves', async () => {
    let stop = false;
    const busy = (async () => {
      for (let n = 0; !stop; n++) {
        await rig.append('demo/a', `${n}\n`);
        if (n % 10 === 0) await rig.seal();
        if (n % 15 === 0) await rig.create(`busy/s${n}`);
        if (n % 15 === 14) await rig.delete(`busy/s${n - 14}`);
      }
    })();
    for (let round = 0; round < 10; round++) expect((await verify(round % 2 === 0)).findings).toEqual([]);
    stop = true;
    await busy;
  });
});
