/** Reads across the cold frontier have no seam (I1, I3, R026, R107, R111), whatever was sealed, evicted, restarted. */
import { afterEach, describe, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { filesBelow } from '../support/damage.js';
import { partsOf } from '../support/multipart.js';
import { FirnNode } from '../support/node.js';
import type { Env } from '../support/node.js';
import { seeded } from '../support/random.js';
import { JSON_TYPE, OCTETS, Stream } from '../support/stream.js';
import { compareAll, grow, modelled } from './model.js';

let node: FirnNode;
afterEach(() => node.dispose());

const start = async (settings: Env = {}): Promise<void> => {
  node = new FirnNode({ FIRN_SEAL_AGE_MS: '3600000', ...settings });
  await node.start();
};

interface StreamPage {
  readonly streams: readonly Record<string, unknown>[];
}

for (const [title, settings] of [
  ['evicted at once', { FIRN_HOT_KEEP_MS: '0' }],
  ['kept hot', { FIRN_HOT_KEEP_MS: '600000' }],
  ['in four partitions', { FIRN_HOT_KEEP_MS: '0', FIRN_PARTITIONS: '4' }],
] as const) {
  describe(`sealed data ${title}`, () => {
    it('I1 R026 append, seal, append, retain, publish, restart: every read equals the model', { timeout: 180_000 }, async () => {
      const random = seeded(`frontier ${title}`);
      await start(settings);
      const streams = await modelled(node, random, 9);
      for (let round = 0; round < 4; round += 1) {
        await grow(streams, random, 60);
        if (round === 1) for (const one of streams.slice(0, 4)) await one.publish(random, random.pick([10, 5_000, 300_000]));
        if (round === 2) for (const one of streams.slice(0, 3)) await one.retain(random);
        if (round === 2) await streams[8]!.close();
        const report = await node.seal();
        expect(report.streams).toBeGreaterThan(0);
        if (round < 3) await grow(streams, random, 20);
        await compareAll(streams, random);
        if (round === 1) await node.restart();
        if (round === 2) {
          await node.kill();
          await node.start();
        }
      }
      await node.seal();
      await compareAll(streams, random);
      const run = await firn(['verify', '--deep'], settingsFor(node));
      expect([run.code, run.code === 0 ? '' : run.stdout + run.stderr]).toEqual([0, '']);
    });
  });
}

describe('seal', () => {
  it('R107 hundreds of small streams in one seal come back each with its own bytes', { timeout: 120_000 }, async () => {
    await start({ FIRN_HOT_KEEP_MS: '0' });
    const streams = Array.from({ length: 400 }, (_, i) => new Stream(node.http, `/many/s${i}`));
    await Promise.all(streams.map((stream, i) => stream.create({ type: OCTETS, body: `stream ${i} ` })));
    await Promise.all(streams.map((stream, i) => stream.append(`${i}`.repeat(1 + (i % 50)))));
    const report = await node.seal();
    expect(report.streams).toBe(400);
    await node.restart();
    await Promise.all(streams.map(async (stream, i) => expect((await stream.read()).text).toBe(`stream ${i} ${`${i}`.repeat(1 + (i % 50))}`)));
    expect(filesBelow(`${node.dataDir}/objects`).filter((path) => path.includes('/segments/')).length).toBeLessThan(20);
  });

  it('a seal with nothing to do is at once, and a second one finds nothing', async () => {
    await start();
    expect((await node.seal()).streams).toBe(0);
    const s = new Stream(node.http, '/seal/s');
    await s.create({ type: OCTETS, body: 'abc' });
    expect((await node.seal()).bytes).toBe(3);
    expect((await node.seal()).bytes).toBe(0);
  });

  it('a prefix seals what it names', async () => {
    await start({ FIRN_HOT_KEEP_MS: '0' });
    for (const path of ['/left/s', '/right/s']) await new Stream(node.http, path).create({ type: OCTETS, body: 'abc' });
    expect((await node.seal('left/')).streams).toBe(1);
    expect((await node.seal()).streams).toBe(1);
  });

  it('R105 acknowledged appends are readable at once, also while seals and evictions run', { timeout: 60_000 }, async () => {
    await start({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '20', FIRN_SEAL_BYTES: '2000' });
    const s = new Stream(node.http, '/busy/s');
    await s.create({ type: OCTETS });
    let text = '';
    for (let i = 0; i < 400; i += 1) {
      const before = text.length;
      const piece = `${i},${'x'.repeat(i % 90)};`;
      text += piece;
      expect((await s.append(piece)).status).toBe(204);
      const read = await s.read({ offset: String(before) });
      expect([read.status, read.text, read.upToDate]).toEqual([200, piece, true]);
      if (i % 40 === 39) expect((await s.all()).toString()).toBe(text);
    }
  });

  it('live readers see every byte once while seals and evictions run', { timeout: 60_000 }, async () => {
    await start({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '20', FIRN_SEAL_BYTES: '2000' });
    const s = new Stream(node.http, '/live/s');
    await s.create({ type: 'text/plain', body: 'first;' });
    await node.seal();
    const sse = await s.sse('-1');
    let text = 'first;';
    for (let i = 0; i < 200; i += 1) {
      text += `${i};`;
      await s.append(`${i};`);
    }
    const tail = await s.tail();
    const events = await sse.through((control) => control.streamNextOffset === tail, 20_000);
    sse.close();
    expect(events.filter((event) => event.event === 'data').map((event) => event.data).join('')).toBe(text);
  });

  it('the admin listener tells what is hot and what is cold', async () => {
    await start({ FIRN_HOT_KEEP_MS: '0' });
    const s = new Stream(node.http, '/told/s');
    await s.create({ type: OCTETS, body: 'abc' });
    await node.seal();
    await s.append('de');
    const page = (await node.ask('GET', '/__firn/streams?prefix=told/')) as StreamPage;
    expect(page.streams).toHaveLength(1);
    const text = JSON.stringify(page.streams[0]);
    expect(text).toContain('told/s');
    expect(text).toContain(OCTETS);
    expect(JSON.stringify(await node.ask('GET', '/__firn/streams/told/s'))).toContain('segments');
    expect((await node.admin.send('GET', '/__firn/streams/told/none')).status).toBe(404);
    for (let i = 0; i < 5; i += 1) await new Stream(node.http, `/pages/s${i}`).create();
    const first = (await node.ask('GET', '/__firn/streams?prefix=pages/&limit=3')) as StreamPage;
    expect(first.streams).toHaveLength(3);
    expect(((await node.ask('GET', '/__firn/streams?prefix=pages/&after=pages/s2')) as StreamPage).streams).toHaveLength(2);
  });
});

describe('bootstrap over the tiers', () => {
  it('BOOT-19 updates that are cold only: the snapshot part and an honest offset', async () => {
    await start({ FIRN_HOT_KEEP_MS: '0' });
    for (const type of [OCTETS, JSON_TYPE]) {
      const s = new Stream(node.http, `/boot/${type === OCTETS ? 'bytes' : 'json'}`);
      await s.create({ type, body: type === OCTETS ? '12345678' : '[1,2,3,4]' });
      await s.publish('2', 'the snapshot');
      await node.seal();
      const boot = await s.bootstrap();
      expect([boot.status, boot.header('stream-snapshot-offset'), boot.next, boot.header('stream-up-to-date')]).toEqual([200, '2'.padStart(20, '0'), '2'.padStart(20, '0'), undefined]);
      const parts = partsOf(boot);
      expect([parts.length, parts[0]?.body.toString()]).toEqual([1, 'the snapshot']);
      expect((await s.read({ offset: boot.next })).body.length).toBe(6);
      await s.append(type === OCTETS ? 'xyz' : '5');
      const { next } = await s.head();
      await s.publish(next, 'newer');
      const again = await s.bootstrap();
      expect([again.upToDate, again.next, partsOf(again).length]).toEqual([true, next, 1]);
    }
  });

  it('SNAP-13 SNAP-14 BOOT-20 a large snapshot is moved to an object, with the same digest, and streamed from it', { timeout: 60_000 }, async () => {
    await start({ FIRN_HOT_KEEP_MS: '0' });
    const s = new Stream(node.http, '/large/s');
    await s.create({ type: OCTETS, body: 'abcdef' });
    const body = Buffer.alloc(3_000_000, 'large snapshot ');
    const digest = (await s.publish('3', body)).need('stream-snapshot-digest');
    await node.seal();
    for (let i = 0; i < 100 && filesBelow(`${node.dataDir}/objects`).every((path) => !path.includes('/snapshots/')); i += 1) await new Promise((resolve) => setTimeout(resolve, 50));
    expect(filesBelow(`${node.dataDir}/objects`).some((path) => path.includes('/snapshots/'))).toBe(true);
    await node.restart();
    const read = await s.sub('GET', 'snapshot/3');
    expect([read.body.equals(body), read.header('stream-snapshot-digest')]).toEqual([true, digest]);
    expect((await s.sub('GET', 'snapshot/3', { range: 'bytes=1000000-1000009' })).body.equals(body.subarray(1_000_000, 1_000_010))).toBe(true);
    expect(partsOf(await s.bootstrap())[0]?.body.equals(body)).toBe(true);
  });
});

describe('readers and eviction', () => {
  it('R109 a slow reader of a hot range ends with the exact bytes while it is sealed and evicted', { timeout: 60_000 }, async () => {
    await start({ FIRN_HOT_KEEP_MS: '0' });
    const s = new Stream(node.http, '/slow/s');
    const body = Buffer.alloc(8_000_000, 'slow reader ');
    await s.create({ type: OCTETS });
    for (let at = 0; at < body.length; at += 500_000) await s.append(body.subarray(at, at + 500_000));
    const open = await node.http.open('GET', `${s.path}?offset=-1`);
    expect(open.status).toBe(200);
    const pieces: Buffer[] = [];
    let sealing: Promise<unknown> | null = null;
    try {
      for await (const piece of open.stream) {
        pieces.push(piece as Buffer);
        sealing ??= node.seal();
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    } catch {
      // Cut: then what came must be a prefix, which is checked below.
    }
    await sealing;
    const got = Buffer.concat(pieces);
    expect(got.equals(body.subarray(0, got.length))).toBe(true);
    expect((await s.all()).equals(body)).toBe(true);
  });
});
