/** Section 3 of the requirements: POST of a body. */
import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { raw } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, TEXT, twin } from '../support/stream.js';

const node = useNode();
const LIMIT = 33_554_432;

onBoth('append', (on) => {
  const stream = () => fresh(node, on);

  it('APP-01 APP-02 an append answers 204 with the new tail', async () => {
    const s = stream();
    const created = await s.create({ type: TEXT });
    const one = await s.append('abc');
    const two = await s.append('de');
    expect([one.status, two.status, one.body.length]).toEqual([204, 204, 0]);
    expect(one.next > created.next).toBe(true);
    expect(two.next > one.next).toBe(true);
    expect(await s.tail()).toBe(two.next);
    expect((await s.read()).text).toBe('abcde');
  });

  it('APP-03 a missing stream answers 404, nothing is created', async () => {
    const s = stream();
    const answer = await s.append('x', { type: TEXT });
    expect([answer.status, answer.code]).toEqual([404, 'STREAM_NOT_FOUND']);
    expect((await s.head()).status).toBe(404);
  });

  it('APP-04 an empty body answers 400', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    const empty = await s.append('');
    expect([empty.status, empty.code]).toEqual([400, 'EMPTY_APPEND']);
    const chunked = await raw(node.url, [`POST ${s.path} HTTP/1.1`, 'Content-Type: text/plain', 'Transfer-Encoding: chunked'], '0\r\n\r\n');
    expect(chunked.status).toBe(400);
    expect((await s.append('', { close: 'false' })).status).toBe(400);
  });

  it('APP-05 another content type answers 409', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    const before = await s.tail();
    const answer = await s.append('{}', { type: JSON_TYPE });
    expect([answer.status, answer.code]).toEqual([409, 'CONTENT_TYPE_MISMATCH']);
    expect(await s.tail()).toBe(before);
  });

  it('APP-06 a body without a content type answers 400', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    const answer = await s.append('x', { type: null });
    expect([answer.status, answer.code]).toEqual([400, 'MISSING_CONTENT_TYPE']);
  });

  it('APP-07 a malformed content type answers 400', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    for (const type of ['///', 'text', 'text/', '/plain', 'text/pl ain', 'text/plain;', 'te xt/plain', 'text/plain/x']) {
      const answer = await s.append('x', { type });
      if (type === 'text/plain;') expect([204, 400]).toContain(answer.status);
      else expect([type, answer.status, answer.code]).toEqual([type, 400, 'INVALID_HEADER']);
    }
  });

  it('APP-08 an append to a closed stream answers 409 with the final offset', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc' });
    await s.close();
    const answer = await s.append('x');
    expect([answer.status, answer.code, answer.closed, answer.next]).toEqual([409, 'STREAM_CLOSED', true, await s.tail()]);
  });

  it('APP-09 of several conflicts closed comes first, then the content type, then the sequence', async () => {
    const closed = stream();
    await closed.create({ type: TEXT, closed: true });
    const one = await closed.append('{}', { type: JSON_TYPE });
    expect([one.status, one.code, one.closed]).toEqual([409, 'STREAM_CLOSED', true]);
    const open = stream();
    await open.create({ type: TEXT });
    await open.append('x', { seq: '5' });
    const two = await open.append('{}', { type: JSON_TYPE, seq: '1' });
    expect([two.status, two.code]).toEqual([409, 'CONTENT_TYPE_MISMATCH']);
  });

  it('APP-10 a body over the limit answers 413 with the limit', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const declared = await raw(node.url, [`POST ${s.path} HTTP/1.1`, `Content-Type: ${OCTETS}`, `Content-Length: ${LIMIT + 1}`]);
    expect([declared.status, declared.headers['ursula-max-request-bytes']]).toEqual([413, String(LIMIT)]);
    expect(declared.headers['ursula-max-snapshot-bytes']).toBeUndefined();
    expect(await s.tail()).toBe('0'.repeat(20));
  });

  it('APP-11 a chunked body is accepted', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const pieces = ['ab', 'c', 'defgh'];
    expect((await s.append(Readable.from(pieces.map((piece) => Buffer.from(piece))))).status).toBe(204);
    expect((await s.read()).text).toBe('abcdefgh');
  });

  it('APP-13 bytes at an offset never change', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const { next } = await s.append('first');
    const before = await s.read();
    await s.append('second');
    const after = await s.read({ offset: '-1', max_bytes: 5 });
    expect(after.body.equals(before.body)).toBe(true);
    expect(after.next).toBe(next);
  });

  it('APP-14 a JSON array is flattened exactly one level', async () => {
    for (const [body, ...messages] of [
      ['[{"a":1},{"b":2}]', '{"a":1}', '{"b":2}'],
      ['[[1,2],[3,4]]', '[1,2]', '[3,4]'],
      ['[[[1,2,3]]]', '[[1,2,3]]'],
      ['[[]]', '[]'],
      ['[{}]', '{}'],
    ] as const) {
      const s = stream();
      await s.create({ type: JSON_TYPE });
      expect([body, (await s.append(body)).status]).toEqual([body, 204]);
      expect((await s.read()).text).toBe(on.jsonRead(...messages));
    }
  });

  it('APP-15 a JSON body [] answers 400', async () => {
    const s = stream();
    await s.create({ type: JSON_TYPE });
    for (const body of ['[]', ' [ ] ', '[\n]']) {
      const answer = await s.append(body);
      expect([body, answer.status, answer.code]).toEqual([body, 400, 'EMPTY_APPEND']);
    }
    expect(await s.tail()).toBe('0'.repeat(20));
  });

  it('APP-16 a JSON batch commits whole or not at all', async () => {
    const s = stream();
    await s.create({ type: JSON_TYPE });
    for (const body of ['[{"a":1},{bad]', '[{"a":1},]', '[1,2,3', '[1] [2]']) expect((await s.append(body)).status).toBe(400);
    expect((await s.read()).text).toBe(on.jsonRead());
  });

  it('APP-17 parallel appends are each stored once, unbroken, in one order', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const bodies = Array.from({ length: 50 }, (_, i) => `<${String(i).padStart(2, '0')}${'.'.repeat(i * 7)}>`);
    const answers = await Promise.all(bodies.map((body) => s.append(body)));
    expect(new Set(answers.map((answer) => answer.next)).size).toBe(50);
    const found = (await s.read()).text.match(/<[^>]*>/g) ?? [];
    expect([...found].sort()).toEqual([...bodies].sort());
    expect((await s.read()).text.length).toBe(bodies.join('').length);
    const inOrder = answers.map((answer, i) => ({ next: answer.next, body: bodies[i] })).sort((a, b) => (a.next < b.next ? -1 : 1));
    expect(inOrder.map((one) => one.body)).toEqual([...found]);
  });

  it('APP-19 CLO-04 the closed answer comes before faults of the body', async () => {
    const s = stream();
    await s.create({ type: JSON_TYPE, closed: true });
    const answer = await s.append('{bad');
    expect([answer.status, answer.code, answer.closed]).toEqual([409, 'STREAM_CLOSED', true]);
    const missing = stream();
    expect((await missing.append('{bad', { type: JSON_TYPE })).status).toBe(404);
  });

  it('what one surface writes the other reads', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    await s.append('one ');
    await twin(s).append('two', { type: TEXT });
    expect((await s.read()).text).toBe('one two');
    expect((await twin(s).read()).text).toBe('one two');
    expect(await twin(s).tail()).toBe(await s.tail());
  });
});

onBoth('the limit of a body', (on) => it('APP-18 a body of exactly the limit is accepted, one byte more is not, chunked bodies included', { timeout: 60_000 }, async () => {
  const s = fresh(node, on);
  await s.create({ type: OCTETS });
  const body = Buffer.alloc(LIMIT, 'x');
  const fits = await s.append(body);
  expect([fits.status, Number(fits.next)]).toEqual([204, LIMIT]);
  const chunked = await s
    .append(Readable.from([body, Buffer.from('y')]))
    .then((answer) => answer.status)
    .catch(() => 'cut');
  expect([413, 'cut']).toContain(chunked);
  expect(Number(await s.tail())).toBe(LIMIT);
}));
