/** Section 2 of the requirements: PUT of a stream. */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { raw } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, TEXT } from '../support/stream.js';

const node = useNode();
const LIMIT = 33_554_432;

onBoth('create', (on) => {
  const stream = () => fresh(node, on);

  it('CRE-01 CRE-09 CRE-12 a new stream answers 201, is open, and shows its tail', async () => {
    const s = stream();
    const answer = await s.create({ type: TEXT });
    expect([answer.status, answer.closed]).toEqual([201, false]);
    const head = await s.head();
    expect(head.closed).toBe(false);
    expect(answer.next).toBe(head.next);
  });

  it('CRE-02 the same PUT again answers 200', async () => {
    for (const options of [{ type: TEXT }, { type: JSON_TYPE, ttl: 3600 }, { expiresAt: '2099-01-01T00:00:00Z' }, { type: TEXT, closed: true }, {}]) {
      const s = stream();
      expect((await s.create(options)).status).toBe(201);
      expect((await s.create(options)).status).toBe(200);
    }
  });

  it('CRE-03 another content type or lifetime answers 409 and changes nothing', async () => {
    const s = stream();
    await s.create({ type: TEXT, ttl: 3600 });
    for (const other of [{ type: JSON_TYPE, ttl: 3600 }, { type: TEXT, ttl: 60 }, { type: TEXT }, { type: TEXT, expiresAt: '2099-01-01T00:00:00Z' }, { ttl: 3600 }]) {
      const answer = await s.put(other);
      expect([answer.status, answer.code]).toEqual([409, 'STREAM_ALREADY_EXISTS_CONFLICT']);
    }
    const head = await s.head();
    expect([head.header('content-type'), head.header('stream-ttl'), head.header('stream-expires-at')]).toEqual([TEXT, '3600', undefined]);
    const t = stream();
    await t.create({ expiresAt: '2099-01-01T00:00:00Z' });
    expect((await t.put({ expiresAt: '2099-01-02T00:00:00Z' })).status).toBe(409);
    expect((await t.put({})).status).toBe(409);
    const u = stream();
    await u.create({});
    expect((await u.put({ ttl: 5 })).status).toBe(409);
  });

  it('CRE-04 closure is part of the comparison', async () => {
    const closed = stream();
    await closed.create({ type: TEXT, closed: true });
    expect((await closed.put({ type: TEXT })).status).toBe(409);
    expect((await closed.put({ type: TEXT, closed: true })).status).toBe(200);
    const open = stream();
    await open.create({ type: TEXT });
    expect((await open.put({ type: TEXT, closed: true })).status).toBe(409);
    expect((await open.head()).closed).toBe(false);
    await open.close();
    expect((await open.put({ type: TEXT, closed: true })).status).toBe(200);
  });

  it('CRE-05 without a content type the stream holds octets', async () => {
    const s = stream();
    await s.create();
    expect((await s.head()).header('content-type')).toBe(OCTETS);
    expect((await s.append('x', { type: OCTETS })).status).toBe(204);
  });

  it('CRE-06 a request body becomes the first content', async () => {
    const s = stream();
    expect((await s.create({ type: TEXT, body: 'abc' })).status).toBe(201);
    expect((await s.read()).text).toBe('abc');
    const j = stream();
    await j.create({ type: JSON_TYPE, body: '[{"a":1},{"b":2}]' });
    expect((await j.read()).text).toBe(on.jsonRead('{"a":1}', '{"b":2}'));
  });

  it('CRE-07 the body is optional', async () => {
    const s = stream();
    await s.create({ type: TEXT });
    const read = await s.read();
    expect([read.status, read.text, read.upToDate]).toEqual([200, '', true]);
    const j = stream();
    await j.create({ type: JSON_TYPE });
    expect((await j.read()).text).toBe(on.jsonRead());
  });

  it('CRE-08 CRE-13 Stream-Closed: true creates the stream closed with its whole content', async () => {
    for (const body of [null, 'whole']) {
      const s = stream();
      const created = await s.create({ type: TEXT, body, closed: true });
      expect([created.status, created.closed]).toEqual([201, true]);
      const again = await s.create({ type: TEXT, closed: true });
      expect([again.status, again.closed]).toEqual([200, true]);
      const refused = await s.append('more');
      expect([refused.status, refused.closed]).toEqual([409, true]);
      expect((await s.read()).text).toBe(body ?? '');
    }
  });

  it('CRE-10 CRE-11 201 names the stream and its type', async () => {
    const s = stream();
    const created = await s.create({ type: JSON_TYPE });
    expect(created.need('location').endsWith(s.path)).toBe(true);
    expect(created.header('content-type')).toBe(JSON_TYPE);
    const again = await s.create({ type: JSON_TYPE });
    expect(again.header('content-type')).toBe(JSON_TYPE);
    expect(again.next).toBe(await s.tail());
  });

  it('CRE-14 TTL and expiry time together answer 400', async () => {
    const s = stream();
    const answer = await s.create({ ttl: 60, expiresAt: '2099-01-01T00:00:00Z' });
    expect([answer.status, (await s.head()).status]).toEqual([400, 404]);
  });

  it('CRE-15 invalid headers answer 400 and create nothing', async () => {
    const bad: Record<string, string>[] = [{ 'stream-ttl': '03600' }, { 'content-type': 'json' }, { 'content-type': '/' }, { 'stream-expires-at': 'soon' }, { 'content-type': 'text/' }];
    for (const headers of bad) {
      const s = stream();
      const answer = await s.create({ headers });
      expect([headers, answer.status, answer.code]).toEqual([headers, 400, 'INVALID_HEADER']);
      expect((await s.head()).status).toBe(404);
    }
  });

  it('CRE-16 a JSON body [] gives an empty stream', async () => {
    const s = stream();
    expect((await s.create({ type: JSON_TYPE, body: '[]' })).status).toBe(201);
    expect((await s.read()).text).toBe(on.jsonRead());
    expect(await s.tail()).toBe('0'.repeat(20));
  });

  it('CRE-17 a bad JSON body answers 400 and creates nothing', async () => {
    for (const body of ['{"a":', '{"a":1}{', '[1,2', 'x', ' ']) {
      const s = stream();
      const answer = await s.create({ type: JSON_TYPE, body });
      expect([body, answer.status, answer.code]).toEqual([body, 400, 'INVALID_RECORD_BOUNDARIES']);
      expect((await s.head()).status).toBe(404);
    }
  });

  it('CRE-18 another value of Stream-Closed counts as absent', async () => {
    for (const closed of ['false', '1', 'yes', '', 'truee', 'true, true']) {
      const s = stream();
      const answer = await s.create({ type: TEXT, closed });
      expect([closed, answer.status, answer.closed, (await s.head()).closed]).toEqual([closed, 201, false, false]);
    }
    for (const closed of ['TRUE', 'True']) {
      const s = stream();
      expect([closed, (await s.create({ closed })).closed]).toEqual([closed, true]);
    }
  });

  it('CRE-19 a body over the limit answers 413 naming the limit, and creates nothing', async () => {
    const s = stream();
    const declared = await raw(node.url, [`PUT ${s.path} HTTP/1.1`, `Content-Length: ${LIMIT + 1}`]);
    expect([declared.status, declared.headers['ursula-max-request-bytes']]).toEqual([413, String(LIMIT)]);
    expect((await s.head()).status).toBe(404);
  });

  it('CRE-20 a deleted stream can be created again as a new incarnation', async () => {
    const s = stream();
    const first = await s.create({ type: TEXT, body: 'old' });
    await s.delete();
    const second = await s.create({ type: OCTETS });
    expect(second.status).toBe(201);
    expect(second.incarnation).not.toBe(first.incarnation);
    expect((await s.read()).text).toBe('');
  });

  it('CRE-21 the body of a repeated PUT is never appended, but JSON is validated', async () => {
    const s = stream();
    expect((await s.create({ type: TEXT, body: 'abc' })).status).toBe(201);
    expect((await s.create({ type: TEXT, body: 'abc' })).status).toBe(200);
    const other = await s.create({ type: TEXT, body: 'other' });
    expect([other.status, other.next]).toEqual([200, await s.tail()]);
    expect((await s.read()).text).toBe('abc');
    const j = stream();
    await j.create({ type: JSON_TYPE });
    expect((await j.put({ type: JSON_TYPE, body: '{"a":' })).status).toBe(400);
    expect((await j.put({ type: JSON_TYPE, body: '{"a":1}' })).status).toBe(200);
    expect((await j.read()).text).toBe(on.jsonRead());
  });

  it('CRE-22 content types compare without case and parameters; HEAD repeats the value of the creator', async () => {
    const s = stream();
    await s.create({ type: 'Text/Plain; charset=utf-8' });
    for (const same of ['text/plain', 'TEXT/PLAIN', 'text/plain;charset=latin1', 'text/plain; a="b"']) expect([same, (await s.put({ type: same })).status]).toEqual([same, 200]);
    expect((await s.append('x', { type: 'text/plain; charset=utf-8' })).status).toBe(204);
    expect((await s.head()).header('content-type')).toBe('Text/Plain; charset=utf-8');
    expect((await s.append('x', { type: 'text/html' })).status).toBe(409);
  });

  it('CRE-23 producer headers and Stream-Seq on PUT', async () => {
    const s = stream();
    const keyed = await s.create({ type: TEXT, headers: { 'producer-id': 'p', 'producer-epoch': '0', 'producer-seq': '0' } });
    if (on.name === 'bucketed') {
      expect([keyed.status, keyed.code]).toEqual([400, 'INVALID_PRODUCER']);
      for (const name of ['producer-id', 'producer-epoch', 'producer-seq', 'producer-digest']) {
        expect([name, (await stream().create({ headers: { [name]: '1' } })).status]).toEqual([name, 400]);
      }
    } else {
      expect(keyed.status).toBe(201);
    }
    const t = stream();
    await t.create({ type: TEXT, headers: { 'stream-seq': '5' } });
    const behind = await t.append('x', { seq: '1' });
    expect(behind.status).toBe(on.name === 'bucketed' ? 409 : 204);
  });
});
