/** Section 28 of the requirements: how forks are made, what they inherit, what is refused. */
import { describe, expect, it } from 'vitest';
import { beside, fork, forked, forkOf, type ForkAt } from '../support/forks.js';
import type { Headers } from '../support/http.js';
import { useNode } from '../support/node.js';
import { BASE, fresh, JSON_TYPE, OCTETS, onBoth, sleep, Stream, TEXT, twin, uniqueId } from '../support/stream.js';

const node = useNode();
const source = async (type: string, ...bodies: string[]): Promise<Stream> => {
  const s = fresh(node, BASE);
  await s.create({ type });
  for (const body of bodies) await s.append(body);
  return s;
};
const status = async (s: Stream, at: ForkAt, options = {}): Promise<number> => (await fork(s, at, options)).answer.status;

describe('making a fork', () => {
  it('FORK-01 a PUT that names its source answers 201', async () => {
    const s = await source(TEXT, 'abc');
    const { stream, answer } = await fork(s);
    expect([answer.status, answer.next]).toEqual([201, '3'.padStart(20, '0')]);
    expect(answer.need('location')).toContain(stream.path);
    expect((await stream.read()).text).toBe('abc');
  });

  it('FORK-02 the fork offset ends what is inherited, by default at the tail of the source', async () => {
    for (const type of [TEXT, JSON_TYPE, OCTETS]) {
      const s = await source(type, '"one"');
      const first = await s.tail();
      await s.append('"two"');
      const [one, two] = [await s.read({ offset: '-1', max_bytes: 1 }), await s.read({ offset: first })];
      const at = await forked(s, { offset: first });
      expect(await at.tail()).toBe(first);
      expect((await at.read()).text).toBe(type === JSON_TYPE ? one.text : '"one"');
      const all = await forked(s);
      expect((await all.read()).text).toBe((await s.read()).text);
      expect((await all.read({ offset: first })).text).toBe(two.text);
      const none = await forked(s, { offset: '0'.repeat(20) });
      expect((await none.read()).text).toBe(type === JSON_TYPE ? '[]' : '');
    }
  });

  it('FORK-03 FORK-06 a sub-offset on JSON counts the messages of the append behind the fork offset', async () => {
    const s = await source(JSON_TYPE, '["before"]', '[{"n":1},[2,3],"drei"]');
    const offset = '9';
    for (const [sub, messages] of [[1, ['before', { n: 1 }]], [2, ['before', { n: 1 }, [2, 3]]], [3, ['before', { n: 1 }, [2, 3], 'drei']]] as const) {
      expect((await (await forked(s, { offset, sub })).read()).json()).toEqual(messages);
    }
    await s.append('["later"]');
    expect(await status(s, { offset, sub: 4 })).toBe(400);
    // From inside the batch only its rest counts.
    const inner = 9 + '{"n":1}\n'.length;
    expect((await (await forked(s, { offset: inner, sub: 2 })).read()).json()).toEqual(['before', { n: 1 }, [2, 3], 'drei']);
    expect(await status(s, { offset: inner, sub: 3 })).toBe(400);
  });

  it('FORK-04 FORK-06 a sub-offset on other types counts bytes of the append', async () => {
    for (const type of [TEXT, OCTETS]) {
      const s = await source(type, 'hello', 'world');
      expect((await (await forked(s, { offset: 0, sub: 3 })).read()).text).toBe('hel');
      expect((await (await forked(s, { offset: 5, sub: 2 })).read()).text).toBe('hellowo');
      expect((await (await forked(s, { offset: 2, sub: 3 })).read()).text).toBe('hello');
      expect(await status(s, { offset: 2, sub: 4 })).toBe(400);
    }
  });

  it('FORK-05 a sub-offset of 0 equals none', async () => {
    const s = await source(TEXT, 'hello');
    const { stream, answer } = await fork(s, { offset: 5 });
    expect(answer.status).toBe(201);
    expect((await stream.create({ headers: forkOf(s, { offset: 5, sub: 0 }) })).status).toBe(200);
    const zero = await forked(s, { offset: 5, sub: 0 });
    expect((await zero.create({ headers: forkOf(s, { offset: 5 }) })).status).toBe(200);
    expect((await zero.read()).text).toBe('hello');
  });

  it('FORK-06 a malformed sub-offset, or one past the next boundary, is refused', async () => {
    const s = await source(TEXT, 'hello', 'world');
    for (const sub of ['-1', 'abc', '1.5', '05', '+1', '00', '0x1', '1e0', ' ', '6', '9007199254740991', '9007199254740992', '99999999999999999999']) expect([sub, await status(s, { offset: 0, sub })]).toEqual([sub, 400]);
    expect(await status(s, { offset: 5, sub: '9007199254740991' })).toBe(400);
    expect(await status(s, { offset: 0, sub: 5 })).toBe(201);
    expect(await status(s, { sub: 1 })).toBe(400);
    expect(await status(s, { offset: 10, sub: 1 })).toBe(400);
    expect((await s.delete()).status).toBe(204);
  });

  it('FORK-07 the content type is inherited, and another one refused', async () => {
    for (const type of [JSON_TYPE, TEXT, OCTETS, 'text/plain; charset=utf-8', 'application/vnd.x+json']) {
      const s = await source(type, '"x"');
      const f = await forked(s);
      expect((await f.head()).header('content-type')).toBe((await s.head()).header('content-type'));
      expect((await f.append('"y"', { type })).status).toBe(204);
      expect(await status(s, {}, { type })).toBe(201);
      const { stream, answer } = await fork(s, {}, { type: 'text/other' });
      expect([answer.status, answer.code]).toEqual([409, 'CONTENT_TYPE_MISMATCH']);
      expect((await stream.head()).status).toBe(404);
    }
  });

  it('FORK-11 a missing source is 404 and nothing is created', async () => {
    const { stream, answer } = await fork(fresh(node, BASE));
    expect([answer.status, answer.code]).toEqual([404, 'STREAM_NOT_FOUND']);
    expect((await stream.head()).status).toBe(404);
    const itself = fresh(node, BASE);
    expect((await itself.create({ headers: forkOf(itself) })).status).toBe(404);
  });

  it('FORK-12 a fork offset past the tail is refused', async () => {
    const s = await source(TEXT, 'abc');
    for (const offset of ['4', '00000000000000000004', '9007199254740991', '18446744073709551615']) expect([offset, await status(s, { offset })]).toEqual([offset, 400]);
    expect(await status(s, { offset: 3 })).toBe(201);
  });

  it('FORK-13 FORK-40 a malformed fork offset or a sentinel is refused', async () => {
    const s = await source(TEXT, 'abc');
    for (const offset of ['x', '', ' ', '1.0', '+1', '-2', '1,2', '18446744073709551616', '0'.repeat(16) + '-' + '1'.padStart(16, '0'), '1'.padStart(16, '0') + '_' + '1'.padStart(16, '0'), '-1', 'now']) {
      expect([offset, await status(s, { offset })]).toEqual([offset, 400]);
    }
    // The form in which the reference server writes offsets.
    const f = await forked(s, { offset: `${'0'.repeat(16)}_${'2'.padStart(16, '0')}` });
    expect((await f.read()).text).toBe('ab');
  });

  it('FORK-15 a repeated PUT is 200 when all matches, else 409', async () => {
    const s = await source(TEXT, 'hello', 'world');
    const other = await source(TEXT, 'hello', 'world');
    const f = await forked(s, { offset: 5, sub: 2 });
    const again = (from: Stream | string, at: ForkAt, options = {}): Promise<number> => f.create({ headers: forkOf(from, at), ...options }).then((answer) => answer.status);
    expect(await again(s, { offset: 5, sub: 2 })).toBe(200);
    expect(await again(twin(s).path, { offset: '00000000000000000005', sub: 2 }, { type: TEXT })).toBe(200);
    expect(await again(s, { offset: 4, sub: 2 })).toBe(409);
    expect(await again(s, { offset: 5, sub: 1 })).toBe(409);
    expect(await again(s, { offset: 5 })).toBe(409);
    expect(await again(other, { offset: 5, sub: 2 })).toBe(409);
    expect(await again(s, { offset: 5, sub: 2 }, { type: OCTETS })).toBe(409);
    expect(await again(s, { offset: 5, sub: 2 }, { ttl: 60 })).toBe(409);
    expect((await f.put({ type: TEXT })).status).toBe(409);
    const plain = await source(TEXT, 'hellowo');
    expect((await plain.create({ headers: forkOf(s, { offset: 5, sub: 2 }) })).status).toBe(409);
    expect((await s.create({ headers: forkOf(s) })).status).toBe(409);
    // Nothing of that pinned anything more.
    await f.delete();
    expect((await s.delete()).status).toBe(204);
    expect((await s.head()).status).toBe(404);
  });

  it('FORK-16 a closed source can be forked, and the fork is open', async () => {
    const s = await source(TEXT, 'abc');
    await s.close();
    const f = await forked(s);
    const head = await f.head();
    expect([head.status, head.closed]).toEqual([200, false]);
    expect((await f.append('d', { type: TEXT })).status).toBe(204);
    expect((await f.read()).text).toBe('abcd');
    expect((await s.append('d')).status).toBe(409);
  });

  it('FORK-30 R074 a refused fork leaves no reference behind', async () => {
    const s = await source(JSON_TYPE, '["one","two"]');
    expect(await status(s, {}, { type: TEXT })).toBe(409);
    expect(await status(s, { offset: 3 })).toBe(400);
    expect(await status(s, { offset: 0, sub: 3 })).toBe(400);
    expect(await status(s, { offset: 99 })).toBe(400);
    expect(await status(s, {}, { body: '{not json' })).toBe(400);
    expect((await s.delete()).status).toBe(204);
    expect((await s.read()).status).toBe(404);
    expect((await s.create({ type: TEXT })).status).toBe(201);
  });

  it('FORK-31 the sub-offset appears in no answer', async () => {
    const s = await source(TEXT, 'hello');
    const { stream, answer } = await fork(s, { offset: 0, sub: 3 });
    for (const one of [answer, await stream.head(), await stream.read(), await stream.create({ headers: forkOf(s, { offset: 0, sub: 3 }) })]) {
      expect(one.names.filter((name) => name.includes('fork'))).toEqual([]);
    }
  });

  it('FORK-32 on JSON an offset inside a message is refused', async () => {
    const s = await source(JSON_TYPE, '["one","two"]');
    expect(await status(s, { offset: 3 })).toBe(400);
    expect(await status(s, { offset: 6 })).toBe(201);
  });

  it('FORK-33 fork offsets without a source are refused', async () => {
    for (const headers of [{ 'stream-fork-offset': '0' }, { 'stream-fork-sub-offset': '0' }, { 'stream-fork-offset': '0', 'stream-fork-sub-offset': '1' }] as Headers[]) {
      const s = fresh(node, BASE);
      expect((await s.create({ headers })).status).toBe(400);
      expect((await s.head()).status).toBe(404);
    }
  });

  it('FORK-34 a body of the PUT follows what is inherited', async () => {
    const s = await source(TEXT, 'hello');
    const { stream, answer } = await fork(s, { offset: 0, sub: 3 }, { body: 'XY' });
    expect([answer.status, Number(answer.next)]).toEqual([201, 5]);
    expect((await stream.read()).text).toBe('helXY');
    const json = await source(JSON_TYPE, '["a","b"]');
    expect((await (await forked(json, { offset: 0, sub: 1 }, { body: '[1,2]' })).read()).text).toBe('["a",1,2]');
    expect((await (await forked(json, {}, { body: '[]' })).read()).text).toBe('["a","b"]');
  });

  it('FORK-35 a repeated PUT without an offset is 200 after the source grew, and changes nothing', async () => {
    const s = await source(TEXT, 'abc');
    const f = await forked(s);
    await s.append('def');
    expect((await f.create({ headers: forkOf(s) })).status).toBe(200);
    expect((await f.create({ headers: forkOf(s, { offset: 3 }) })).status).toBe(200);
    expect((await f.create({ headers: forkOf(s, { offset: 6 }) })).status).toBe(409);
    expect((await f.read()).text).toBe('abc');
  });

  it('FORK-40 Stream-Closed on the PUT creates the fork closed', async () => {
    const s = await source(TEXT, 'abc');
    const f = await forked(s, {}, { closed: true, body: 'd' });
    const read = await f.read();
    expect([read.text, read.closed, read.upToDate]).toEqual(['abcd', true, true]);
    expect((await f.append('e', { type: TEXT })).status).toBe(409);
    expect((await f.create({ headers: forkOf(s), closed: true })).status).toBe(200);
    expect((await f.create({ headers: forkOf(s) })).status).toBe(409);
    expect((await s.head()).closed).toBe(false);
  });

  it('R143 a fork without a content type takes that of its source, and reads are one body', async () => {
    for (const [type, read] of [[JSON_TYPE, '["a","b"]'], [TEXT, '"a""b"'], [OCTETS, '"a""b"'], ['text/html; charset=utf-8', '"a""b"']] as const) {
      const f = await forked(await source(type, '"a"'));
      expect((await f.append('"b"', { type })).status).toBe(204);
      const answer = await f.read();
      expect([answer.header('content-type'), answer.text]).toEqual([type, read]);
    }
  });
});

describe.concurrent('lifetimes of forks', () => {
  const later = new Date(Date.now() + 7_200_000).toISOString().replace(/\.\d+Z$/, 'Z');
  const soon = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+Z$/, 'Z');
  const lifetime = async (s: Stream, options: object): Promise<(string | undefined)[]> => {
    const head = await (await forked(s, {}, options)).head();
    const at = head.header('stream-expires-at');
    return [head.header('stream-ttl'), at === undefined ? undefined : new Date(at).toISOString().replace(/\.\d+Z$/, 'Z')];
  };
  const made = async (options: object): Promise<Stream> => {
    const s = fresh(node, BASE);
    await s.create({ type: TEXT, body: 'abc', ...options });
    return s;
  };

  it('FORK-08 of a source without expiry', async () => {
    const s = await made({});
    expect(await lifetime(s, {})).toEqual([undefined, undefined]);
    expect(await lifetime(s, { ttl: 60 })).toEqual(['60', undefined]);
    expect(await lifetime(s, { expiresAt: soon })).toEqual([undefined, soon]);
  });

  it('FORK-09 of a source with a TTL', async () => {
    const s = await made({ ttl: 10 });
    expect(await lifetime(s, {})).toEqual(['10', undefined]);
    expect(await lifetime(s, { ttl: 99_999 })).toEqual(['99999', undefined]);
    expect(await lifetime(s, { expiresAt: later })).toEqual([undefined, later]);
    const f = await forked(s);
    expect((await f.create({ headers: forkOf(s) })).status).toBe(200);
    expect((await f.create({ headers: forkOf(s), ttl: 10 })).status).toBe(200);
    expect((await f.create({ headers: forkOf(s), ttl: 11 })).status).toBe(409);
  });

  it('FORK-09 R076 each is renewed by its own uses alone', async () => {
    const s = await made({ ttl: 2 });
    const [read, idle] = [await forked(s), await forked(s)];
    for (let i = 0; i < 4; i += 1) {
      await sleep(900);
      expect((await read.read()).text).toBe('abc');
    }
    expect((await idle.head()).status).toBe(404);
    expect((await s.head()).status).toBe(410);
    expect((await read.read()).text).toBe('abc');
  });

  it('FORK-10 of a source with an expiry instant', async () => {
    const s = await made({ expiresAt: soon });
    expect(await lifetime(s, {})).toEqual([undefined, soon]);
    expect(await lifetime(s, { ttl: 60 })).toEqual(['60', undefined]);
    expect(await lifetime(s, { expiresAt: later })).toEqual([undefined, later]);
  });
});

onBoth('surfaces', (on) => {
  it('FORK-36 forks are made on either surface, from either path of the source', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: 'abc' });
    for (const path of [s.path, twin(s).path]) {
      const f = fresh(node, on);
      expect((await f.create({ headers: forkOf(path) })).status).toBe(201);
      expect([(await f.read()).text, (await twin(f).read()).text]).toEqual(['abc', 'abc']);
      expect((await f.create({ headers: forkOf(twin(new Stream(node.http, path)).path) })).status).toBe(200);
    }
  });

  it('FORK-36 a source is named percent-encoded as in its URL', async () => {
    const id = uniqueId();
    const s = new Stream(node.http, on.path(`${id}-%C3%A9%20x`));
    expect((await s.create({ type: TEXT, body: 'abc' })).status).toBe(201);
    const f = beside(s);
    expect((await f.create({ headers: forkOf(s) })).status).toBe(201);
    expect((await f.read()).text).toBe('abc');
  });

  it('FORK-36 other forms of a source are refused', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: 'abc' });
    const forms = [`${node.url}${s.path}`, s.path.slice(1), `${s.path}?offset=0`, '/', '/v1/stream/', '/v1/stream/__ds/x', '/rows', '', `${twin(fresh(node, BASE)).path}/bootstrap`, '/rows/a%zz', '*', '/rows/%00'];
    for (const form of forms) {
      const f = fresh(node, on);
      expect([form, (await f.create({ headers: forkOf(form) })).status]).toEqual([form, 400]);
      expect((await f.head()).status).toBe(404);
    }
  });
});
