/** Section 16 of the requirements: cache headers, entity tags, cursors. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { controlsOf } from '../support/sse.js';
import { BASE, BUCKETED, fresh, JSON_TYPE, OCTETS, onBoth, TEXT, twin } from '../support/stream.js';

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
    for (const on of [BUCKETED]) {
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
    const s = fresh(node);
    await s.create({ type: JSON_TYPE });
    await s.append(JSON.stringify(Array.from({ length: 50 }, (_, i) => ({ number: i, text: 'some words here' }))));
    const plain = await s.read();
    const packed = await s.read({ offset: '-1' }, { 'accept-encoding': 'gzip' });
    expect(packed.header('content-encoding')).toBe('gzip');
    const { gunzipSync } = await import('node:zlib');
    expect(gunzipSync(packed.body).equals(plain.body)).toBe(true);
    expect(packed.need('etag')).toMatch(/^W\//);
    expect(packed.next).toBe(plain.next);
    expect((await s.read({ offset: '-1' }, { 'accept-encoding': 'gzip;q=0' })).header('content-encoding')).toBeUndefined();
  });
});
