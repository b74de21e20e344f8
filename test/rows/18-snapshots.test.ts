/** Section 18 of the requirements: publishing snapshots. */
import { blake3, createBLAKE3 } from 'hash-wasm';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { raw } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, sleep, TEXT } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

const node = useNode();

const stream = async (type = OCTETS, body = 'abcdefghij') => {
  const s = fresh(node);
  await s.create({ type, body });
  return s;
};

/** The digest as SNAP-35 defines it, computed here. */
async function digestOf(type: string, body: string | Buffer): Promise<string> {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(type)));
  return (await createBLAKE3()).init().update(length).update(type).update(body).digest('hex');
}

describe('publish', () => {
  it('SNAP-01 SNAP-02 SNAP-16 at an append end, the first offset and the tail', async () => {
    for (const type of [OCTETS, JSON_TYPE]) {
      const s = await stream(type, type === JSON_TYPE ? '[1,2]' : 'ab');
      const { next } = await s.append(type === JSON_TYPE ? '3' : 'cd');
      for (const offset of ['0'.repeat(20), '2', next]) {
        const answer = await s.publish(offset, `at ${offset}`);
        if (type === JSON_TYPE && offset === '2') expect(answer.status).toBe(204);
        expect([type, offset, answer.status, answer.body.length]).toEqual([type, offset, 204, 0]);
        expect(answer.need('stream-snapshot-digest')).toMatch(/^[0-9a-f]{64}$/);
        expect(Number(answer.need('stream-snapshot-offset'))).toBe(Number(offset));
      }
    }
  });

  it('SNAP-03 any committed offset of a stream that is not JSON', async () => {
    const s = await stream();
    const { next } = await s.read({ offset: '-1', max_bytes: 1 });
    expect((await s.publish(next, 'x')).status).toBe(204);
  });

  it('SNAP-04 SNAP-05 SNAP-07 malformed 400, missing stream 404, beyond the tail 409', async () => {
    const s = await stream();
    for (const offset of ['xyz', '1.5', '%20', '1%2F2', '-5']) expect([offset, (await s.publish(offset, 'x')).status]).toEqual([offset, 400]);
    expect((await fresh(node).publish('0', 'x')).code).toBe('STREAM_NOT_FOUND');
    const beyond = await s.publish('11', 'x');
    expect([beyond.status, beyond.code, beyond.next]).toEqual([409, 'SNAPSHOT_CONFLICT', await s.tail()]);
    expect((await s.head()).header('stream-snapshot-offset')).toBeUndefined();
  });

  it('SNAP-06 SNAP-32 on a JSON stream only message boundaries', async () => {
    const s = await stream(JSON_TYPE, '{"a":1}');
    const { next } = await s.read({ offset: '-1', max_bytes: 3 });
    const inside = await s.publish(next, 'x');
    expect([inside.status, inside.code]).toEqual([400, 'NOT_JSON_BOUNDARY']);
    expect((await s.head()).header('stream-snapshot-offset')).toBeUndefined();
    expect((await s.publish('9', 'x')).status).toBe(409);
  });

  it('SNAP-08 below the retained offset 410', async () => {
    const s = await stream();
    await s.publish('5', 'x');
    await s.retain('5');
    expect((await s.publish('4', 'y')).code).toBe('STREAM_GONE');
    expect((await s.publish('5', 'x')).status).toBe(204);
  });

  it('SNAP-11 SNAP-13 a declared length over the limit answers 413 naming it', async () => {
    const s = await stream();
    const answer = await raw(node.url, [`PUT ${s.path}/snapshot/5 HTTP/1.1`, `Content-Length: ${1_073_741_825}`]);
    expect([answer.status, answer.headers['ursula-max-snapshot-bytes'], answer.headers['ursula-max-request-bytes']]).toEqual([413, '1073741824', undefined]);
    expect((await s.head()).header('ursula-max-snapshot-bytes')).toBe('1073741824');
  });

  it('SNAP-13 a body over 32 MiB is taken with a cold tier', { timeout: 60_000 }, async () => {
    const s = await stream();
    const body = Buffer.alloc(33_554_433, 'snapshot');
    const published = await s.publish('5', body);
    expect([published.status, published.header('stream-snapshot-digest')]).toEqual([204, await digestOf(OCTETS, body)]);
    expect((await s.sub('GET', 'snapshot/5')).body.equals(body)).toBe(true);
  });

  it('SNAP-15 the content type is kept, octets by default', async () => {
    const s = await stream();
    await s.publish('1', 'x', 'application/vnd.app+json; v=1');
    expect((await s.sub('GET', 'snapshot/1')).header('content-type')).toBe('application/vnd.app+json; v=1');
    await s.publish('2', 'x', null);
    expect((await s.sub('GET', 'snapshot/2')).header('content-type')).toBe(OCTETS);
  });

  it('SNAP-17 SNAP-35 the digest covers type and body', async () => {
    const s = await stream();
    for (const [offset, type, body] of [
      ['1', TEXT, 'one'],
      ['2', TEXT, 'two'],
      ['3', OCTETS, 'one'],
      ['4', OCTETS, ''],
    ] as const) {
      const digest = (await s.publish(offset, body, type)).need('stream-snapshot-digest');
      expect(digest).toBe(await digestOf(type, body));
      expect((await s.head()).header('stream-snapshot-digest')).toBe(digest);
      expect((await s.sub('GET', `snapshot/${offset}`)).header('stream-snapshot-digest')).toBe(digest);
    }
    expect(await blake3('')).not.toBe(await digestOf(OCTETS, ''));
  });

  it('SNAP-18 SNAP-19 the same again succeeds, something else at that offset conflicts', async () => {
    const s = await stream();
    const digest = (await s.publish('5', 'one', TEXT)).need('stream-snapshot-digest');
    const again = await s.publish('5', 'one', TEXT);
    expect([again.status, again.header('stream-snapshot-digest')]).toEqual([204, digest]);
    for (const [body, type] of [
      ['two', TEXT],
      ['one', OCTETS],
    ] as const) {
      const other = await s.publish('5', body, type);
      expect([other.status, other.code, other.header('stream-snapshot-digest')]).toEqual([409, 'SNAPSHOT_CONFLICT', digest]);
    }
    expect((await s.sub('GET', 'snapshot/5')).text).toBe('one');
  });

  it('SNAP-20 publishing does not move the retained offset', async () => {
    const s = await stream();
    await s.publish('5', 'x');
    expect((await s.head()).header('stream-retained-offset')).toBe('0'.repeat(20));
    expect((await s.read()).text).toBe('abcdefghij');
  });

  it('SNAP-21 SNAP-22 a newer snapshot is visible at once', async () => {
    const s = await stream();
    await s.publish('2', 'two');
    await s.publish('7', 'seven');
    expect(Number((await s.head()).need('stream-snapshot-offset'))).toBe(7);
    const old = await s.sub('GET', 'snapshot/2');
    expect([200, 404]).toContain(old.status);
    if (old.status === 200) expect(old.text).toBe('two');
  });

  it('SNAP-23 appends go on during a slow upload', async () => {
    const s = await stream();
    async function* slowly(): AsyncGenerator<Buffer> {
      for (let i = 0; i < 10; i += 1) {
        yield Buffer.from(`${i}`);
        await sleep(120);
      }
    }
    const uploading = s.publish('10', Readable.from(slowly()));
    await sleep(200);
    const startedAt = Date.now();
    expect((await s.append('more')).status).toBe(204);
    expect(Date.now() - startedAt).toBeLessThan(700);
    const published = await uploading;
    expect([published.status, Number(published.need('stream-snapshot-offset'))]).toEqual([204, 10]);
    expect((await s.sub('GET', 'snapshot/10')).text).toBe('0123456789');
  });

  it('SNAP-09 RET-08 an upload whose stream has no such view any more when it ends is refused, and not published', async () => {
    const upload = async (s: Stream, meanwhile: () => Promise<unknown>, headers: Record<string, string> = {}) => {
      async function* slowly(): AsyncGenerator<Buffer> {
        yield Buffer.from('late ');
        await sleep(150);
        await meanwhile();
        yield Buffer.from('snapshot');
      }
      return s.publish('5', Readable.from(slowly()), OCTETS, headers);
    };
    const recreate = (s: Stream) => async () => {
      await s.delete();
      await s.create({ type: OCTETS, body: '0123456789' });
    };
    const overtaken = await stream();
    const late = await upload(overtaken, () => overtaken.publish('8', 'newer'));
    expect([late.status, late.code, Number(late.need('stream-snapshot-offset'))]).toEqual([409, 'SNAPSHOT_CONFLICT', 8]);
    expect((await overtaken.sub('GET', 'snapshot/5')).status).toBe(404);

    const gone = await stream();
    expect((await upload(gone, () => gone.delete())).code).toBe('STREAM_NOT_FOUND');

    const retained = await stream();
    await retained.publish('9', 'newest');
    expect((await upload(retained, () => retained.retain('9'))).code).toBe('STREAM_GONE');

    const named = await stream();
    const old = { 'stream-incarnation': await named.token() };
    expect((await upload(named, recreate(named), old)).code).toBe('INCARNATION_MISMATCH');
    const unnamed = await stream();
    const mixed = await upload(unnamed, recreate(unnamed));
    expect(mixed.status).toBe(409);
    for (const s of [named, unnamed]) expect((await s.head()).header('stream-snapshot-offset')).toBeUndefined();
  });

  it('SNAP-28 no deletion, no conditional publish', async () => {
    const s = await stream();
    await s.publish('5', 'one');
    expect((await s.sub('DELETE', 'snapshot/5')).status).toBe(405);
    expect((await s.publish('6', 'two', OCTETS, { 'if-none-match': '*' })).status).toBe(204);
    expect((await s.sub('GET', 'snapshot/6')).text).toBe('two');
  });

  it('SNAP-30 below the visible snapshot new content conflicts, a remembered repeat succeeds', async () => {
    const s = await stream();
    const digest = (await s.publish('3', 'three')).need('stream-snapshot-digest');
    await s.publish('7', 'seven');
    expect((await s.publish('5', 'five')).status).toBe(409);
    expect((await s.publish('3', 'other')).status).toBe(409);
    const again = await s.publish('3', 'three');
    expect([again.status, again.header('stream-snapshot-digest')]).toEqual([204, digest]);
    expect(Number((await s.head()).need('stream-snapshot-offset'))).toBe(7);
  });

  it('SNAP-31 a closed stream and an empty body', async () => {
    const s = await stream();
    await s.close();
    expect((await s.publish('5', '')).status).toBe(204);
    const read = await s.sub('GET', 'snapshot/5');
    expect([read.status, read.body.length]).toEqual([200, 0]);
  });

  it('SNAP-12 without a cold tier the limit is 32 MiB', { timeout: 60_000 }, async () => {
    const { FirnNode } = await import('../support/node.js');
    const plain = new FirnNode({ FIRN_COLD: 'none' });
    try {
      await plain.start();
      const { Stream } = await import('../support/stream.js');
      const s = new Stream(plain.http, '/rows/plain');
      await s.create({ type: OCTETS, body: 'abc' });
      const body = Buffer.alloc(33_554_432, 'x');
      const published = await s.publish('3', body);
      expect([published.status, published.header('stream-snapshot-digest')]).toEqual([204, await digestOf(OCTETS, body)]);
      expect((await s.sub('GET', 'snapshot/3')).body.equals(body)).toBe(true);
      const over = await raw(plain.url, [`PUT ${s.path}/snapshot/2 HTTP/1.1`, 'Content-Length: 33554433']);
      expect([over.status, over.headers['ursula-max-snapshot-bytes'] ?? over.headers['ursula-max-request-bytes']]).toEqual([413, '33554432']);
    } finally {
      await plain.dispose();
    }
  });
});
