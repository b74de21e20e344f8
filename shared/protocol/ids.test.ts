import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FirnError } from './errors.js';
import { KEY_BYTES_MAX, baseKey, bucketOf, bucketedKey, decodeBucketId, decodeStreamId, keyPath } from './ids.js';
import type { StreamKey } from './types.js';

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof FirnError && error.status === 400) return error.code;
    throw error;
  }
  return 'none';
}

const escapeAll = (text: string): string => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
const anyId = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }).filter((id) =>
  id !== '.' && id !== 'streams' && !id.startsWith('$') && !/\0|\/|\.\./.test(id));

describe('ids', () => {
  it.each(['abc', 'Abcd', 'ab.cd', 'a'.repeat(65), '', '__ds', '__ursula', '__ab', 'demo%20', 'd%C3%A9mo', 'demo\n', 'demo%0A'])(
    'ID-01 ID-16 refuses the bucket id %j', (raw) => expect(codeOf(() => decodeBucketId(raw))).toBe('INVALID_BUCKET_ID'));

  it.each(['abcd', 'a'.repeat(64), 'snapshots', '_abc', 'a-_9'])('ID-01 takes the bucket id %j', (raw) => expect(decodeBucketId(raw)).toBe(raw));

  it('ID-14 an escaped id is the same id', () => {
    expect(decodeBucketId('%64emo')).toBe('demo');
    expect(decodeStreamId('%61')).toBe('a');
    expect(decodeStreamId('%C3%A9')).toBe('é');
    expect(decodeStreamId('%c3%a9')).toBe('é');
    fc.assert(fc.property(anyId, (id) => {
      expect(decodeStreamId(escapeAll(id))).toBe(id);
    }));
  });

  it('ID-10 unescaped bytes count as UTF-8', () => {
    expect(decodeStreamId(Buffer.from('é😀').toString('latin1'))).toBe('é😀');
    expect(codeOf(() => decodeStreamId('\u00ff'))).toBe('INVALID_STREAM_ID');
    expect(codeOf(() => decodeStreamId('\u20ac'))).toBe('INVALID_STREAM_ID');
  });

  it.each(['', 'a%2Fb', 'a%2fb', 'a/b', 'a%00b', '%2E%2E', 'a..b', 'a...b', '.', '%2E', 'streams', '%73treams', '$x', '%24x', '$transaction'])(
    'ID-04 .. ID-08 ID-15 refuses the stream id %j', (raw) => expect(codeOf(() => decodeStreamId(raw))).toBe('INVALID_STREAM_ID'));

  it.each(['%', '%z', '%zz', '%4', '%FF', '%C0%80', '%ED%A0%80', '%E0%A4', '%C3', '%C3%28', 'a%', '%%41'])(
    'ID-13 refuses the escapes %j', (raw) => {
      expect(codeOf(() => decodeStreamId(raw))).toBe('INVALID_STREAM_ID');
      expect(codeOf(() => decodeBucketId(raw))).toBe('INVALID_BUCKET_ID');
      expect(codeOf(() => baseKey(raw))).toBe('INVALID_STREAM_ID');
    });

  it.each(['streams2', 'Streams', 'a$b', 'snapshot', 'bootstrap', 'retention', 'attrs', 'append-batch', '-', 'a.b', 'a b'])(
    'ID-07 ID-09 ID-10 takes the stream id %j', (id) => expect(decodeStreamId(escapeAll(id))).toBe(id));

  it('ID-13 escapes are decoded once', () => {
    expect(decodeStreamId('%2541')).toBe('%41');
    expect(decodeStreamId('%252F')).toBe('%2F');
  });

  it('ID-02 ID-03 the key has at most 122 bytes', () => {
    expect(codeOf(() => decodeStreamId('a'.repeat(123)))).toBe('INVALID_STREAM_ID');
    expect(bucketedKey('demo', 'a'.repeat(117))).toHaveLength(KEY_BYTES_MAX);
    expect(codeOf(() => bucketedKey('demo', 'a'.repeat(118)))).toBe('INVALID_STREAM_ID');
    expect(bucketedKey('demo', '€'.repeat(39))).toBe(`demo/${'€'.repeat(39)}`);
    expect(codeOf(() => bucketedKey('demo', '€'.repeat(40)))).toBe('INVALID_STREAM_ID');
    expect(bucketedKey('demo', `${'€'.repeat(38)}abc`)).toHaveLength(5 + 38 + 3);
    expect(codeOf(() => bucketedKey('demo', `${'€'.repeat(38)}abcd`))).toBe('INVALID_STREAM_ID');
  });

  it('ID-17 a base path of a bucket and a stream is their key', () => {
    fc.assert(fc.property(anyId, (id) => {
      expect(baseKey(`demo/${escapeAll(id)}`)).toBe(bucketedKey('demo', id));
    }));
  });

  it('ID-18 the limits of a base path', () => {
    expect(baseKey('p')).toBe('p');
    expect(baseKey('a/b/c')).toBe('a/b/c');
    expect(baseKey('x/__ds')).toBe('x/__ds');
    expect(baseKey('a'.repeat(122))).toHaveLength(122);
    const refused = ['', '/', 'a/', '/a', 'a//b', 'a%2Fb', 'a%00', '%2E%2E/%2E%2E/x', '..', 'a/..', './a', 'a/%2e', '__ds', '__ds/x', '%5F_ds/x',
      'a'.repeat(123), '€'.repeat(41), 'a/'.repeat(300) + 'a', '/'.repeat(10_000)];
    for (const raw of refused) expect(codeOf(() => baseKey(raw)), raw).toBe('INVALID_STREAM_ID');
  });

  it('BKT-10 the bucket of a key', () => {
    expect(bucketOf('demo/s' as StreamKey)).toBe('demo');
    expect(bucketOf('demo/a/b' as StreamKey)).toBe('demo');
    expect(bucketOf('demo' as StreamKey)).toBeNull();
    expect(bucketOf('abc/s' as StreamKey)).toBeNull();
    expect(bucketOf('__ab/s' as StreamKey)).toBeNull();
  });

  it('a key gives back the path it came from', () => {
    fc.assert(fc.property(fc.array(anyId, { minLength: 1, maxLength: 3 }), (ids) => {
      const path = ids.map(escapeAll).join('/');
      fc.pre(ids[0] !== '__ds' && Buffer.byteLength(ids.join('/')) <= KEY_BYTES_MAX);
      expect(baseKey(keyPath(baseKey(path)))).toBe(ids.join('/'));
    }));
  });
});
