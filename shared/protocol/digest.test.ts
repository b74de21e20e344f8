import fc from 'fast-check';
import { blake3 } from 'hash-wasm';
import { describe, expect, it } from 'vitest';
import { SnapshotDigest, contentDigest } from './digest.js';

/** The defined input of a snapshot's digest, as one buffer. */
function snapshotInput(contentType: string, body: Uint8Array): Buffer {
  const type = Buffer.from(contentType);
  const length = Buffer.alloc(8);
  length.writeUInt32LE(type.length);
  return Buffer.concat([length, type, body]);
}

const snapshotDigest = (contentType: string, body: Uint8Array): string => SnapshotDigest.start(contentType).update(body).finish();

describe('digests', () => {
  it('PROD-22 is BLAKE3-256 in lower-case hex', () => {
    expect(contentDigest(Buffer.alloc(0))).toBe('af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262');
    expect(contentDigest(Buffer.from('abc'))).toBe('6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85');
    expect(contentDigest(Buffer.from(Array.from({ length: 1024 }, (_, i) => i % 251)))).toBe('42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7');
  });

  it('SNAP-35 covers the length of the type, the type and the body', async () => {
    const body = Buffer.from('snapshot bytes');
    expect(snapshotDigest('text/plain; charset=utf-8', body)).toBe(await blake3(snapshotInput('text/plain; charset=utf-8', body)));
    expect(snapshotDigest('a/b', Buffer.alloc(0))).toBe(await blake3(snapshotInput('a/b', Buffer.alloc(0))));
  });

  it('SNAP-17 the border between type and body counts', () => {
    expect(snapshotDigest('a/b', Buffer.from('c'))).not.toBe(snapshotDigest('a/bc', Buffer.alloc(0)));
  });

  it('SNAP-14 any number of bodies at once, cut anyhow, and other digests between', async () => {
    const uploads = fc.array(fc.record({ type: fc.string({ maxLength: 5 }), pieces: fc.array(fc.uint8Array({ maxLength: 2000 }), { maxLength: 5 }) }), { minLength: 1, maxLength: 5 });
    await fc.assert(fc.asyncProperty(uploads, fc.array(fc.nat(), { minLength: 1, maxLength: 20 }), async (list, order) => {
      const running = list.map(({ type, pieces }) => ({ digest: SnapshotDigest.start(type), left: [...pieces] }));
      let turn = 0;
      while (running.some(({ left }) => left.length > 0)) {
        const open = running.filter(({ left }) => left.length > 0);
        const one = open[order[turn++ % order.length]! % open.length]!;
        one.digest.update(one.left.shift()!);
        contentDigest(Buffer.from('between'));
      }
      for (const [i, { type, pieces }] of list.entries()) {
        const expected = await blake3(snapshotInput(type, Buffer.concat(pieces)));
        expect(running[i]!.digest.finish()).toBe(expected);
        expect(running[i]!.digest.finish()).toBe(expected);
      }
    }), { numRuns: 60 });
  });

  it('a finished digest takes no more', () => {
    const digest = SnapshotDigest.start('a/b');
    digest.finish();
    expect(() => digest.update(Buffer.from('x'))).toThrow('taken already');
  });
});
