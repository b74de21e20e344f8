/** Section 24 of the requirements: chunks and snapshots that a cache can keep. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { raw } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, TEXT } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

const node = useNode();
const pad = (offset: number): string => String(offset).padStart(20, '0');
const GRID = 4_194_304;
const FOREVER = 'public, max-age=31536000, immutable';

const stream = async (type = OCTETS, body: string | Buffer = 'abcdef') => {
  const s = fresh(node);
  const { incarnation } = await s.create({ type, body });
  return { s, inc: incarnation };
};
const chunk = (s: Stream, inc: string, offset: number | string, headers = {}) => s.sub('GET', `incarnation/${inc}/chunk/${typeof offset === 'number' ? pad(offset) : offset}`, headers);

describe('chunks', () => {
  it('CINC-01 CINC-03 CINC-07 a chunk at an open tail: its headers, not marked, not stored', async () => {
    const { s, inc } = await stream();
    const answer = await chunk(s, inc, 2);
    expect([answer.status, answer.text, answer.incarnation, answer.header('stream-offset'), answer.next]).toEqual([200, 'cdef', inc, pad(2), pad(6)]);
    expect([answer.header('cache-control'), answer.header('stream-immutable'), answer.closed, answer.header('content-type')]).toEqual(['no-store', undefined, false, OCTETS]);
    expect(answer.need('etag')).toMatch(/^"[^"]+"$/);
    expect(answer.names).not.toContain('stream-up-to-date');
    expect(answer.names).not.toContain('stream-cursor');
    expect((await chunk(s, inc, 6)).body.length).toBe(0);
  });

  it('CINC-06 CINC-08 full chunks below the tail are immutable and join to the stream', { timeout: 60_000 }, async () => {
    const body = Buffer.alloc(2 * GRID + 1_000, 'grid of chunks ');
    const { s, inc } = await stream(OCTETS, body);
    const pieces: Buffer[] = [];
    let at = 0;
    while (at < body.length) {
      const answer = await chunk(s, inc, at);
      expect(answer.body.length).toBe(Number(answer.next) - at);
      const marked = Number(answer.next) < body.length;
      expect([answer.header('stream-immutable'), answer.header('cache-control')]).toEqual(marked ? ['true', FOREVER] : [undefined, 'no-store']);
      if (marked) expect(Number(answer.next) % GRID).toBe(0);
      pieces.push(answer.body);
      at = Number(answer.next);
    }
    expect(Buffer.concat(pieces).equals(body)).toBe(true);
    const before = await chunk(s, inc, 100);
    expect(before.body.length).toBe(GRID - 100);
    await s.append('more');
    const after = await chunk(s, inc, 100);
    expect([after.body.equals(before.body), after.header('etag')]).toEqual([true, before.header('etag')]);
    const head = await s.sub('HEAD', `incarnation/${inc}/chunk/${pad(0)}`);
    expect([head.status, head.body.length, head.header('stream-immutable')]).toEqual([200, 0, 'true']);
  });

  it('CINC-06 CINC-07 the chunk at a closed tail is marked, and says that it is closed', async () => {
    const { s, inc } = await stream();
    await s.close();
    const answer = await chunk(s, inc, 2);
    expect([answer.text, answer.closed, answer.header('stream-immutable'), answer.header('cache-control')]).toEqual(['cdef', true, 'true', FOREVER]);
    const same = await chunk(s, inc, 2, { 'if-none-match': answer.need('etag') });
    expect([same.status, same.body.length, same.closed, same.header('stream-immutable'), same.header('stream-offset'), same.next]).toEqual([304, 0, true, 'true', pad(2), pad(6)]);
  });

  it('CINC-08 JSON chunks are NDJSON and may end anywhere', async () => {
    const { s, inc } = await stream(JSON_TYPE, '[{"a":1},2]');
    const answer = await chunk(s, inc, 3, { 'accept-encoding': 'gzip' });
    expect([answer.header('content-type'), answer.text, answer.header('content-encoding')]).toEqual(['application/x-ndjson', '":1}\n2\n', undefined]);
  });

  it('CINC-04 another well-formed token answers 412 with the current one', async () => {
    const { s, inc } = await stream();
    await s.delete();
    const { incarnation } = await s.create({ type: OCTETS, body: 'new' });
    const answer = await chunk(s, inc, 0);
    expect([answer.status, answer.code, answer.incarnation, answer.header('cache-control')]).toEqual([412, 'INCARNATION_MISMATCH', incarnation, 'no-store']);
    expect((await chunk(fresh(node), inc, 0)).code).toBe('STREAM_NOT_FOUND');
    expect((await chunk(s, inc, 900)).status).toBe(416);
    expect((await s.sub('GET', `incarnation/${inc}/snapshot/${pad(0)}`)).status).toBeGreaterThanOrEqual(404);
  });

  it('CINC-05 one resource has one URL', async () => {
    const { s, inc } = await stream();
    for (const [token, offset] of [['x', pad(0)], ['0', pad(0)], [`0${inc}`, pad(0)], ['9007199254740992', pad(0)], [inc, '5'], [inc, '-1'], [inc, 'now'], [inc, pad(0) + '0'], [inc, '+0000000000000000005'], [inc, '99999999999999999999']] as const) {
      const answer = await chunk(s, token, offset);
      expect([token, offset, answer.status, answer.code, answer.header('cache-control')]).toEqual([token, offset, 400, 'INVALID_RESOURCE', 'no-store']);
    }
    for (const query of ['?a=1', '?', '?offset=0']) {
      const answer = await raw(node.url, `GET ${s.path}/incarnation/${inc}/chunk/${pad(0)}${query} HTTP/1.1`);
      expect([query, answer.status, (JSON.parse(answer.body.toString()) as { error: { code: string } }).error.code]).toEqual([query, 400, 'QUERY_NOT_ACCEPTED']);
    }
  });

  it('CINC-09 other states answer as the plain routes do, and the header has no effect', async () => {
    const { s, inc } = await stream();
    await s.publish(pad(4), 'snap');
    await s.retain(pad(4));
    const gone = await chunk(s, inc, 2);
    expect([gone.status, gone.header('cache-control'), gone.header('stream-immutable')]).toEqual([410, 'no-store', undefined]);
    const beyond = await chunk(s, inc, 7);
    expect([beyond.status, beyond.header('cache-control')]).toEqual([416, 'no-store']);
    expect((await s.sub('GET', `incarnation/${inc}/snapshot/${pad(5)}`)).status).toBe(404);
    const wrong = await chunk(s, inc, 4, { 'stream-incarnation': '4503599627370497' });
    expect([wrong.status, wrong.text]).toEqual([200, 'ef']);
  });
});

describe('snapshots of an incarnation', () => {
  it('CINC-02 CINC-07 CINC-10 the snapshot with its headers, immutable, in ranges', async () => {
    const { s, inc } = await stream();
    const digest = (await s.publish(pad(4), 'the snapshot', TEXT)).need('stream-snapshot-digest');
    const path = `incarnation/${inc}/snapshot/${pad(4)}`;
    const answer = await s.sub('GET', path);
    expect([answer.status, answer.text, answer.header('content-type'), answer.header('stream-snapshot-digest'), answer.incarnation]).toEqual([200, 'the snapshot', TEXT, digest, inc]);
    expect([answer.header('etag'), answer.next, answer.header('stream-snapshot-offset'), answer.header('accept-ranges')]).toEqual([`"${digest}"`, pad(4), pad(4), 'bytes']);
    expect(answer.names).not.toContain('stream-up-to-date');
    expect([answer.header('stream-immutable'), answer.header('cache-control')]).toEqual(['true', FOREVER]);
    const part = await s.sub('GET', path, { range: 'bytes=4-7' });
    expect([part.status, part.text, part.header('stream-immutable')]).toEqual([206, 'snap', 'true']);
    const same = await s.sub('GET', path, { 'if-none-match': `"${digest}"` });
    expect([same.status, same.header('stream-immutable')]).toEqual([304, 'true']);
  });
});
