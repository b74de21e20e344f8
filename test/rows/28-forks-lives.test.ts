/** Section 28 of the requirements: reading forks, and what becomes of sources and forks. */
import { describe, expect, it } from 'vitest';
import { hotOrCold } from '../support/cold-pass.js';
import { allFree, eventually, fork, forked, forkOf } from '../support/forks.js';
import { partsOf } from '../support/multipart.js';
import { useNode } from '../support/node.js';
import { controlsOf, dataOf } from '../support/sse.js';
import { BASE, fresh, JSON_TYPE, OCTETS, onBoth, sleep, type Stream, TEXT, twin } from '../support/stream.js';

const node = useNode();
const source = async (type: string, ...bodies: string[]): Promise<Stream> => {
  const s = fresh(node, BASE);
  await s.create({ type });
  for (const body of bodies) await s.append(body);
  return s;
};

describe('reading forks', () => {
  it('FORK-17 producer state is not inherited', async () => {
    const s = fresh(node, BASE);
    await s.create({ type: JSON_TYPE });
    expect((await s.append('["a","b"]', { producer: ['p', 0, 0] })).status).toBe(200);
    for (const at of [{}, { offset: 0, sub: 1 }, { offset: 4 }]) {
      const f = await forked(s, at);
      expect((await f.append('"new"', { type: JSON_TYPE, producer: ['p', 0, 0] })).status).toBe(200);
      expect((await f.append('"new"', { type: JSON_TYPE, producer: ['p', 0, 0] })).status).toBe(204);
      expect((await f.read()).json()).toContain('new');
    }
    expect((await s.append('"c"', { producer: ['p', 0, 1] })).status).toBe(200);
  });

  it('FORK-18 Stream-Seq state is not inherited', async () => {
    const s = fresh(node, BASE);
    await s.create({ type: TEXT });
    await s.append('abc', { seq: '9' });
    const f = await forked(s);
    expect((await f.append('d', { type: TEXT, seq: '1' })).status).toBe(204);
    expect((await s.append('d', { seq: '1' })).status).toBe(409);
  });

  it('FORK-19 appends and closing do not cross', async () => {
    const s = await source(TEXT, 'abc');
    const [f, g] = [await forked(s), await forked(s)];
    await s.append('SOURCE');
    await f.append('FORK', { type: TEXT });
    expect([(await s.read()).text, (await f.read()).text, (await g.read()).text]).toEqual(['abcSOURCE', 'abcFORK', 'abc']);
    await s.close();
    expect([(await f.head()).closed, (await f.append('2', { type: TEXT })).status]).toEqual([false, 204]);
    await g.close();
    expect([(await f.head()).closed, (await g.read()).closed]).toEqual([false, true]);
  });

  it('FORK-20 a read joins inherited and own data, under the offsets of the source', async () => {
    const s = await source(OCTETS, 'abc', 'def');
    const f = await forked(s);
    await f.append('ghi');
    await s.append('XYZ');
    const whole = 'abcdefghi';
    for (let from = 0; from <= whole.length; from += 1) {
      for (const maxBytes of [1, 2, 5, 100]) {
        const answer = await f.read({ offset: from, max_bytes: maxBytes });
        expect([answer.status, answer.text, Number(answer.next)]).toEqual([200, whole.slice(from, from + maxBytes), Math.min(whole.length, from + maxBytes)]);
      }
    }
    expect((await f.read({ offset: '10' })).status).toBe(416);
    const etag = (await f.read()).need('etag');
    expect((await f.read({ offset: '-1' }, { 'if-none-match': etag })).status).toBe(304);
    expect((await s.read({ offset: '-1' }, { 'if-none-match': etag })).status).toBe(200);
  });

  it('FORK-20 the same range of source and fork has another tag', async () => {
    const s = await source(TEXT, 'abc');
    const f = await forked(s);
    expect((await f.read({ offset: 0 })).need('etag')).not.toBe((await s.read({ offset: 0 })).need('etag'));
  });

  it('FORK-21 a JSON read across the border is one array', async () => {
    const s = await source(JSON_TYPE, '["a","b"]', '"c"');
    for (const at of [{}, { offset: 4 }, { offset: 0, sub: 1 }]) {
      const f = await forked(s, at);
      const inherited = (await f.read()).json() as unknown[];
      await f.append('[1,[2]]', { type: JSON_TYPE });
      expect((await f.read()).json()).toEqual([...inherited, 1, [2]]);
      expect((await twin(f).read()).text.split('\n').slice(0, -1).map((line) => JSON.parse(line) as unknown)).toEqual([...inherited, 1, [2]]);
    }
  });

  it('FORK-22 a long-poll answers inherited data at once, and at the tail waits for the own appends', async () => {
    const s = await source(TEXT, 'abc');
    const f = await forked(s);
    const inherited = await f.poll('0', { timeout_ms: 10_000 });
    expect([inherited.status, inherited.text]).toEqual([200, 'abc']);
    const waiting = f.poll('3', { timeout_ms: 1_200 });
    await sleep(150);
    await s.append('SOURCE');
    expect((await waiting).status).toBe(204);
    const own = f.poll('3', { timeout_ms: 10_000 });
    await sleep(150);
    await f.append('own', { type: TEXT });
    const answer = await own;
    expect([answer.status, answer.text]).toEqual([200, 'own']);
  });

  it('FORK-23 SSE sends inherited, then own data, and never later data of the source', async () => {
    for (const maxBytes of [1_000, 2]) {
      const s = await source(TEXT, 'abc', 'def');
      const f = await forked(s, { offset: 0, sub: 2 });
      const sse = await f.sse('-1', { max_bytes: maxBytes });
      const first = await sse.through();
      expect(dataOf(first)).toBe('ab');
      await s.append('SOURCE');
      await f.append('own', { type: TEXT });
      expect(dataOf(await sse.through((control) => Number(control.streamNextOffset) === 5))).toBe('own');
      await f.close();
      expect(controlsOf(await sse.through((control) => control.streamClosed === true)).at(-1)?.streamClosed).toBe(true);
      expect(sse.wire).not.toContain('SOURCE');
      const late = await f.sse('1', { max_bytes: maxBytes });
      expect(dataOf(await late.through((control) => control.streamClosed === true))).toBe('bown');
    }
  });

  it('FORK-29 a fork can be forked, and reads span all levels', async () => {
    const s = await source(JSON_TYPE, '["a","b"]');
    const f = await forked(s, { offset: 0, sub: 1 });
    await f.append('["f1","f2"]', { type: JSON_TYPE });
    const g = await forked(f, { offset: 4, sub: 1 });
    await g.append('"g"', { type: JSON_TYPE });
    const early = await forked(g, { offset: 4 });
    await early.append('"e"', { type: JSON_TYPE });
    expect((await g.read()).json()).toEqual(['a', 'f1', 'g']);
    expect((await early.read()).json()).toEqual(['a', 'e']);
    expect((await f.read()).json()).toEqual(['a', 'f1', 'f2']);
    // The batch of the source goes on behind the fork, and is not the fork's.
    expect((await fork(f, { offset: 0, sub: 2 })).answer.status).toBe(400);
  });

  it('FORK-29 a chain has at most 64 forks, each of which reads all of it', async () => {
    let last = await source(TEXT, '0;');
    const chain = [last];
    let text = '0;';
    for (let i = 1; i <= 64; i += 1) {
      last = await forked(last, {}, { body: `${i};` });
      chain.push(last);
      text += `${i};`;
    }
    expect((await last.read()).text).toBe(text);
    expect((await fork(last)).answer.status).toBe(409);
    for (const one of chain) expect((await one.delete()).status).toBe(204);
    await allFree(...chain);
  });
});

onBoth('the end of sources', (on) => {
  const deletedSource = async (): Promise<{ s: Stream; f: Stream; token: string }> => {
    const s = fresh(node, on);
    const { incarnation: token } = await s.create({ type: TEXT, body: 'abc' });
    const f = await forked(s, {}, { body: 'd' });
    expect((await s.delete()).status).toBe(204);
    return { s, f, token };
  };

  it('FORK-24 FORK-25 a deleted source with live forks is 410 for all verbs, 409 for PUT, and its forks are read on', async () => {
    const { s, f, token } = await deletedSource();
    const b = on.name === 'bucketed' ? s : twin(s);
    const answers = { get: s.read(), offset: s.read({ offset: 1 }), poll: s.poll('3'), sse: s.read({ offset: '-1', live: 'sse' }), head: s.head(), post: s.append('x'), close: s.close(), delete: s.delete(), bootstrap: b.bootstrap(), publish: b.publish('3', 'x'), snapshot: b.sub('GET', 'snapshot/3'), retention: b.retain('3'), chunk: b.sub('GET', `incarnation/${token}/chunk/${'0'.repeat(20)}`) };
    for (const [verb, answer] of Object.entries(answers)) expect([verb, (await answer).status]).toEqual([verb, 410]);
    expect((await s.read()).code).toBe('STREAM_GONE');
    expect((await s.put({ type: TEXT })).status).toBe(409);
    expect((await s.put({ type: TEXT, body: 'x', headers: forkOf(f) })).status).toBe(409);
    expect([(await f.read()).text, (await twin(f).read()).text]).toEqual(['abcd', 'abcd']);
    expect((await f.append('e', { type: TEXT })).status).toBe(204);
    expect((await f.read({ offset: 1 })).text).toBe('bcde');
    expect((await node.ask('GET', '/__firn/streams?prefix=rows/&limit=1000') as { streams: { key: string }[] }).streams.map(({ key }) => key)).not.toContain(s.path.split('/').slice(-2).join('/'));
  });

  it('FORK-14 a soft-deleted source is no source of new forks', async () => {
    const { s, f } = await deletedSource();
    const { stream, answer } = await fork(s);
    expect(answer.status).toBe(409);
    expect((await stream.head()).status).toBe(404);
    // Its fork is one all the same, and what it inherited with it.
    expect((await (await forked(f)).read()).text).toBe('abcd');
  });

  it('FORK-15 a fork whose source was deleted confirms a repeated PUT', async () => {
    const { s, f } = await deletedSource();
    expect((await f.create({ headers: forkOf(s) })).status).toBe(200);
    expect((await f.create({ headers: forkOf(s, { offset: 2 }) })).status).toBe(409);
  });

  it('FORK-26 R074 with the last fork the source goes, and its path is free', async () => {
    const { s, f } = await deletedSource();
    const g = await forked(f);
    await f.delete();
    expect((await s.head()).status).toBe(410);
    await g.delete();
    await allFree(s, f, g);
    expect((await s.create({ type: OCTETS, body: 'new' })).status).toBe(201);
    expect((await s.read()).text).toBe('new');
  });

  it('FORK-27 R145 cleanup cascades up a chain', async () => {
    const chain = [fresh(node, on)];
    await chain[0]!.create({ type: TEXT, body: '0' });
    for (let i = 1; i <= 5; i += 1) chain.push(await forked(chain[i - 1]!, {}, { body: String(i) }));
    for (const one of chain.slice(0, -1)) expect((await one.delete()).status).toBe(204);
    for (const one of chain.slice(0, -1)) expect((await one.head()).status).toBe(410);
    expect((await chain[5]!.read()).text).toBe('012345');
    await chain[5]!.delete();
    await allFree(...chain);
    for (const one of chain) expect((await one.create({ type: JSON_TYPE })).status).toBe(201);
  });

  it('FORK-28 the end of a fork leaves the source alone and drops its reference', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: 'abc' });
    const [deleted, expiring] = [await forked(s), await forked(s, {}, { ttl: 1 })];
    await deleted.delete();
    expect((await s.read()).text).toBe('abc');
    await sleep(1_100);
    expect((await expiring.head()).status).toBe(404);
    await eventually(async () => (await node.ask('GET', `/__firn/streams/${s.path.split('/').slice(-2).join('/')}`) as { forks: number }).forks === 0);
    expect((await s.read()).text).toBe('abc');
    expect((await s.delete()).status).toBe(204);
    expect((await s.head()).status).toBe(404);
  });

  it('FORK-37 a source whose retention moved cannot be forked', async () => {
    const s = fresh(node, on);
    const b = on.name === 'bucketed' ? s : twin(s);
    await s.create({ type: TEXT, body: 'abcdef' });
    await b.publish('4', 'snap');
    expect((await b.retain('0')).status).toBe(204);
    expect((await fork(s)).answer.status).toBe(201);
    expect((await b.retain('2')).status).toBe(204);
    const { stream, answer } = await fork(s, { offset: 5 });
    expect([answer.status, (await stream.head()).status]).toEqual([409, 404]);
  });

  it('FORK-37 retention on a source with forks affects its own reads alone', async () => {
    const s = fresh(node, on);
    const b = on.name === 'bucketed' ? s : twin(s);
    await s.create({ type: TEXT, body: 'abcdef' });
    const f = await forked(s, {}, { body: 'gh' });
    await b.publish('6', 'snap');
    expect((await b.retain('5')).status).toBe(204);
    expect((await s.read()).status).toBe(410);
    expect((await s.read({ offset: 5 })).text).toBe('f');
    expect([(await f.read()).text, (await f.read({ offset: 2 })).text]).toEqual(['abcdefgh', 'cdefgh']);
    const own = twin(twin(f));
    const fb = on.name === 'bucketed' ? own : twin(own);
    await fb.publish('7', 'snap');
    expect((await fb.retain('3')).status).toBe(204);
    expect([(await f.read({ offset: 2 })).status, (await f.read({ offset: 3 })).text]).toEqual([410, 'defgh']);
    expect((await fb.retain('7')).status).toBe(204);
    expect((await f.read({ offset: 7 })).text).toBe('h');
  });

  it('FORK-38 a fork has a token of its own, no snapshot, and begins where its source does', async () => {
    const s = fresh(node, on);
    const b = on.name === 'bucketed' ? s : twin(s);
    await s.create({ type: TEXT, body: 'abc' });
    await b.publish('2', 'snap');
    const f = await forked(s, {}, { body: 'de' });
    const fb = on.name === 'bucketed' ? f : twin(f);
    const head = await fb.head();
    expect(head.incarnation).not.toBe(await s.token());
    expect(head.header('stream-snapshot-offset')).toBeUndefined();
    expect(head.header('stream-retained-offset')).toBe('0'.repeat(20));
    expect((await fb.sub('GET', 'snapshot/2')).status).toBe(404);
    const boot = await fb.bootstrap();
    expect([boot.status, boot.header('stream-snapshot-offset') ?? '-1', boot.upToDate, boot.text.includes('snap')]).toEqual([200, '-1', hotOrCold(true, false), false]);
    expect(partsOf(boot).slice(1).map(({ body }) => body.toString()).join('')).toBe(hotOrCold('abcde', ''));
    // A snapshot of its own may lie in what it inherited.
    expect((await fb.publish('1', 'own')).status).toBe(204);
    const again = await fb.bootstrap();
    expect(partsOf(again).map(({ body }) => body.toString())).toEqual(hotOrCold(['own', 'bcde'], ['own']));
    expect((await b.sub('GET', 'snapshot/2')).text).toBe('snap');
  });

  it('FORK-39 a source that expires while forks live is 410, and they are read on', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: 'abc', ttl: 1 });
    const f = await forked(s, {}, { ttl: 60 });
    await sleep(1_200);
    expect((await s.read()).status).toBe(410);
    expect((await s.create({ type: TEXT })).status).toBe(409);
    expect((await fork(s)).answer.status).toBe(409);
    expect((await f.read()).text).toBe('abc');
    await f.delete();
    await allFree(s, f);
  });

  it('live reads of a source end when it is deleted, although forks keep it', async () => {
    const s = fresh(node, on);
    await s.create({ type: OCTETS, body: 'abc' });
    const f = await forked(s);
    const polls = s.poll('3', { timeout_ms: 15_000 });
    const sse = await s.sse('now');
    await sse.control();
    await sleep(150);
    const startedAt = Date.now();
    await s.delete();
    expect([404, 410]).toContain((await polls).status);
    const event = await sse.next();
    expect(event.event).toBe('error');
    expect((JSON.parse(event.data) as { error: { code: string } }).error.code).toMatch(/^STREAM_(NOT_FOUND|GONE)$/);
    expect(await sse.end()).toBe('clean');
    expect(Date.now() - startedAt).toBeLessThan(3_000);
    const live = f.poll('3', { timeout_ms: 10_000 });
    await sleep(100);
    await f.append('d', { type: OCTETS });
    expect((await live).text).toBe('d');
  });
});
