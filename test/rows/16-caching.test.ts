/** Section 16 of the requirements: cache headers, entity tags, cursors. */
import { gunzipSync } from 'node:zlib';
import { Agent, interceptors } from 'undici';
import type { Dispatcher } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { controlsOf } from '../support/sse.js';
import { BASE, BUCKETED, fresh, JSON_TYPE, OCTETS, onBoth, sleep, TEXT, twin } from '../support/stream.js';

const node = useNode();
const INTERVAL_MS = 20_000;
const interval = (): number => Math.floor((Date.now() - Date.parse('2024-10-09T00:00:00Z')) / INTERVAL_MS);

onBoth('caching', (on) => {
  const stream = async (type = TEXT, body = type === JSON_TYPE ? '{"a":1}' : 'abc') => {
    const s = fresh(node, on);
    await s.create({ type, body });
    return s;
  };

  it('CACHE-01 a catch-up answer may be stored for a minute', async () => {
    const s = await stream();
    expect((await s.read()).header('cache-control')).toBe('public, max-age=60, stale-while-revalidate=300');
  });

  it('CACHE-02 CACHE-03 tags name the range', async () => {
    const s = await stream();
    const one = (await s.read()).need('etag');
    expect(one).toMatch(/^(W\/)?"[^"]+"$/);
    expect((await s.read()).header('etag')).toBe(one);
    const { next } = await s.append('def');
    const tags = [one, (await s.read()).need('etag'), (await s.read({ offset: '-1', max_bytes: 2 })).need('etag'), (await s.read({ offset: '1' })).need('etag'), (await s.read({ offset: next })).need('etag')];
    expect(new Set(tags).size).toBe(tags.length);
    expect((await s.read({ offset: 'now' })).header('etag')).toBeUndefined();
    expect((await s.poll('-1')).need('etag')).toMatch(/^(W\/)?"[^"]+"$/);
  });

  it('CACHE-04 CACHE-16 a matching tag answers 304 with the headers of the 200', async () => {
    for (const type of [TEXT, JSON_TYPE]) {
      const s = await stream(type);
      const full = await s.read();
      const tag = full.need('etag');
      for (const match of [tag, `"x", ${tag}`, tag.replace(/^W\//, ''), `W/${tag.replace(/^W\//, '')}`]) {
        const answer = await s.read({ offset: '-1' }, { 'if-none-match': match });
        expect([match, answer.status, answer.body.length]).toEqual([match, 304, 0]);
        for (const name of ['etag', 'cache-control', 'stream-next-offset', 'stream-up-to-date', 'stream-incarnation', 'stream-closed']) expect([name, answer.header(name)]).toEqual([name, full.header(name)]);
      }
      const other = await s.read({ offset: '-1' }, { 'if-none-match': '"other"' });
      expect([other.status, other.text]).toEqual([200, full.text]);
    }
  });

  it('CACHE-05 closing changes the tag', async () => {
    const s = await stream();
    const tail = await s.tail();
    const [whole, end] = [(await s.read()).need('etag'), (await s.read({ offset: tail })).need('etag')];
    await s.close();
    for (const [offset, tag] of [['-1', whole], [tail, end]] as const) {
      const answer = await s.read({ offset }, { 'if-none-match': tag });
      expect([answer.status, answer.closed]).toEqual([200, true]);
    }
  });

  it('CACHE-06 new data changes the tag', async () => {
    const s = await stream();
    const tag = (await s.read()).need('etag');
    await s.append('def');
    const answer = await s.read({ offset: '-1' }, { 'if-none-match': tag });
    expect([answer.status, answer.text]).toEqual([200, 'abcdef']);
  });

  it('CACHE-07 R065 a recreated stream never validates an old tag', async () => {
    const s = await stream();
    const tag = (await s.read()).need('etag');
    await s.delete();
    await s.create({ type: TEXT, body: 'abc' });
    const answer = await s.read({ offset: '-1' }, { 'if-none-match': tag });
    expect([answer.status, answer.text]).toEqual([200, 'abc']);
    expect(answer.header('etag')).not.toBe(tag);
  });

  it('CACHE-08 CACHE-09 CACHE-10 cursors are 20-second intervals and do not fall', async () => {
    const s = await stream();
    const before = interval();
    const cursors: number[] = [];
    for (let i = 0; i < 5; i += 1) cursors.push(Number((await s.poll('now', { timeout_ms: 1 })).need('stream-cursor')));
    expect(cursors[0]).toBeGreaterThanOrEqual(before);
    expect(cursors[0]).toBeLessThanOrEqual(interval());
    expect([...cursors].sort((a, b) => a - b)).toEqual(cursors);
    const sse = await s.sse('-1');
    const cursor = controlsOf(await sse.through()).at(-1)?.streamCursor;
    sse.close();
    expect(Number(cursor)).toBeGreaterThanOrEqual(before);
  });

  it('CACHE-11 R063 a cursor at or above the interval gets a greater one', async () => {
    const s = await stream();
    for (const ahead of [0, 1, 1_000, 1_000_000]) {
      const sent = interval() + ahead;
      const cursor = Number((await s.poll('now', { timeout_ms: 1, cursor: sent })).need('stream-cursor'));
      expect(cursor).toBeGreaterThan(sent);
      expect(cursor).toBeLessThanOrEqual(sent + 181);
      const data = Number((await s.poll('-1', { cursor: sent })).need('stream-cursor'));
      expect(data).toBeGreaterThan(sent);
      const sse = await s.sse('-1', { cursor: sent });
      const control = Number(controlsOf(await sse.through()).at(-1)?.streamCursor);
      sse.close();
      expect(control).toBeGreaterThan(sent);
    }
    const past = Number((await s.poll('now', { timeout_ms: 1, cursor: 5 })).need('stream-cursor'));
    expect(past).toBeLessThanOrEqual(interval());
  });

  it('CACHE-14 R063 a cursor that is no number is as good as none', async () => {
    const s = await stream();
    for (const cursor of ['abc', '', '-5', '1.5', '9'.repeat(40), '%00']) {
      const answer = await s.read(`offset=-1&live=long-poll&cursor=${cursor}`);
      expect([cursor, answer.status]).toEqual([cursor, 200]);
      expect(Number(answer.need('stream-cursor'))).toBeLessThanOrEqual(interval());
    }
  });

  it('CACHE-13 an answer is not stored beyond the end of its stream', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: 'abc', expiresAt: new Date(Date.now() + 10_000).toISOString() });
    const value = (await s.read()).need('cache-control');
    expect(Number(/max-age=(\d+)/.exec(value)?.[1])).toBeLessThanOrEqual(10);
    expect(value).not.toContain('stale-while-revalidate');
    const sliding = fresh(node, on);
    await sliding.create({ type: TEXT, body: 'abc', ttl: 7 });
    const short = (await sliding.read()).need('cache-control');
    expect(Number(/max-age=(\d+)/.exec(short)?.[1])).toBeLessThanOrEqual(7);
    expect(short).not.toContain('stale-while-revalidate');
  });

  it('CACHE-01 R137 an answer that was asked for with credentials is private', async () => {
    const s = await stream();
    expect((await s.read({ offset: '-1' }, { authorization: 'Bearer x' })).header('cache-control')).toBe('private, max-age=60, stale-while-revalidate=300');
  });
});

onBoth('behind a shared cache', (on) => {
  let cache: Dispatcher;
  beforeAll(() => {
    cache = new Agent().compose(interceptors.cache({ type: 'shared', methods: ['GET', 'HEAD'] }));
  });
  afterAll(() => cache.close());
  const get = async (path: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') => {
    const { statusCode, headers: seen, body } = await cache.request({ origin: node.url, method, path, headers });
    return { status: statusCode, text: await body.text(), header: (name: string) => seen[name] as string | undefined };
  };

  it('R063 CACHE-11 long-poll readers that share the cache all advance, and none of them goes in circles', { timeout: 60_000 }, async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: '-' });
    let requests = 0;
    const readers = [0, 1, 2].map(async () => {
      let [text, offset, cursor] = ['', '0', ''];
      while (!text.endsWith('39;')) {
        const answer = await get(`${s.path}?offset=${offset}&live=long-poll&timeout_ms=400${cursor === '' ? '' : `&cursor=${cursor}`}`);
        requests += 1;
        expect([200, 204]).toContain(answer.status);
        if (answer.status === 204) expect(answer.header('cache-control')).toBe('no-store');
        expect(Number(answer.header('stream-next-offset'))).toBe(Number(offset) + Buffer.byteLength(answer.text));
        text += answer.text;
        offset = answer.header('stream-next-offset') ?? '';
        cursor = answer.header('stream-cursor') ?? '';
      }
      return text;
    });
    for (let i = 0; i < 40; i += 1) await s.append(`${i};`);
    for (const text of await Promise.all(readers)) expect(text).toBe(`-${Array.from({ length: 40 }, (_, i) => `${i};`).join('')}`);
    expect(requests).toBeLessThan(300);
  });

  it('R061 OFF-11 nothing of an event stream, a HEAD, an error, a 204 or a read of now is given out again', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: 'abc' });
    const opened = [];
    for (let i = 0; i < 2; i += 1) {
      opened.push(await cache.request({ origin: node.url, method: 'GET', path: `${s.path}?offset=-1&live=sse` }));
      await sleep(200);
    }
    await s.append('later');
    for (const { body } of opened) {
      let text = '';
      for await (const piece of body) if ((text += String(piece)).includes('later')) break;
      expect(text).toContain('abc');
    }
    const again = async (path: string, change: () => Promise<unknown>) => {
      const before = await get(path);
      await change();
      return [before, await get(path)] as const;
    };
    const [none, some] = await again(`${s.path}?offset=99`, () => s.append('x'.repeat(100)));
    expect([none.status, some.status]).toEqual([416, 200]);
    const tail = await s.tail();
    const [head, next] = [await get(s.path, {}, 'HEAD'), (await s.append('w'), await get(s.path, {}, 'HEAD'))];
    expect([head.header('stream-next-offset'), next.header('stream-next-offset')]).toEqual([tail, await s.tail()]);
    const before = await s.tail();
    const [now, later] = await again(`${s.path}?offset=now`, () => s.append('y'));
    expect([now.header('stream-next-offset'), later.header('stream-next-offset')]).toEqual([before, await s.tail()]);
    const [quiet, woken] = await again(`${s.path}?offset=${await s.tail()}&live=long-poll&timeout_ms=1`, () => s.append('z'));
    expect([quiet.status, woken.status, woken.text]).toEqual([204, 200, 'z']);
    const missing = fresh(node, on);
    const [gone, there] = await again(`${missing.path}?offset=-1`, () => missing.create({ type: TEXT, body: 'new' }));
    expect([gone.status, there.status]).toEqual([404, 200]);
  });

  it('R065 CACHE-18 a request that names an incarnation is never answered from another one, stored with or without that name', async () => {
    const s = fresh(node, on);
    const { incarnation: old } = await s.create({ type: TEXT, body: 'old' });
    const path = `${s.path}?offset=-1`;
    expect((await get(path)).text).toBe('old');
    // It is a cache: the node is not asked.
    expect((await get(path)).header('age')).toBeDefined();
    expect((await get(path, { 'stream-incarnation': old })).text).toBe('old');
    await s.delete();
    const { incarnation } = await s.create({ type: TEXT, body: 'new' });
    const refused = await get(path, { 'stream-incarnation': old });
    expect([refused.status, refused.header('stream-incarnation')]).toEqual([412, incarnation]);
    expect((await get(path, { 'stream-incarnation': incarnation })).text).toBe('new');
    // What the cache has is asked for again under its old tag: never 304.
    expect((await get(path, { 'cache-control': 'no-cache' })).text).toBe('new');
  });
});

describe('caching across the surfaces', () => {
  it('CACHE-15 the two JSON representations have different tags', async () => {
    const s = fresh(node);
    await s.create({ type: JSON_TYPE, body: '{"a":1}' });
    const tag = (await twin(s).read()).need('etag');
    expect((await s.read()).header('etag')).not.toBe(tag);
    expect((await s.read({ offset: '-1' }, { 'if-none-match': tag })).status).toBe(200);
  });

  it('CACHE-17 an incarnation mismatch comes before a matching tag', async () => {
    const s = fresh(node);
    await s.create({ type: TEXT, body: 'abc' });
    const tag = (await s.read()).need('etag');
    expect((await s.read({ offset: '-1' }, { 'if-none-match': tag, 'stream-incarnation': '4503599627370497' })).status).toBe(412);
  });

  it('CACHE-18 an answer that depended on the incarnation header is private', async () => {
    for (const on of [BUCKETED, BASE]) {
      const s = fresh(node, on);
      const { incarnation } = await s.create({ type: OCTETS, body: 'abc' });
      const answer = await s.read({ offset: '-1' }, { 'stream-incarnation': incarnation });
      expect(answer.status).toBe(200);
      expect(answer.need('cache-control')).toContain('private');
      expect(answer.need('cache-control')).toContain('no-cache');
      expect(answer.need('vary').toLowerCase()).toContain('stream-incarnation');
    }
  });

  it('CACHE-18 an answer without that header is not reused for a request that has it', async () => {
    for (const on of [BUCKETED, BASE]) {
      const s = fresh(node, on);
      await s.create({ type: OCTETS, body: 'abc' });
      const answer = await s.read({ offset: '-1' });
      expect([answer.status, answer.need('cache-control')]).toEqual([200, expect.stringContaining('public')]);
      expect(answer.need('vary').toLowerCase()).toContain('stream-incarnation');
    }
  });

  it('CACHE-12 a bootstrap is not stored', async () => {
    const s = fresh(node);
    await s.create({ type: OCTETS, body: 'abc' });
    expect((await s.bootstrap()).header('cache-control')).toBe('no-store');
  });

  it('JSON answers of 256 bytes and more are compressed for those who accept it, with a weak tag and the same text', async () => {
    for (const on of [BUCKETED, BASE]) {
      const s = fresh(node, on);
      await s.create({ type: JSON_TYPE });
      await s.append(JSON.stringify(Array.from({ length: 50 }, (_, i) => ({ number: i, text: 'some words here' }))));
      const plain = await s.read();
      for (const accept of ['gzip', 'br, gzip;q=0.5', '*', 'GZIP']) {
        const packed = await s.read({ offset: '-1' }, { 'accept-encoding': accept });
        expect([accept, packed.header('content-encoding'), packed.next]).toEqual([accept, 'gzip', plain.next]);
        expect(gunzipSync(packed.body).equals(plain.body)).toBe(true);
        expect(packed.need('etag')).toMatch(/^W\//);
        expect(packed.need('vary').toLowerCase()).toContain('accept-encoding');
        expect((await s.read({ offset: '-1' }, { 'accept-encoding': accept, 'if-none-match': packed.need('etag') })).status).toBe(304);
      }
      for (const accept of ['gzip;q=0', 'identity', 'br', '']) expect([accept, (await s.read({ offset: '-1' }, { 'accept-encoding': accept })).header('content-encoding')]).toEqual([accept, undefined]);
      const small = fresh(node, on);
      await small.create({ type: JSON_TYPE, body: '"short"' });
      expect((await small.read({ offset: '-1' }, { 'accept-encoding': 'gzip' })).header('content-encoding')).toBeUndefined();
      const text = fresh(node, on);
      await text.create({ type: TEXT, body: 'x'.repeat(1_000) });
      expect((await text.read({ offset: '-1' }, { 'accept-encoding': 'gzip' })).header('content-encoding')).toBeUndefined();
    }
  });
});
