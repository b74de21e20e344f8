/** Forks over the tiers: what they inherit may be hot, in the journal, cold, in another partition, or of a source that is deleted (requirements section 28). */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { filesBelow } from '../support/damage.js';
import { allFree, beside, eventually, fork, forked, forkOf } from '../support/forks.js';
import { partsOf } from '../support/multipart.js';
import { FirnNode, type Env } from '../support/node.js';
import { seeded } from '../support/random.js';
import { BASE, fresh, JSON_TYPE, OCTETS, sleep, Stream, TEXT, twin } from '../support/stream.js';
import { Family } from './fork-model.js';

let node: FirnNode;
let settings: Env;
afterEach(() => node.dispose());

const start = async (more: Env = {}): Promise<void> => {
  settings = { FIRN_SEAL_AGE_MS: '3600000', FIRN_HOT_KEEP_MS: '0', ...more };
  node = new FirnNode(settings);
  await node.start();
};

async function verified(): Promise<void> {
  const run = await firn(['verify', '--deep'], settingsFor(node, settings));
  expect([run.code, run.code === 0 ? '' : run.stdout + run.stderr]).toEqual([0, '']);
}

async function restored(...args: string[]): Promise<string> {
  await node.stop();
  for (const folder of ['hot', 'staging', 'cache', 'acked']) rmSync(join(node.dataDir, folder), { recursive: true, force: true });
  const run = await firn(['restore', ...args], settingsFor(node, settings));
  expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
  await node.start();
  return run.stdout;
}

const adminOf = async (stream: Stream): Promise<{ forks: number; hot: { start: string }; cold: { references: number } }> =>
  (await node.ask('GET', `/__firn/streams/${stream.path.replace(/^\/(v1\/stream\/)?/, '')}`)) as { forks: number; hot: { start: string }; cold: { references: number } };

describe('where the inherited bytes lie', () => {
  const bytes = (n: number): Buffer => Buffer.from(Array.from({ length: n }, (_, i) => (i * 31 + (i >> 7)) & 0xff));
  const content = bytes(700_000);

  for (const place of ['hot', 'cold', 'half cold', 'deleted', 'deleted and cold'] as const) {
    it(`${place}: sub-offsets, reads over the border, live reads and bootstrap`, { timeout: 60_000 }, async () => {
      await start();
      const s = fresh(node);
      await s.create({ type: OCTETS });
      // Three appends, the middle one over several stored values.
      await s.append(content.subarray(0, 1_000));
      await s.append(content.subarray(1_000, 601_000));
      if (place !== 'hot' && place !== 'deleted') await node.seal();
      await s.append(content.subarray(601_000));
      if (place === 'deleted and cold') await node.seal();
      const made: { stream: Stream; at: number }[] = [];
      for (const [offset, sub] of [[0, 0], [0, 1_000], [1_000, 1], [1_000, 262_144], [1_000, 600_000], [500_000, 101_000], [601_000, 99_000], [700_000, 0]] as const) made.push({ stream: await forked(s, { offset, sub }, { body: 'own' }), at: offset + sub });
      for (const [offset, sub] of [[0, 1_001], [1_000, 600_001], [500_000, 101_001], [700_000, 1]]) expect((await fork(s, { offset, sub })).answer.status).toBe(400);
      if (place.startsWith('deleted')) await s.delete();
      for (const { stream, at } of made) {
        const whole = Buffer.concat([content.subarray(0, at), Buffer.from('own')]);
        expect((await stream.all()).equals(whole)).toBe(true);
        expect((await stream.read({ offset: Math.max(0, at - 2), max_bytes: 4 })).body.equals(whole.subarray(Math.max(0, at - 2), Math.max(0, at - 2) + 4))).toBe(true);
        expect((await twin(stream).poll(String(at))).text).toBe('own');
      }
      const { stream } = made.at(-1)!;
      const boot = await stream.bootstrap();
      const updates = partsOf(boot).slice(1).map(({ body }) => body);
      expect(boot.status).toBe(200);
      if (place === 'hot' || place === 'deleted') expect(Buffer.concat(updates).equals(Buffer.concat([content, Buffer.from('own')]))).toBe(true);
      else expect([updates.length, boot.next, boot.upToDate]).toEqual([0, '0'.repeat(20), false]);
      await node.seal();
      for (const one of made) expect((await one.stream.all()).equals(Buffer.concat([content.subarray(0, one.at), Buffer.from('own')]))).toBe(true);
      await verified();
    });
  }

  it('in the journal: forks at once behind short appends to many streams', { timeout: 60_000 }, async () => {
    await start();
    for (let round = 0; round < 6; round += 1) {
      const sources = await Promise.all(Array.from({ length: 12 }, async () => {
        const s = fresh(node);
        await s.create({ type: TEXT });
        return s;
      }));
      for (const text of ['abc', 'defg']) await Promise.all(sources.map((s) => s.append(text)));
      const forks = await Promise.all(sources.map((s, i) => forked(s, i % 3 === 0 ? {} : { offset: 3, sub: i % 5 }, { body: '!' })));
      const late = await Promise.all(forks.map((f) => forked(f, { offset: 2, sub: 1 })));
      await Promise.all(sources.map((s) => s.append('later')));
      if (round % 2 === 1) {
        await node.kill();
        await node.start();
      }
      for (const [i, f] of forks.entries()) {
        expect((await f.read()).text).toBe(`abc${'defg'.slice(0, i % 3 === 0 ? 4 : i % 5)}!`);
        expect((await late[i]!.read()).text).toBe('abc');
        expect((await sources[i]!.read()).text).toBe('abcdefglater');
        expect((await fork(sources[i]!, { offset: 3, sub: 5 })).answer.status).toBe(400);
      }
    }
    await node.seal();
    await verified();
  });
});

describe('stories', () => {
  for (const [title, more] of [['one partition', {}], ['four partitions', { FIRN_PARTITIONS: '4' }], ['kept hot', { FIRN_HOT_KEEP_MS: '600000' }], ['no cold tier', { FIRN_COLD: 'none' }]] as const) {
    it(`I1 I7 appends, forks of forks, deletes, retention, seals, kills and restores: every stream reads as it must (${title})`, { timeout: 180_000 }, async () => {
      const random = seeded(`forks ${title}`);
      await start(more);
      const cold = title !== 'no cold tier';
      const family = new Family(node, random);
      for (let i = 0; i < 4; i += 1) await family.create();
      for (let round = 0; round < 4; round += 1) {
        for (let step = 0; step < 30; step += 1) {
          const what = random.next();
          if (family.live.length < 4) await family.create();
          if (what < 0.45 || family.bytes > 30_000_000) await family.append();
          else if (what < 0.75) await family.fork();
          else if (what < 0.87) await family.delete(random.pick(family.live));
          else if (what < 0.93) await family.retain(random.pick(family.live));
          else if (cold) await node.seal(random.pick(['', 'kin-1/', 'kin-4/']));
        }
        await family.compare();
        if (round % 2 === 0) {
          await node.kill();
          await node.start();
        }
        if (!cold) continue;
        await node.seal();
        await family.compare();
        if (round === 1) await node.ask('POST', '/__firn/checkpoint');
        if (round < 2) continue;
        await restored(...(round === 3 ? ['--new-incarnations'] : []));
        await family.compare();
        await verified();
      }
      await verified();
      for (const member of family.live) await family.delete(member);
      await family.compare();
      expect(family.members.every(({ state }) => state === 'gone')).toBe(true);
      if (cold) await node.seal();
      await verified();
      if (!cold) return;
      await restored();
      await family.compare();
    });
  }
});

describe('retention and the space of sources', () => {
  it('FORK-37 what forks read stays, hot and cold, and goes with the last of them', { timeout: 60_000 }, async () => {
    for (const cold of [true, false]) {
      await start(cold ? {} : { FIRN_COLD: 'none' });
      const s = fresh(node);
      await s.create({ type: TEXT, body: 'inherited;' });
      const f = await forked(s, {}, { body: 'own' });
      if (cold) await node.seal();
      await s.append('later');
      await s.publish('15', 'snap');
      expect((await s.retain('15')).status).toBe(204);
      for (let i = 0; i < 3; i += 1) {
        if (cold) await node.seal();
        else await sleep(700);
        expect((await f.read()).text).toBe('inherited;own');
        if (i === 1) await node.restart();
      }
      await verified();
      await f.delete();
      await eventually(async () => (await adminOf(s)).forks === 0);
      if (cold) {
        await node.seal();
        expect((await adminOf(s)).cold.references).toBe(0);
      } else {
        await eventually(async () => (await adminOf(s)).hot.start === '15'.padStart(20, '0'));
      }
      expect((await s.read({ offset: 15 })).status).toBe(200);
      await verified();
      if (cold) await node.dispose();
    }
  });

  it('BKT-08 a purge of a bucket whose stream has forks elsewhere: the stream is gone, its forks read on, also after a restore, until the last ends', { timeout: 60_000 }, async () => {
    await start({ FIRN_PARTITIONS: '4' });
    const s = new Stream(node.http, '/purged/s');
    await s.create({ type: TEXT, body: 'abc' });
    const f = new Stream(node.http, '/alive/f');
    await f.create({ headers: forkOf(s), body: 'def' });
    const inside = new Stream(node.http, '/purged/inside');
    await inside.create({ headers: forkOf(f) });
    await node.seal();
    await node.ask('DELETE', '/__firn/buckets/purged');
    const check = async (): Promise<void> => {
      for (const one of [s, inside]) expect([(await one.read()).status, (await one.create()).status, (await one.delete()).status]).toEqual([404, 404, 404]);
      expect((await fork(s)).answer.status).toBe(404);
      expect((await beside(f).create({ headers: forkOf(s) })).status).toBe(404);
      expect((await f.read()).text).toBe('abcdef');
    };
    await check();
    await node.kill();
    await node.start();
    await check();
    await node.seal();
    await restored();
    await check();
    await f.delete();
        await node.seal();
    await verified();
  });

  it('FORK-28 FORK-39 lifetimes that end while the node is away', { timeout: 60_000 }, async () => {
    await start();
    const [s, t] = [fresh(node, BASE), fresh(node, BASE)];
    for (const one of [s, t]) await one.create({ type: TEXT, body: 'abc', ttl: 2 });
    const stays = await forked(s, {}, { ttl: 600 });
    const ends = await forked(t);
    await node.kill();
    await sleep(3_000);
    await node.start();
    await allFree(t, ends);
    await eventually(async () => (await s.head()).status === 410);
    expect((await stays.read()).text).toBe('abc');
    await stays.delete();
    await allFree(s, stays);
    await verified();
  });

  it('R145 a chain of five, deleted from the root down, leaves nothing, whenever the node dies', { timeout: 120_000 }, async () => {
    await start({ FIRN_PARTITIONS: '4', FIRN_HOT_KEEP_MS: '600000' });
    for (let round = 0; round < 4; round += 1) {
      const chain = [fresh(node, BASE)];
      await chain[0]!.create({ type: TEXT, body: '0' });
      for (let i = 1; i <= 5; i += 1) chain.push(await forked(chain[i - 1]!, {}, { body: String(i) }));
      if (round % 2 === 0) await node.seal();
      for (const one of chain.slice(0, -1)) expect((await one.delete()).status).toBe(204);
      expect((await chain[5]!.read()).text).toBe('012345');
      const last = chain[5]!.delete().catch(() => null);
      await sleep(round * 2);
      await node.kill();
      const answer = await last;
      await node.start();
      if ((await chain[5]!.head()).status === 200) {
        expect(answer).toBeNull();
        await chain[5]!.delete();
      }
      await allFree(...chain);
    }
    await node.seal();
    await verified();
    expect(((await node.ask('GET', '/__firn/streams?limit=10')) as { streams: object[] }).streams).toEqual([]);
  });
});

describe('kill -9', () => {
  it('I2 R074 in the middle of forks and deletes: what was acknowledged is so, and nothing keeps a source for good', { timeout: 120_000 }, async () => {
    const random = seeded('forks killed');
    await start({ FIRN_PARTITIONS: '4', FIRN_SEAL_AGE_MS: '200' });
    for (let round = 0; round < 4; round += 1) {
      const sources = await Promise.all(Array.from({ length: 5 }, async () => {
        const s = fresh(node);
        await s.create({ type: JSON_TYPE, body: '["a","b","c"]' });
        return s;
      }));
      const acked = new Map<Stream, number>();
      const asked: Stream[] = [];
      const ended = new Set<Stream>();
      let over = false;
      const work = Array.from({ length: 8 }, async () => {
        while (!over) {
          const from = random.pick([...sources, ...[...acked.keys()].filter((f) => !ended.has(f))]);
          const f = fresh(node);
          asked.push(f);
          try {
            const sub = random.int(1, 3);
            const answer = await f.create({ headers: forkOf(from, { offset: 0, sub }) });
            if (answer.status === 201) acked.set(f, sub);
            if (random.chance(0.3) && acked.size > 0) {
              const gone = random.pick([...acked.keys()]);
              ended.add(gone);
              await gone.delete();
            }
          } catch {
            return;
          }
        }
      });
      await sleep(random.int(50, 500));
      await node.kill();
      over = true;
      await Promise.all(work);
      await node.start();
      for (const [f, sub] of acked) {
        if (ended.has(f)) continue;
        const answer = await twin(f).read();
        expect([answer.status, answer.text]).toEqual([200, JSON.stringify(['a', 'b', 'c'].slice(0, Math.min(sub, (answer.json() as unknown[]).length)))]);
      }
      for (const s of sources) expect((await twin(s).read()).json()).toEqual(['a', 'b', 'c']);
      if (round === 2) {
        await node.seal();
        await verified();
      }
      await Promise.all([...sources, ...asked].map((one) => one.delete()));
      await allFree(...sources, ...asked);
    }
  });

  it('verify beside a running node finds nothing while forks come and go', { timeout: 60_000 }, async () => {
    await start({ FIRN_SEAL_AGE_MS: '100', FIRN_PARTITIONS: '4' });
    let over = false;
    const work = Array.from({ length: 6 }, async () => {
      while (!over) {
        const s = fresh(node);
        await s.create({ type: TEXT, body: 'abc' });
        const made = await Promise.all([1, 2, 3].map((sub) => forked(s, { offset: 0, sub })));
        await s.delete();
        await Promise.all(made.map((f) => f.delete()));
      }
    });
    for (let i = 0; i < 6; i += 1) await verified();
    over = true;
    await Promise.all(work);
    await node.seal();
    await eventually(async () => ((await node.ask('GET', '/__firn/streams?limit=10')) as { streams: object[] }).streams.length === 0);
    await verified();
    expect(filesBelow(join(node.dataDir, 'staging'))).toEqual([]);
  });
});
