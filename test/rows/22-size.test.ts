/** Section 22 of the requirements: the size of answers. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { bytesOf, dataOf } from '../support/sse.js';
import { BASE, fresh, JSON_TYPE, OCTETS, onBoth, TEXT } from '../support/stream.js';

const node = useNode();
const CAP = 8_388_608;

onBoth('size', (on) => {
  it('SIZE-01 SIZE-04 SIZE-12 an answer holds at most 8,388,608 bytes, whatever is asked', { timeout: 60_000 }, async () => {
    const s = fresh(node, on);
    const body = Buffer.alloc(9 * 1024 * 1024, 'abcdefg');
    await s.create({ type: OCTETS, body });
    for (const query of [{ offset: '-1' }, { offset: '-1', max_bytes: 99_999_999 }]) {
      const first = await s.read(query);
      expect([first.body.length, first.upToDate]).toEqual([CAP, false]);
      const rest = await s.read({ offset: first.next });
      expect([Buffer.concat([first.body, rest.body]).equals(body), rest.upToDate]).toEqual([true, true]);
    }
  });

  it('SIZE-03 SIZE-09 SIZE-11 max_bytes bounds an answer; 0 is raised to 1', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: '0123456789' });
    expect((await s.read({ offset: '-1', max_bytes: 4 })).text).toBe('0123');
    expect((await s.read({ offset: '-1', max_bytes: 0 })).text).toBe('0');
    expect((await s.read({ offset: '-1', max_bytes: '007' })).text).toBe('0123456');
    const exact = await s.read({ offset: '-1', max_bytes: 10 });
    expect([exact.text.length, exact.upToDate]).toEqual([10, true]);
  });

  it('SIZE-05 SIZE-11 a value that is no decimal integer, or is repeated, is ignored', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: '0123456789' });
    for (const value of ['abc', '1.5', '1e0', '', '-5', '%2B5', '0x1', '%20 1'.replace(' ', '')]) {
      const read = await s.read(`offset=-1&max_bytes=${value}`);
      expect([value, read.status, read.text.length]).toEqual([value, 200, 10]);
    }
    expect((await s.read('offset=-1&max_bytes=1&max_bytes=2')).text.length).toBe(10);
    expect((await s.read(`offset=-1&max_bytes=${'9'.repeat(40)}`)).text.length).toBe(10);
  });

  it('SIZE-06 on a live read it bounds each answer', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: '0123456789' });
    expect((await s.poll('-1', { max_bytes: 0 })).text).toBe('0');
    const poll = await s.poll('-1', { max_bytes: 3 });
    expect([poll.text, poll.upToDate]).toEqual(['012', false]);
    const binary = fresh(node, on);
    await binary.create({ type: OCTETS, body: 'abc' });
    const sse = await binary.sse('-1', { max_bytes: 0 });
    const events = await sse.through();
    sse.close();
    expect(events.filter((event) => event.event === 'data').map((event) => bytesOf([event]).toString())).toEqual(['a', 'b', 'c']);
  });

  it('SIZE-07 on a text event it is raised to 4', async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: '0123456789' });
    const sse = await s.sse('-1', { max_bytes: 1 });
    const events = await sse.through();
    sse.close();
    expect(dataOf(events)).toBe('0123456789');
    for (const event of events) if (event.event === 'data') expect(event.data.length).toBeLessThanOrEqual(4);
  });

  it('SIZE-08 a chain of short answers rebuilds the stream; only the last is up to date', async () => {
    const s = fresh(node, on);
    await s.create({ type: OCTETS });
    for (let i = 0; i < 30; i += 1) await s.append(`${i},`);
    const whole = (await s.read()).text;
    let text = '';
    let offset = '-1';
    for (;;) {
      const read = await s.read({ offset, max_bytes: 7 });
      text += read.text;
      expect(read.upToDate).toBe(text.length === whole.length);
      expect(Number(read.next)).toBe(text.length);
      offset = read.next;
      if (read.upToDate) break;
    }
    expect(text).toBe(whole);
  });
});

describe('size of JSON answers', () => {
  it('SIZE-10 on the bucketed surface bytes of the NDJSON count', async () => {
    const s = fresh(node);
    await s.create({ type: JSON_TYPE, body: '{"a":1}' });
    expect((await s.read({ offset: '-1', max_bytes: 3 })).text).toBe('{"a');
    expect((await s.all('-1', { max_bytes: 3 })).toString()).toBe('{"a":1}\n');
  });

  it('SIZE-12 on the base surface an array ends at a message, with at least one', async () => {
    const s = fresh(node, BASE);
    await s.create({ type: JSON_TYPE, body: '[{"a":1},{"b":2},3]' });
    const one = await s.read({ offset: '-1', max_bytes: 3 });
    expect([one.text, one.upToDate]).toEqual(['[{"a":1}]', false]);
    const two = await s.read({ offset: one.next, max_bytes: 10 });
    expect([two.text, two.upToDate]).toEqual(['[{"b":2},3]', true]);
    expect((await s.read({ offset: '-1', max_bytes: 17 })).text).toBe('[{"a":1},{"b":2}]');
    const huge = fresh(node, BASE);
    const text = JSON.stringify('x'.repeat(CAP + 100));
    await huge.create({ type: JSON_TYPE, body: text });
    await huge.append('2');
    expect((await huge.read()).text).toBe(`[${text}]`);
  });
});
