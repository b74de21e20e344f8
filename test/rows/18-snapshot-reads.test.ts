/** Section 18 of the requirements: reading snapshots, small and large. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, OCTETS, TEXT } from '../support/stream.js';

const node = useNode();

for (const [size, body] of [
  ['small', Buffer.from('0123456789')],
  ['large', Buffer.alloc(2 * 1024 * 1024 + 5, '0123456789')],
] as const) {
  describe(`read of a ${size} snapshot`, () => {
    const published = async () => {
      const s = fresh(node);
      await s.create({ type: OCTETS, body: 'abcdef' });
      const answer = await s.publish('6', body, TEXT);
      expect(answer.status).toBe(204);
      return { s, digest: answer.need('stream-snapshot-digest'), path: `snapshot/${'6'.padStart(20, '0')}` };
    };

    it('SNAP-24 SNAP-25 SNAP-29 the exact bytes with all headers; reading goes on where it ends', async () => {
      const { s, digest, path } = await published();
      const read = await s.sub('GET', path);
      expect([read.status, read.body.equals(body), read.header('content-type'), read.header('stream-snapshot-digest')]).toEqual([200, true, TEXT, digest]);
      expect([read.header('stream-snapshot-offset'), read.next, read.header('content-length')]).toEqual(['6'.padStart(20, '0'), '6'.padStart(20, '0'), String(body.length)]);
      await s.append('update');
      expect((await s.read({ offset: read.next })).text).toBe('update');
    });

    it('SNAP-26 up to date only while the snapshot is at the tail', async () => {
      const { s, path } = await published();
      expect((await s.sub('GET', path)).upToDate).toBe(true);
      await s.append('more');
      expect((await s.sub('GET', path)).upToDate).toBe(false);
    });

    it('SNAP-34 caching and ranges', async () => {
      const { s, digest, path } = await published();
      const read = await s.sub('GET', path);
      expect([read.header('cache-control'), read.header('etag'), read.header('accept-ranges')]).toEqual(['no-store', `"${digest}"`, 'bytes']);
      const same = await s.sub('GET', path, { 'if-none-match': `"${digest}"`, range: 'bytes=0-3' });
      expect([same.status, same.body.length]).toEqual([304, 0]);
      const last = body.length - 1;
      for (const [range, from, to] of [
        ['bytes=0-3', 0, 3],
        ['bytes=-2', last - 1, last],
        ['bytes=4-', 4, last],
        [`bytes=0-${last + 100}`, 0, last],
        [`bytes=${last}-${last}`, last, last],
        ['bytes=0-0', 0, 0],
      ] as const) {
        const part = await s.sub('GET', path, { range });
        expect([range, part.status, part.header('content-range')]).toEqual([range, 206, `bytes ${from}-${to}/${body.length}`]);
        expect(part.body.equals(body.subarray(from, to + 1))).toBe(true);
      }
      const outside = await s.sub('GET', path, { range: `bytes=${body.length}-` });
      expect([outside.status, outside.code, outside.header('content-range')]).toEqual([416, 'RANGE_NOT_SATISFIABLE', `bytes */${body.length}`]);
      for (const headers of [{ range: 'bytes=0-1,4-5' }, { range: 'lines=0-1' }, { range: 'bytes=0-3', 'if-range': `"${digest}"` }] as Record<string, string>[]) {
        const whole = await s.sub('GET', path, headers);
        expect([headers, whole.status, whole.body.length]).toEqual([headers, 200, body.length]);
      }
      const old = { 'stream-incarnation': '4503599627370497' };
      expect((await s.sub('GET', path, { range: `bytes=${body.length}-`, ...old })).status).toBe(416);
      expect((await s.sub('GET', path, { 'if-none-match': `"${digest}"`, ...old })).status).toBe(412);
    });

    it('PATH-06 HEAD of a snapshot is its GET without the body', async () => {
      const { s, digest, path } = await published();
      const head = await s.sub('HEAD', path);
      expect([head.status, head.body.length, head.header('stream-snapshot-digest'), head.header('content-length')]).toEqual([200, 0, digest, String(body.length)]);
    });
  });
}

describe('no snapshot', () => {
  it('SNAP-27 RET-19 an offset without a snapshot, and a missing stream, answer 404', async () => {
    const s = fresh(node);
    const { incarnation } = await s.create({ type: OCTETS, body: 'abcdef' });
    const none = await s.sub('GET', 'snapshot/3');
    expect([none.status, none.code, none.header('stream-incarnation')]).toEqual([404, 'SNAPSHOT_NOT_FOUND', incarnation]);
    expect((await fresh(node).sub('GET', 'snapshot/3')).code).toBe('STREAM_NOT_FOUND');
  });

  it('SNAP-33 a malformed offset answers 400', async () => {
    const s = fresh(node);
    await s.create({ type: OCTETS, body: 'abcdef' });
    for (const offset of ['xyz', '-1', 'now', '1.5', '9'.repeat(30)]) {
      const answer = await s.sub('GET', `snapshot/${offset}`);
      expect([offset, answer.status, answer.code]).toEqual([offset, 400, 'INVALID_OFFSET']);
    }
  });
});
