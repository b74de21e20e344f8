/** The bucket of a node on S3 shrinks to what lives, unfinished uploads and objects of killed workers included (I8, R041). */
import { randomBytes } from 'node:crypto';
import { afterEach, expect, it } from 'vitest';
import { FirnNode, type Env } from '../support/node.js';
import { s3Settings, storeOn, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';

const server = await useS3();

let node: FirnNode;
let settings: Env;
afterEach(() => node.dispose());

/** Names and bytes under the prefix of the node. */
async function inBucket(): Promise<Map<string, number>> {
  const store = await storeOn(server, { prefix: settings['FIRN_S3_PREFIX'] });
  try {
    const found = new Map<string, number>();
    for await (const { key, bytes } of store.list('')) found.set(key, bytes);
    return found;
  } finally {
    await store.close();
  }
}

const dataOf = (found: ReadonlyMap<string, number>): string[] => [...found.keys()].filter((key) => /\/(segments|snapshots|merged)\//.test(key));

it('after deletes, superseded snapshots and a collection; what somebody else put there is kept', { timeout: 240_000 }, async () => {
  settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', ...s3Settings(server) };
  node = new FirnNode(settings);
  await node.start();
  const streams: Stream[] = [];
  const bodies: Buffer[] = [];
  for (let n = 0; n < 6; n++) {
    const stream = new Stream(node.http, `/demo/s${n}`);
    const body = randomBytes(400_000);
    expect((await stream.create({ type: OCTETS, body })).status).toBe(201);
    if (n === 0) expect((await stream.publish('400000', randomBytes(6_000_000))).status).toBe(204);
    await node.seal();
    streams.push(stream);
    bodies.push(body);
  }
  const orphan = 'partitions/0000/segments/0000-000001-0000000900-0001-00000';
  const store = await storeOn(server, { prefix: settings['FIRN_S3_PREFIX'] });
  await store.putOnce(orphan, Buffer.from('left by a worker that was killed'));
  await store.putOnce('notes/readme.txt', Buffer.from('of somebody else'));
  await store.close();
  const before = await inBucket();
  expect(dataOf(before)).toHaveLength(8);
  // The session of the orphan ends with this life of the node.
  await node.stop();
  await node.start();
  const last = streams[5]!;
  expect((await streams[0]!.append('x', { type: OCTETS })).status).toBe(204);
  const newer = randomBytes(2_000_000);
  expect((await streams[0]!.publish('400001', newer)).status).toBe(204);
  for (const stream of streams.slice(1, 5)) expect((await stream.delete()).status).toBe(204);
  await node.seal();
  const done = await node.ask('POST', '/__firn/collect');
  expect(done).toMatchObject({ objects: 5, orphans: 1, unknown: 1, unknownObjects: ['notes/readme.txt'], waiting: 0, pinned: 0 });
  const after = await inBucket();
  // Two streams, a byte that was added, and one snapshot.
  expect(dataOf(after)).toHaveLength(4);
  expect(dataOf(after).reduce((sum, key) => sum + after.get(key)!, 0)).toBeLessThan(2_850_000);
  expect(after.has('notes/readme.txt')).toBe(true);
  expect([...after.keys()].filter((key) => key.includes('/checkpoints/'))).toHaveLength(2);
  expect((await streams[0]!.all('0')).equals(Buffer.concat([bodies[0]!, Buffer.from('x')]))).toBe(true);
  expect((await last.all('0')).equals(bodies[5]!)).toBe(true);
  const snapshot = await node.http.send('GET', `${streams[0]!.path}/snapshot/${'400001'.padStart(20, '0')}`);
  expect([snapshot.status, snapshot.body.equals(newer)]).toEqual([200, true]);
  expect(await node.ask('POST', '/__firn/verify?deep=1')).toMatchObject({ ok: true, findingCount: 0, garbageObjects: 0, leftOvers: 0, unknownObjectCount: 1 });
});
