/** Section 6 of the requirements: HEAD. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { raw } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, TEXT } from '../support/stream.js';

const node = useNode();

onBoth('head', (on) => {
  const stream = () => fresh(node, on);

  it('HD-01 HD-12 200 and 404, both without a body', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc' });
    for (const [path, status] of [[s.path, 200], [stream().path, 404]] as const) {
      const answer = await raw(node.url, `HEAD ${path} HTTP/1.1`);
      expect([answer.status, answer.wire.split('\r\n\r\n')[1]]).toEqual([status, '']);
    }
  });

  it('HD-02 HD-03 the configured content type and the tail', async () => {
    for (const type of [JSON_TYPE, TEXT, OCTETS, 'image/png']) {
      const s = stream();
      await s.create({ type });
      const { next } = await s.append(type === JSON_TYPE ? '{}' : 'x');
      const head = await s.head();
      expect([head.header('content-type'), head.next]).toEqual([type, next]);
    }
  });

  it('HD-04 the lifetime appears when configured', async () => {
    const s = stream();
    await s.create({ ttl: 3600 });
    const head = await s.head();
    expect([head.header('stream-ttl'), head.header('stream-expires-at')]).toEqual(['3600', undefined]);
    const t = stream();
    await t.create();
    const none = await t.head();
    expect([none.header('stream-ttl'), none.header('stream-expires-at')]).toEqual([undefined, undefined]);
  });

  it('HD-05 Stream-Closed on closed streams only', async () => {
    const s = stream();
    await s.create();
    expect((await s.head()).closed).toBe(false);
    await s.close();
    expect((await s.head()).closed).toBe(true);
  });

  it('HD-06 HEAD is not stored by caches', async () => {
    const s = stream();
    await s.create();
    expect((await s.head()).header('cache-control')).toBe('no-store');
  });

  it('HD-13 Stream-Expires-At is the same instant in UTC', async () => {
    const s = stream();
    await s.create({ expiresAt: '2099-01-01T02:00:00.5+02:00' });
    const value = (await s.head()).need('stream-expires-at');
    expect(new Date(value).toISOString()).toBe('2099-01-01T00:00:00.500Z');
    expect(value.endsWith('Z')).toBe(true);
  });
});

describe('head on the bucketed surface', () => {
  it('HD-07 HD-08 the visible snapshot, or none', async () => {
    const s = fresh(node);
    const { next } = await s.create({ type: OCTETS, body: 'abc' });
    const before = await s.head();
    expect([before.header('stream-snapshot-offset'), before.header('stream-snapshot-digest')]).toEqual([undefined, undefined]);
    const published = await s.publish(next, 'snap');
    const after = await s.head();
    expect([after.header('stream-snapshot-offset'), after.header('stream-snapshot-digest')]).toEqual([next, published.need('stream-snapshot-digest')]);
  });

  it('HD-09 the retained offset is always there', async () => {
    const s = fresh(node);
    await s.create({ type: OCTETS });
    expect((await s.head()).header('stream-retained-offset')).toBe('0'.repeat(20));
    await s.append('abc');
    expect((await s.head()).header('stream-retained-offset')).toBe('0'.repeat(20));
  });

  it('HD-11 no other plain answer tells the latest snapshot', async () => {
    const s = fresh(node);
    const { next } = await s.create({ type: OCTETS, body: 'abc' });
    await s.publish(next, 'snap');
    for (const answer of await Promise.all([s.read(), s.append('x'), s.put({ type: OCTETS })])) {
      expect(answer.status).toBeLessThan(300);
      expect(answer.header('stream-snapshot-offset')).toBeUndefined();
    }
  });

  it('HEAD names the limits and the protocol, also when it is refused', async () => {
    const s = fresh(node);
    await s.create();
    const head = await s.head();
    expect(head.header('ursula-max-request-bytes')).toBe('33554432');
    expect(head.header('ursula-protocol')).toBe('11');
    expect(head.need('ursula-cluster-id')).toMatch(/^[A-Za-z0-9._-]{1,64}$/);
    const missing = await fresh(node).head();
    expect([missing.status, missing.header('ursula-protocol')]).toEqual([404, '11']);
  });
});
