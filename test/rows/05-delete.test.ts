/** Section 5 of the requirements: DELETE. */
import { expect, it } from 'vitest';
import { allFree, forked } from '../support/forks.js';
import { useNode } from '../support/node.js';
import { fresh, OCTETS, onBoth, sleep, TEXT, twin } from '../support/stream.js';

const node = useNode();

onBoth('delete', (on) => {
  const stream = () => fresh(node, on);

  it('DEL-01 DEL-02 an existing stream answers 204, a missing one 404', async () => {
    for (const closed of [false, true]) {
      const s = stream();
      await s.create(closed ? { closed } : {});
      expect((await s.delete()).status).toBe(204);
      const again = await s.delete();
      expect([again.status, again.code]).toEqual([404, 'STREAM_NOT_FOUND']);
    }
    expect((await stream().delete()).status).toBe(404);
  });

  it('DEL-03 afterwards every verb but the creating PUT answers 404', async () => {
    const s = stream();
    const { next } = await s.create({ type: TEXT, body: 'abc' });
    const bucketed = on.name === 'bucketed' ? s : twin(s);
    await bucketed.publish(next, 'snap');
    await s.delete();
    const answers = [s.read(), s.head(), s.append('x'), s.close(), s.delete(), bucketed.bootstrap(), bucketed.sub('GET', `snapshot/${next}`), bucketed.publish(next, 'y'), bucketed.retain(next)];
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(404);
    expect((await s.put({})).status).toBe(201);
  });

  it('DEL-04 SEQ-08 a recreated stream has nothing of the old one', async () => {
    const s = stream();
    const { next } = await s.create({ type: OCTETS, body: 'old bytes' });
    const bucketed = on.name === 'bucketed' ? s : twin(s);
    await s.append('x', { producer: ['p', 3, 0], seq: '9' });
    await bucketed.publish(next, 'snap');
    await bucketed.retain(next);
    await s.delete();
    await s.create({ type: OCTETS });
    const keyed = await s.append('y', { producer: ['p', 0, 0], seq: '1' });
    expect(keyed.status).toBe(200);
    const head = await bucketed.head();
    expect(head.header('stream-snapshot-offset')).toBeUndefined();
    expect(head.header('stream-retained-offset')).toBe('0'.repeat(20));
    expect((await s.read()).text).toBe('y');
    expect((await bucketed.sub('GET', `snapshot/${next}`)).status).toBe(404);
  });

  it('DEL-05 DEL-06 FORK-24 with live forks a stream is only marked deleted: 410, also for a second DELETE', async () => {
    const s = stream();
    const { incarnation } = await s.create({ type: TEXT, body: 'abc' });
    const f = await forked(s);
    const gone = await s.delete();
    expect([gone.status, gone.incarnation]).toEqual([204, incarnation]);
    for (const answer of [await s.read(), await s.head(), await s.delete(), await s.delete({ 'stream-incarnation': '4503599627370497' })]) expect(answer.status).toBe(410);
    expect((await s.delete()).code).toBe('STREAM_GONE');
    expect((await f.read()).text).toBe('abc');
    await f.delete();
    await allFree(s, f);
  });

  it('DEL-07 a long-poll without the incarnation header ends with 404 when its stream is deleted', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const waiting = s.poll(await s.tail(), { timeout_ms: 15_000 });
    await sleep(150);
    const startedAt = Date.now();
    await s.delete();
    const answer = await waiting;
    expect([answer.status, answer.code]).toEqual([404, 'STREAM_NOT_FOUND']);
    expect(Date.now() - startedAt).toBeLessThan(3_000);
  });

  it('DEL-07 SSE-19 an event stream without the incarnation header ends with an error event', async () => {
    for (const recreate of [false, true]) {
      const s = stream();
      await s.create({ type: OCTETS, body: 'old' });
      const sse = await s.sse('now');
      await sse.control();
      await s.delete();
      if (recreate) await s.create({ type: OCTETS, body: 'new' });
      const event = await sse.next();
      expect(event.event).toBe('error');
      expect((JSON.parse(event.data) as { error: { code: string } }).error.code).toMatch(/^(STREAM_NOT_FOUND|INCARNATION_MISMATCH)$/);
      expect(await sse.end()).toBe('clean');
      expect(sse.wire).not.toContain(Buffer.from('new').toString('base64'));
    }
  });

  it('DEL-07 a long-poll never answers from the successor of its stream', async () => {
    const s = stream();
    await s.create({ type: OCTETS });
    const waiting = s.poll(await s.tail(), { timeout_ms: 15_000 });
    await sleep(150);
    await s.delete();
    await s.create({ type: OCTETS, body: 'successor' });
    const answer = await waiting;
    expect([404, 412]).toContain(answer.status);
    expect(answer.text).not.toContain('successor');
  });

  it('DEL-08 the answer carries the deleted token', async () => {
    const s = stream();
    const { incarnation } = await s.create();
    expect((await s.delete()).incarnation).toBe(incarnation);
  });
});
