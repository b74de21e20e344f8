import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { PART_TAIL, multipartEnd, multipartType, newBoundary, partHead } from './multipart.js';

describe('multipart', () => {
  it('BOOT-17 every boundary has 128 random bits and a safe form', () => {
    const boundary = newBoundary(randomBytes);
    expect(boundary).toMatch(/^[a-z-]+[0-9a-f]{32}$/);
    expect(boundary.length).toBeLessThanOrEqual(70);
    expect(newBoundary(randomBytes)).not.toBe(boundary);
    expect(newBoundary((bytes) => Buffer.alloc(bytes, 0xab))).toContain('ab'.repeat(16));
  });

  it('BOOT-05 BOOT-06 BOOT-15 BOOT-16 the bytes of an answer', () => {
    const parts = [
      { contentType: 'application/octet-stream', body: Buffer.alloc(0) },
      { contentType: 'application/json', body: Buffer.from('{"a":1}\n') },
      { contentType: 'text/plain; charset="utf-8"', body: Buffer.from('--b\r\n\r\n\0\xff', 'latin1') },
    ];
    const answer = Buffer.concat([...parts.flatMap(({ contentType, body }) => [partHead('b', contentType), body, PART_TAIL]), multipartEnd('b')]);
    expect(answer.toString('latin1')).toBe(
      '--b\r\nContent-Type: application/octet-stream\r\n\r\n\r\n'
      + '--b\r\nContent-Type: application/json\r\n\r\n{"a":1}\n\r\n'
      + '--b\r\nContent-Type: text/plain; charset="utf-8"\r\n\r\n--b\r\n\r\n\0\xff\r\n'
      + '--b--\r\n');
  });

  it('BOOT-01 the type names the boundary', () => expect(multipartType('b')).toBe('multipart/mixed; boundary=b'));
});
