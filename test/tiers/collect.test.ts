/** The object store of a running node shrinks to what lives, over HTTP and by the CLI (I8); readers and restores need nothing of what went. */
import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { FirnNode, type Env } from '../support/node.js';
import { OCTETS, Stream } from '../support/stream.js';
import { randomBytes } from 'node:crypto';

let node: FirnNode;
afterEach(() => node.dispose());

const SETTINGS: Env = { FIRN_SEAL_AGE_MS: '3600000', FIRN_HOT_KEEP_MS: '0' };

/** Stored bytes of data objects. */
function storedBytes(): number {
  const root = join(node.dataDir, 'objects', 'partitions');
  let bytes = 0;
  for (const name of readdirSync(root, { recursive: true }) as string[]) {
    const path = join(root, name);
    if (/(segments|snapshots|merged)/.test(name) && statSync(path).isFile()) bytes += statSync(path).size;
  }
  return bytes;
}

async function metric(name: string): Promise<number> {
  const { text } = await node.admin.send('GET', '/__firn/metrics');
  return text.split('\n').filter((line) => line.startsWith(name)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

for (const partitions of ['1', '4']) {
  it(`deletes, purges and collections leave what lives, and nothing else (${partitions} partitions)`, { timeout: 240_000 }, async () => {
    const settings = { ...SETTINGS, FIRN_PARTITIONS: partitions };
    node = new FirnNode(settings);
    await node.start();
    const bodies = new Map<string, Buffer>();
    const write = async (path: string): Promise<Stream> => {
      const stream = new Stream(node.http, path);
      const body = randomBytes(300_000);
      expect((await stream.create({ type: OCTETS, body })).status).toBe(201);
      bodies.set(path, body);
      await node.seal();
      return stream;
    };
    const doomed = [await write('/demo/gone1'), await write('/demo/gone2')];
    const alive = [await write('/demo/stays1'), await write('/demo/stays2')];
    await write('/erased/a');
    expect((await node.ask('POST', '/__firn/collect')) as object).toMatchObject({ objects: 0, unknown: 0, waiting: 0 });
    const before = storedBytes();
    for (const stream of doomed) expect((await stream.delete()).status).toBe(204);
    await node.ask('DELETE', '/__firn/buckets/erased');
    await node.seal();
    const done = await firn(['collect'], settingsFor(node, settings));
    expect([done.code, done.code === 0 ? '' : done.stderr]).toEqual([0, '']);
    expect(JSON.parse(done.stdout)).toMatchObject({ objects: 3, orphans: 0, unknown: 0, waiting: 0, pinned: 0, uploads: 0 });
    const after = storedBytes();
    expect(before - after).toBeGreaterThan(850_000);
    expect(after).toBeLessThan(2 * 310_000);
    expect([await metric('firn_objects_deleted_total{what="object"}'), await metric('firn_uncollected_bytes'), await metric('firn_unknown_objects')]).toEqual([3, 0, 0]);
    const check = async (): Promise<void> => {
      for (const stream of alive) expect((await stream.all('0')).equals(bodies.get(stream.path)!)).toBe(true);
      for (const stream of doomed) expect((await stream.head()).status).toBe(404);
    };
    await check();
    expect(await node.ask('POST', '/__firn/verify?deep=1')).toMatchObject({ ok: true, findingCount: 0, garbageObjects: 0, leftOvers: 0, unknownObjectCount: 0 });
    await node.stop();
    for (const folder of ['hot', 'staging', 'cache', 'acked']) rmSync(join(node.dataDir, folder), { recursive: true, force: true });
    expect((await firn(['restore'], settingsFor(node, settings))).code).toBe(0);
    await node.start();
    await check();
  });
}

it('a store with nothing cold answers 501', { timeout: 60_000 }, async () => {
  node = new FirnNode({ FIRN_COLD: 'none' });
  await node.start();
  expect((await node.admin.send('POST', '/__firn/collect')).status).toBe(501);
});
