/** Section 7 of the requirements: plain reads. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, TEXT, twin } from '../support/stream.js';
import type { Stream, Surface } from '../support/stream.js';

const node = useNode();

/** An offset beyond any tail of a short stream: the tail of a longer one. */
async function beyond(on: Surface): Promise<string> {
  const longer = fresh(node, on);
  await longer.create({ type: OCTETS, body: Buffer.alloc(5_000, 'x') });
  return longer.tail();
}

async function retained(on: Surface): Promise<{ stream: Stream; boundary: string; below: string }> {
  const stream = fresh(node, on);
  const { next: below } = await stream.create({ type: OCTETS, body: 'abc' });
  const { next: boundary } = await stream.append('def');
  await stream.append('ghi');
  const bucketed = on.name === 'bucketed' ? stream : twin(stream);
  await bucketed.publish(boundary, 'snap');
  expect((await bucketed.retain(boundary)).status).toBe(204);
  return { stream, boundary, below };
}

onBoth('catch-up read', (on) => {
  const stream = () => fresh(node, on);

  it('READ-01 READ-08 a read answers the bytes from its offset; chained reads rebuild the stream', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const { next } = await s.append('first');
    await s.append('second');
    const read = await s.read({ offset: next });
    expect([read.status, read.text]).toEqual([200, 'second']);
    expect((await s.all('-1', { max_bytes: 4 })).toString()).toBe('firstsecond');
  });

  it('READ-02 no offset means the start, as -1 does', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc' });
    const [one, two] = [await s.read(''), await s.read({ offset: '-1' })];
    expect([one.status, one.text, one.next, one.header('etag')]).toEqual([two.status, two.text, two.next, two.header('etag')]);
    expect(one.text).toBe('abc');
  });

  it('READ-03 READ-04 READ-13 at the tail: 200, empty, the same offset; closed is said only when it is so', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc' });
    const tail = await s.tail();
    const open = await s.read({ offset: tail });
    expect([open.status, open.text, open.next, open.upToDate, open.closed]).toEqual([200, '', tail, true, false]);
    await s.close();
    const closed = await s.read({ offset: tail });
    expect([closed.status, closed.text, closed.next, closed.upToDate, closed.closed]).toEqual([200, '', tail, true, true]);
  });

  it('READ-05 a malformed offset answers 400', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc' });
    for (const offset of ['0,1', '0%201', 'a%2Fb', 'x', '-2', '0x5', '1e3', '1.0', 'NOW', 'Now', '%FF', '-1 ', '--1', '%00'].map((text) => text.replaceAll(' ', '%20'))) {
      const answer = await s.read(`?offset=${offset}`);
      expect([offset, answer.status]).toEqual([offset, 400]);
      expect(answer.code).toMatch(/^INVALID_(OFFSET|QUERY|REQUEST)$/);
    }
  });

  it('READ-06 a missing stream answers 404', async () => {
    const answer = await stream().read();
    expect([answer.status, answer.code]).toEqual([404, 'STREAM_NOT_FOUND']);
  });

  it('READ-07 READ-19 RET-09 RET-10 below the retained offset every read answers 410', async () => {
    const { stream: s, boundary, below } = await retained(on);
    for (const query of [{ offset: below }, { offset: '-1' }, '', { offset: below, live: 'long-poll' }, { offset: '-1', live: 'sse' }, { offset: '-1', live: 'long-poll' }]) {
      const answer = await s.read(query);
      expect([query, answer.status, answer.code, answer.next]).toEqual([query, 410, 'STREAM_GONE', boundary]);
      expect(answer.need('stream-incarnation')).toBe(await s.token());
    }
    expect((await s.read({ offset: boundary })).text).toBe('ghi');
  });

  it('READ-09 READ-11 an answer that reaches the tail says so', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc' });
    expect((await s.read()).upToDate).toBe(true);
    await s.close();
    const read = await s.read();
    expect([read.upToDate, read.closed]).toEqual([true, true]);
  });

  it('READ-10 READ-12 a shortened answer says neither up to date nor closed', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: '0123456789', closed: true });
    const read = await s.read({ offset: '-1', max_bytes: 1 });
    expect([read.text, read.upToDate, read.closed]).toEqual(['0', false, false]);
  });

  it('READ-14 READ-18 text and binary carry their type and may stop anywhere', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'é!' });
    const first = await s.read({ offset: '-1', max_bytes: 1 });
    expect([first.header('content-type'), first.body.length]).toEqual([TEXT, 1]);
    const rest = await s.read({ offset: first.next });
    expect(Buffer.concat([first.body, rest.body]).toString()).toBe('é!');
  });

  it('READ-15 READ-16 the representation of JSON', async () => {
    const s = stream();
    await s.create({ type: JSON_TYPE });
    await s.append('{"a":1}');
    await s.append('{"b":2}');
    const read = await s.read();
    expect([read.header('content-type'), read.text]).toEqual([on.jsonReadType, on.jsonRead('{"a":1}', '{"b":2}')]);
    const end = await s.read({ offset: read.next });
    expect([end.header('content-type'), end.text]).toEqual([on.jsonReadType, on.jsonRead()]);
    expect(Number(read.header('content-length') ?? read.body.length)).toBe(read.body.length);
  });

  it('READ-17 a plain read never returns snapshot bytes', async () => {
    const s = stream();
    const { next } = await s.create({ type: OCTETS, body: 'stream' });
    await (on.name === 'bucketed' ? s : twin(s)).publish(next, 'SNAPSHOT');
    expect((await s.read()).text).toBe('stream');
  });

  it('READ-20 R015 an offset beyond the tail answers 416 in every mode', async () => {
    const s = stream();
    await s.create({ type: OCTETS, body: 'abc' });
    const offset = await beyond(on);
    for (let life = 0; life < 2; life += 1) {
      for (const live of [undefined, 'long-poll', 'sse']) {
        const answer = await s.read({ offset, live });
        expect([live, answer.status, answer.code, answer.next]).toEqual([live, 416, 'OFFSET_OUT_OF_RANGE', await s.tail()]);
        expect(answer.incarnation).toBe(await s.token());
      }
      await s.delete();
      await s.create({ type: OCTETS, body: 'xy' });
    }
  });

  it('READ-21 READ-22 empty or repeated offset and live answer 400', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc' });
    for (const query of ['offset=', 'offset=0&offset=1', 'offset=-1&offset=-1', 'offset=-1&live=foo', 'offset=-1&live=', 'offset=-1&live=sse&live=sse', 'offset=-1&live=SSE', 'offset=-1&live=true', 'offset']) {
      const answer = await s.read(query);
      expect([query, answer.status]).toEqual([query, 400]);
      expect(answer.code).toMatch(/^INVALID_(OFFSET|QUERY)$/);
    }
  });

  it('READ-24 unknown query parameters are ignored', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc' });
    for (const query of ['offset=-1&foo=bar', 'foo', 'offset=-1&foo=1&foo=2', 'offset=-1&', 'offset=-1&%zz=1', 'offset=-1&record=1']) {
      const answer = await s.read(query);
      expect([query, answer.status, answer.text]).toEqual([query, 200, 'abc']);
    }
  });
});

describe('catch-up read across the surfaces', () => {
  it('READ-23 an offset inside a JSON message: the rest of the line on one surface, 400 on the other', async () => {
    const s = fresh(node);
    await s.create({ type: JSON_TYPE, body: '[{"a":1},{"b":2}]' });
    const { next } = await s.read({ offset: '-1', max_bytes: 3 });
    expect((await s.read({ offset: next })).text).toBe('":1}\n{"b":2}\n');
    for (const live of [undefined, 'long-poll', 'sse']) {
      const answer = await twin(s).read({ offset: next, live });
      expect([live, answer.status]).toEqual([live, 400]);
    }
  });
});
