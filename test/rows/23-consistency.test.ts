/** Section 23 of the requirements, as far as one node shows it. */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, onBoth, TEXT } from '../support/stream.js';

const node = useNode();

onBoth('consistency', (on) => {
  const stream = async () => {
    const s = fresh(node, on);
    await s.create({ type: TEXT, body: 'abc' });
    return s;
  };

  it('LEAD-01 LEAD-02 LEAD-07 R105 both kinds of read show every acknowledged append', async () => {
    const s = await stream();
    let text = 'abc';
    for (let i = 0; i < 40; i += 1) {
      text += `${i}`;
      await s.append(`${i}`);
      for (const consistency of ['leader', 'local']) {
        const read = await s.read({ offset: '-1', consistency });
        expect([read.status, read.text]).toEqual([200, text]);
      }
      expect(Number(await s.tail())).toBe(text.length);
    }
  });

  it('R105 LEAD-02 whoever reads, asks or waits behind an acknowledged append sees it', async () => {
    const s = await stream();
    let length = 3;
    for (let i = 0; i < 250; i += 1) {
      const offset = String(length);
      const waiting = i % 5 === 0 ? s.poll(offset, { timeout_ms: 10_000 }) : null;
      await s.append(`${i};`);
      length += `${i};`.length;
      const [read, poll, head, woken] = await Promise.all([s.read({ offset }), s.poll(offset, { timeout_ms: 10_000 }), s.head(), waiting]);
      for (const answer of woken === null ? [read, poll] : [read, poll, woken]) expect([i, answer.status, answer.text]).toEqual([i, 200, `${i};`]);
      expect(Number(head.next)).toBe(length);
    }
  });

  it('LEAD-03 another value answers 400, also on a live read', async () => {
    const s = await stream();
    for (const value of ['foo', '', 'LEADER', 'Local']) {
      for (const live of ['', '&live=sse', '&live=long-poll']) {
        const answer = await s.read(`offset=-1&consistency=${value}${live}`);
        expect([value, live, answer.status, answer.code]).toEqual([value, live, 400, 'INVALID_QUERY']);
      }
    }
  });

  it('LEAD-04 LEAD-05 leader cannot be live, local can', async () => {
    const s = await stream();
    for (const live of ['sse', 'long-poll']) expect((await s.read({ offset: '-1', live, consistency: 'leader' })).status).toBe(400);
    expect((await s.poll('-1', { consistency: 'local' })).status).toBe(200);
  });

  it('LEAD-09 ignored on other requests; repeated answers 400', async () => {
    const s = await stream();
    expect((await s.head({}, 'consistency=foo')).status).toBe(200);
    expect((await s.http.send('POST', `${s.path}?consistency=foo`, { headers: { 'content-type': TEXT }, body: 'x' })).status).toBe(204);
    expect((await s.read('offset=-1&consistency=local&consistency=local')).status).toBe(400);
  });

  it('RDR-14 one node never redirects', async () => {
    const s = await stream();
    for (const answer of await Promise.all([s.read({ offset: '-1', consistency: 'leader' }), s.append('x'), s.head(), s.put({ type: TEXT }), s.close(), s.delete()])) expect(answer.status).not.toBe(307);
  });
});
