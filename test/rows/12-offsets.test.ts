/** Section 12 of the requirements: offsets and their sentinels. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { controlsOf, dataOf } from '../support/sse.js';
import { BASE, fresh, JSON_TYPE, OCTETS, onBoth, sleep, TEXT } from '../support/stream.js';

const node = useNode();
const ZERO = '0'.repeat(20);

onBoth('offsets', (on) => {
  const stream = () => fresh(node, on);

  it('OFF-01 OFF-02 OFF-03 OFF-04 OFF-16 offsets sort as the appends, are distinct, and are 20 digits', async () => {
    const s = stream();
    const created = await s.create({ type: OCTETS });
    const offsets = [created.next];
    for (let size = 1; size <= 200; size += 11) offsets.push((await s.append(Buffer.alloc(size, 'x'))).next);
    for (const offset of offsets) expect(offset).toMatch(/^\d{20}$/);
    expect([...offsets].sort()).toEqual(offsets);
    expect(new Set(offsets).size).toBe(offsets.length);
    expect(offsets[0]).toBe(ZERO);
  });

  it('OFF-05 an empty stream issues a real offset', async () => {
    const s = stream();
    await s.create();
    expect((await s.read()).next).toBe(ZERO);
  });

  it('OFF-06 an old offset stays valid, also after the close', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const { next } = await s.append('abc');
    await s.append('def', { close: true });
    expect((await s.read({ offset: next })).text).toBe('def');
  });

  it('OFF-07 -1 is the beginning in every mode', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc', closed: true });
    expect((await s.read()).text).toBe('abc');
    expect((await s.poll('-1')).text).toBe('abc');
    const sse = await s.sse('-1');
    expect(dataOf(await sse.through((control) => control.streamClosed === true))).toBe('abc');
  });

  it('OFF-08 OFF-09 OFF-10 OFF-11 now in a catch-up read: nothing, at the tail, not stored', async () => {
    for (const [type, body, empty] of [
      [TEXT, 'abc', ''],
      [JSON_TYPE, '{"a":1}', on.jsonRead()],
    ] as const) {
      const s = stream();
      await s.create({ type, body });
      const read = await s.read({ offset: 'now' });
      expect([read.status, read.text, read.next, read.upToDate, read.closed]).toEqual([200, empty, await s.tail(), true, false]);
      expect(read.header('cache-control')).toBe('no-store');
      expect(read.header('content-type')).toBe(type === TEXT ? TEXT : on.jsonReadType);
    }
  });

  it('OFF-12 now in a long-poll waits at once', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'old' });
    const idle = await s.poll('now', { timeout_ms: 100 });
    expect([idle.status, idle.upToDate, idle.next]).toEqual([204, true, await s.tail()]);
    const waiting = s.poll('now', { timeout_ms: 10_000 });
    await sleep(200);
    await s.append('new');
    const answer = await waiting;
    expect([answer.status, answer.text, answer.next]).toEqual([200, 'new', await s.tail()]);
  });

  it('OFF-13 now in an event stream starts at the tail', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'old' });
    const sse = await s.sse('now');
    const first = await sse.control();
    expect([first.streamNextOffset, first.upToDate]).toEqual([await s.tail(), true]);
    await s.append('new');
    expect(dataOf(await sse.through())).toBe('new');
    expect(sse.wire).not.toContain('old');
    sse.close();
  });

  it('OFF-14 now on a closed stream is answered at once in three modes', async () => {
    const s = stream();
    await s.create({ type: TEXT, body: 'abc', closed: true });
    const tail = await s.tail();
    const read = await s.read({ offset: 'now' });
    expect([read.status, read.text, read.closed, read.upToDate, read.next]).toEqual([200, '', true, true, tail]);
    const poll = await s.poll('now', { timeout_ms: 30_000 });
    expect([poll.status, poll.closed, poll.upToDate, poll.next]).toEqual([204, true, true, tail]);
    const sse = await s.sse('now');
    const control = await sse.control();
    expect([control.streamNextOffset, control.upToDate, control.streamClosed]).toEqual([tail, true, true]);
    expect(await sse.end()).toBe('clean');
    expect(sse.events).toHaveLength(1);
    expect(controlsOf(sse.events)).toHaveLength(1);
  });

  it('OFF-17 plain digits of any padding are accepted; signs, spaces and overflow are not', async () => {
    const s = stream();
    await s.create({ type: OCTETS, body: '0123456789' });
    for (const offset of ['5', '05', '0'.repeat(30) + '5', ZERO.slice(1) + '5']) {
      const read = await s.read({ offset });
      expect([offset, read.status, read.text, read.next]).toEqual([offset, 200, '56789', await s.tail()]);
    }
    expect((await s.read({ offset: '0' })).text).toBe('0123456789');
    for (const offset of ['%2B5', '9'.repeat(30), '%205', '5%20', '-5', '18446744073709551616']) expect([offset, (await s.read(`offset=${offset}`)).status]).toEqual([offset, 400]);
    for (const offset of ['18446744073709551615', '9007199254740993']) expect([offset, (await s.read(`offset=${offset}`)).status]).toEqual([offset, 416]);
  });
});

describe('offsets of one surface', () => {
  it('OFF-16 the base surface reads the two-part spelling with a zero left half', async () => {
    const base = fresh(node, BASE);
    await base.create({ type: OCTETS, body: 'abcdef' });
    expect((await base.read({ offset: '0000000000000000_0000000000000000' })).text).toBe('abcdef');
    expect((await base.read({ offset: '0000000000000000_0000000000000004' })).text).toBe('ef');
    expect((await base.read({ offset: '0000000000000001_0000000000000000' })).status).toBe(400);
  });

  it('OFF-15 offsets in path segments are percent-decoded', async () => {
    const s = fresh(node);
    const { next } = await s.create({ type: OCTETS, body: 'abc' });
    const escaped = [...next].map((digit) => `%${digit.charCodeAt(0).toString(16)}`).join('');
    expect((await s.publish(escaped, 'snap')).status).toBe(204);
    expect((await s.head()).header('stream-snapshot-offset')).toBe(next);
    expect((await s.sub('GET', `snapshot/${escaped}`)).text).toBe('snap');
    expect((await s.retain(escaped)).status).toBe(204);
  });

  it('OFF-17 snapshot and retention paths take any padding', async () => {
    const s = fresh(node);
    const { next } = await s.create({ type: OCTETS, body: 'abc' });
    expect((await s.publish('3', 'snap')).header('stream-snapshot-offset')).toBe(next);
    expect((await s.sub('GET', 'snapshot/03')).text).toBe('snap');
    expect((await s.retain('3')).header('stream-retained-offset')).toBe(next);
    for (const offset of ['%2B3', '9'.repeat(30), '3x']) {
      expect([offset, (await s.publish(offset, 'x')).status]).toEqual([offset, 400]);
      expect([offset, (await s.retain(offset)).status]).toEqual([offset, 400]);
    }
  });

  it('OFF-18 the sentinels are no offsets in paths', async () => {
    const s = fresh(node);
    const { incarnation } = await s.create({ type: OCTETS, body: 'abc' });
    for (const offset of ['-1', 'now']) {
      for (const answer of await Promise.all([s.publish(offset, 'x'), s.retain(offset), s.sub('GET', `snapshot/${offset}`)])) {
        expect([offset, answer.status, answer.code]).toEqual([offset, 400, 'INVALID_OFFSET']);
      }
      expect((await s.sub('GET', `incarnation/${incarnation}/chunk/${offset}`)).status).toBe(400);
    }
  });
});
