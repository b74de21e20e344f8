/** Section 20 of the requirements: the incarnation token and its precondition. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { BASE, fresh, JSON_TYPE, OCTETS, onBoth, sleep, TEXT } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

const node = useNode();
const pad = (offset: number): string => String(offset).padStart(20, '0');

/** A stream that was deleted and created again, and the token of its first life. */
async function recreated(body = 'new bytes'): Promise<{ s: Stream; old: string; inc: string }> {
  const s = fresh(node);
  const { incarnation: old } = await s.create({ type: OCTETS, body: 'old bytes' });
  await s.delete();
  const { incarnation: inc } = await s.create({ type: OCTETS, body });
  return { s, old, inc };
}

describe('the token', () => {
  it('INC-01 INC-03 is on every success, and does not change in one life', async () => {
    const s = fresh(node);
    const answers = [await s.create({ type: OCTETS, body: 'abcdef' })];
    const inc = answers[0]!.incarnation;
    answers.push(await s.create({ type: OCTETS }), await s.append('x'), await s.append('y', { producer: ['p', 0, 0] }), await s.append('y', { producer: ['p', 0, 0] }));
    answers.push(await s.read(), await s.read({ offset: 'now' }), await s.poll('-1'), await s.poll('now', { timeout_ms: 1 }), await s.head());
    answers.push(await s.publish(pad(4), 'snap'), await s.sub('GET', `snapshot/${pad(4)}`), await s.retain(pad(2)), await s.bootstrap());
    answers.push(await s.sub('GET', `incarnation/${inc}/chunk/${pad(3)}`), await s.sub('GET', `incarnation/${inc}/snapshot/${pad(4)}`), await s.close());
    for (const answer of answers) {
      expect(answer.status).toBeLessThan(300);
      expect(answer.incarnation).toBe(inc);
    }
    const sse = await s.sse(pad(3));
    expect(sse.answer.incarnation).toBe(inc);
    sse.close();
  });

  it('INC-02 INC-24 differs between lives and streams, and has the form of the table', async () => {
    const seen = new Set<string>();
    const s = fresh(node);
    for (let i = 0; i < 20; i += 1) {
      const { incarnation } = await s.create();
      expect(incarnation).toMatch(/^[1-9][0-9]{15}$/);
      expect(Number(incarnation)).toBeGreaterThanOrEqual(2 ** 52);
      expect(Number(incarnation)).toBeLessThan(2 ** 53);
      seen.add(incarnation);
      await s.delete();
    }
    expect(seen.size).toBe(20);
  });
});

describe('the precondition', () => {
  it('INC-05 INC-06 a matching value lets every verb through', async () => {
    const s = fresh(node);
    const { incarnation } = await s.create({ type: OCTETS, body: 'abcdef' });
    const inc = { 'stream-incarnation': incarnation };
    expect((await s.put({ type: OCTETS, headers: inc })).status).toBe(200);
    expect((await s.append('x', { incarnation })).status).toBe(204);
    expect((await s.read({ offset: '-1' }, inc)).status).toBe(200);
    expect((await s.poll('now', { timeout_ms: 1 }, inc)).status).toBe(204);
    expect((await s.head(inc)).status).toBe(200);
    expect((await s.publish(pad(3), 'snap', OCTETS, inc)).status).toBe(204);
    expect((await s.sub('GET', `snapshot/${pad(3)}`, inc)).status).toBe(200);
    expect((await s.retain(pad(2), inc)).status).toBe(204);
    expect((await s.bootstrap('', inc)).status).toBe(200);
    expect((await s.close({ incarnation })).status).toBe(204);
    expect((await s.delete(inc)).status).toBe(204);
  });

  it('INC-07 INC-10 a mismatch refuses writes and applies nothing', async () => {
    const { s, old, inc } = await recreated();
    const headers = { 'stream-incarnation': old };
    for (const answer of [await s.append('x', { incarnation: old }), await s.close({ incarnation: old }), await s.delete(headers), await s.put({ type: OCTETS, headers })]) {
      expect([answer.status, answer.code, answer.incarnation]).toEqual([412, 'INCARNATION_MISMATCH', inc]);
    }
    const head = await s.head();
    expect([head.status, head.closed, head.incarnation]).toEqual([200, false, inc]);
    expect((await s.read()).text).toBe('new bytes');
  });

  it('INC-08 INC-09 a mismatch refuses reads and subresources', async () => {
    const { s, old, inc } = await recreated();
    await s.publish(pad(3), 'snap');
    const headers = { 'stream-incarnation': old };
    const answers = [await s.read({ offset: '-1' }, headers), await s.poll('-1', {}, headers), await s.read({ offset: '-1', live: 'sse' }, headers), await s.head(headers)];
    answers.push(await s.bootstrap('', headers), await s.publish(pad(4), 'other', OCTETS, headers), await s.sub('GET', `snapshot/${pad(3)}`, headers), await s.retain(pad(3), headers));
    for (const answer of answers) {
      expect([answer.status, answer.incarnation]).toEqual([412, inc]);
      expect(answer.text).not.toContain('new bytes');
    }
    const head = await s.head();
    expect([head.header('stream-snapshot-offset'), head.header('stream-retained-offset')]).toEqual([pad(3), pad(0)]);
  });

  it('INC-11 a missing stream stays 404', async () => {
    const { s, old } = await recreated();
    await s.delete();
    const headers = { 'stream-incarnation': old };
    for (const answer of [await s.read({ offset: '-1' }, headers), await s.append('x', { incarnation: old }), await s.head(headers), await s.delete(headers), await s.bootstrap('', headers), await s.retain(pad(0), headers)]) {
      expect([answer.status, answer.header('stream-incarnation')]).toEqual([404, undefined]);
    }
  });

  it('INC-12 410 and 416 come before 412', async () => {
    const { s, old } = await recreated();
    await s.publish(pad(5), 'snap');
    await s.retain(pad(5));
    const headers = { 'stream-incarnation': old };
    expect((await s.read({ offset: pad(2) }, headers)).status).toBe(410);
    expect((await s.read({ offset: pad(900) }, headers)).status).toBe(416);
    expect((await s.read({ offset: pad(900), live: 'sse' }, headers)).status).toBe(416);
  });

  it('INC-13 a PUT with the header on a missing stream answers 412 and creates nothing', async () => {
    const { s, old } = await recreated();
    await s.delete();
    const answer = await s.put({ headers: { 'stream-incarnation': old } });
    expect([answer.status, answer.header('stream-incarnation'), (await s.head()).status]).toEqual([412, undefined, 404]);
  });

  it('INC-14 INC-15 INC-23 INC-24 malformed or repeated values answer 400, also on a missing stream', async () => {
    const { s, inc } = await recreated();
    const missing = fresh(node);
    for (const value of ['x', '0', '007', '1 2', '', '9007199254740992', '-1', '+5', '1.0', '1'.repeat(1_000), `${inc}, ${inc}`, 'a, b', [inc, inc], `"${inc}"`, '0x10']) {
      const headers = { 'stream-incarnation': value as string };
      for (const answer of [await s.read({ offset: '-1' }, headers), await s.append('x', { headers }), await missing.read('', headers), await s.put({ type: OCTETS, headers })]) {
        expect([value, answer.status, answer.code]).toEqual([value, 400, 'INVALID_HEADER']);
      }
    }
    for (const other of ['5', await fresh(node).create().then((answer) => answer.incarnation)]) expect((await s.read({ offset: '-1' }, { 'stream-incarnation': other })).status).toBe(412);
    expect((await s.read()).text).toBe('new bytes');
  });

  it('INC-20 WO-06 a duplicate is a success, so a mismatch refuses it', async () => {
    const { s, old } = await recreated();
    await s.append('k', { producer: ['p', 0, 0] });
    expect((await s.append('k', { producer: ['p', 0, 0], incarnation: old })).status).toBe(412);
  });

  it('INC-22 another refusal wins and carries the current token', async () => {
    const { s, old, inc } = await recreated();
    await s.append('x', { producer: ['p', 3, 0] });
    const cases = [
      [await s.append('{}', { type: JSON_TYPE, incarnation: old }), 409],
      [await s.append('y', { producer: ['p', 2, 0], incarnation: old }), 403],
      [await s.append('y', { producer: ['p', 3, 7], incarnation: old }), 409],
    ] as const;
    for (const [answer, status] of cases) expect([answer.status, answer.incarnation]).toEqual([status, inc]);
    await s.close();
    const closed = await s.append('x', { incarnation: old });
    expect([closed.status, closed.closed, closed.incarnation]).toEqual([409, true, inc]);
  });

  it('INC-16 a write that began before a recreate never lands in the new stream', async () => {
    for (let round = 0; round < 10; round += 1) {
      const s = fresh(node);
      const { incarnation } = await s.create({ type: OCTETS });
      const { Readable } = await import('node:stream');
      async function* slowly(): AsyncGenerator<Buffer> {
        yield Buffer.from('stale');
        await sleep(20 + round * 3);
        yield Buffer.from('write');
      }
      const writing = s.append(Readable.from(slowly()), { incarnation });
      await sleep(round * 4);
      await s.delete();
      await s.create({ type: OCTETS });
      const answer = await writing;
      expect([204, 404, 412]).toContain(answer.status);
      expect((await s.read()).text).toBe('');
    }
  });

  it('INC-17 bytes of a read always belong to the life that it named', async () => {
    const s = fresh(node);
    let life = (await s.create({ type: OCTETS, body: 'life 0' })).incarnation;
    let over = false;
    const bodies = new Map([[life, 'life 0']]);
    const reading = (async () => {
      while (!over) {
        const named = life;
        const read = await s.read({ offset: '-1' }, { 'stream-incarnation': named });
        if (read.status === 200) expect([read.incarnation, read.text]).toEqual([named, bodies.get(named)]);
        else expect([404, 412]).toContain(read.status);
      }
    })();
    for (let i = 1; i < 25; i += 1) {
      await s.delete();
      const answer = await s.create({ type: OCTETS, body: `life ${i}` });
      bodies.set(answer.incarnation, `life ${i}`);
      life = answer.incarnation;
    }
    over = true;
    await reading;
  });
});

describe('live reads with the precondition', () => {
  it('INC-18 a long-poll ends when its stream is deleted or recreated', async () => {
    for (const recreate of [false, true]) {
      const s = fresh(node);
      const { incarnation } = await s.create({ type: OCTETS });
      const waiting = s.poll('now', { timeout_ms: 15_000 }, { 'stream-incarnation': incarnation });
      await sleep(150);
      await s.delete();
      if (recreate) await s.create({ type: OCTETS, body: 'other' });
      const answer = await waiting;
      expect(recreate ? [404, 412] : [404]).toContain(answer.status);
    }
  });

  it('INC-19 an event stream ends with an error event when its stream is recreated', async () => {
    const s = fresh(node);
    const { incarnation } = await s.create({ type: TEXT, body: 'first' });
    const sse = await s.sse('-1', {}, { 'stream-incarnation': incarnation });
    await sse.through();
    await s.delete();
    await s.create({ type: TEXT, body: 'second' });
    expect((await sse.next()).event).toBe('error');
    expect(await sse.end()).toBe('clean');
    expect(sse.wire).not.toContain('second');
  });
});

onBoth('incarnation on each surface', (on) => {
  it('INC-25 the token is sent, the precondition obeyed', async () => {
    const s = fresh(node, on);
    const { incarnation: old } = await s.create({ type: TEXT, body: 'a' });
    await s.delete();
    await s.create({ type: TEXT, body: 'b' });
    const headers = { 'stream-incarnation': old };
    const refused = [
      await s.read({ offset: '-1' }, headers), await s.poll('-1', {}, headers), await s.read({ offset: '-1', live: 'sse' }, headers), await s.head(headers), await s.append('x', { incarnation: old }),
      await s.append('x', { incarnation: old, producer: ['p', 0, 0] }), await s.close({ incarnation: old }), await s.put({ type: TEXT, headers }), await s.delete(headers),
    ];
    const inc = await s.token();
    for (const [i, answer] of refused.entries()) expect([i, answer.status, answer.incarnation]).toEqual([i, 412, inc]);
    const read = await s.read();
    expect([read.text, read.closed, read.incarnation]).toEqual(['b', false, inc]);
    const served = { 'stream-incarnation': inc };
    expect((await s.append('c', { incarnation: inc })).incarnation).toBe(inc);
    expect([(await s.read({ offset: '-1' }, served)).text, (await s.poll('-1', {}, served)).text, (await s.head(served)).status]).toEqual(['bc', 'bc', 200]);
    const missing = fresh(node, on);
    expect([(await missing.put({ headers: served })).status, (await missing.head()).status]).toEqual([412, 404]);
    for (const value of ['x', '007', `${inc}, ${inc}`]) expect([value, (await s.read({ offset: '-1' }, { 'stream-incarnation': value })).status]).toEqual([value, 400]);
  });
});

it('INC-25 snapshot and retention routes are not offered on the base surface', async () => {
  const s = fresh(node, BASE);
  await s.create({ type: OCTETS, body: 'abc' });
  expect((await s.sub('GET', `snapshot/${pad(0)}`)).status).toBe(404);
  expect((await s.retain(pad(0))).status).not.toBe(204);
});
