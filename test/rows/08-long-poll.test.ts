/** Section 8 of the requirements: long-poll. Waits run side by side. */
import { Pool } from 'undici';
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, sleep, TEXT, twin } from '../support/stream.js';

const node = useNode();

async function timed<T>(work: Promise<T>): Promise<[T, number]> {
  const startedAt = performance.now();
  const result = await work;
  return [result, performance.now() - startedAt];
}

onBoth('long-poll', (on) => {
  describe.concurrent('waits', () => {
    const stream = () => fresh(node, on);

    it('LP-01 without an offset it answers 400', async () => {
      const s = stream();
      await s.create();
      const answer = await s.read('live=long-poll');
      expect([answer.status, answer.code]).toEqual([400, 'INVALID_QUERY']);
    });

    it('LP-02 LP-05 data that is there comes at once, with a cursor', async () => {
      const s = stream();
      await s.create({ type: TEXT, body: 'abc' });
      const [answer, ms] = await timed(s.poll('-1', { timeout_ms: 20_000 }));
      expect([answer.status, answer.text, answer.upToDate]).toEqual([200, 'abc', true]);
      expect(answer.need('stream-cursor')).toMatch(/^\d+$/);
      expect(ms).toBeLessThan(1_000);
    });

    it('LP-03 LP-13 at the tail it waits; new data ends the wait with a catch-up answer', async () => {
      for (const [type, body, read, readType] of [
        [TEXT, 'new', 'new', TEXT],
        [JSON_TYPE, '[{"a": 1},2]', on.jsonRead('{"a":1}', '2'), on.jsonReadType],
      ] as const) {
        const s = stream();
        await s.create({ type, body: type === TEXT ? 'old' : '["old"]' });
        const waiting = timed(s.poll(await s.tail(), { timeout_ms: 10_000 }));
        await sleep(200);
        const { next } = await s.append(body);
        const [answer, ms] = await waiting;
        expect([answer.status, answer.text, answer.next, answer.upToDate, answer.closed]).toEqual([200, read, next, true, false]);
        expect(answer.header('content-type')).toBe(readType);
        expect(answer.need('etag')).toMatch(/^(W\/)?".+"$/);
        expect(answer.need('stream-cursor')).toMatch(/^\d+$/);
        expect(ms).toBeGreaterThan(150);
        expect(ms).toBeLessThan(5_000);
      }
    });

    it('LP-04 LP-05 LP-15 at the time-out: 204 with the tail, up to date, a cursor, not stored', async () => {
      const s = stream();
      await s.create({ type: TEXT, body: 'abc' });
      const answer = await s.poll(await s.tail(), { timeout_ms: 200 });
      expect([answer.status, answer.body.length, answer.next, answer.upToDate, answer.closed]).toEqual([204, 0, await s.tail(), true, false]);
      expect(answer.need('stream-cursor')).toMatch(/^\d+$/);
      expect(answer.header('cache-control')).toBe('no-store');
    });

    it('LP-06 closed and at the tail: 204 at once', async () => {
      const s = stream();
      await s.create({ type: TEXT, body: 'abc', closed: true });
      const [answer, ms] = await timed(s.poll(await s.tail(), { timeout_ms: 60_000 }));
      expect([answer.status, answer.closed, answer.upToDate, answer.next]).toEqual([204, true, true, await s.tail()]);
      expect(ms).toBeLessThan(1_000);
    });

    it('LP-07 a close during the wait is reported, with the last bytes when there are some', async () => {
      const s = stream();
      await s.create({ type: TEXT });
      const one = s.poll(await s.tail(), { timeout_ms: 10_000 });
      await sleep(100);
      await s.close();
      const closed = await one;
      expect([closed.status, closed.closed, closed.upToDate]).toEqual([204, true, true]);
      const t = stream();
      await t.create({ type: TEXT });
      const two = t.poll(await t.tail(), { timeout_ms: 10_000 });
      await sleep(100);
      const { next } = await t.append('last', { close: true });
      const answer = await two;
      expect([answer.status, answer.text, answer.closed, answer.next]).toEqual([200, 'last', true, next]);
    });

    it('LP-07 R051 every one of many readers that wait gets the last bytes of an append and close', async () => {
      for (let round = 0; round < 25; round += 1) {
        const s = stream();
        await s.create({ type: OCTETS, body: 'before' });
        const tail = await s.tail();
        const waiting = Promise.all(Array.from({ length: 6 }, () => s.poll(tail, { timeout_ms: 20_000 })));
        await sleep(round * 2);
        const { next } = await s.append('last', { close: true });
        for (const answer of await waiting) expect([round, answer.status, answer.text, answer.closed, answer.upToDate, answer.next]).toEqual([round, 200, 'last', true, true, next]);
      }
    });

    it('LP-08 LP-10 LP-16 the default wait is 1000 ms, also for a value that does not parse', async () => {
      const s = stream();
      await s.create();
      const tail = await s.tail();
      await Promise.all(
        [null, 'abc', '', '1.5', '-5', '%2B5', '9'.repeat(30), '1e3', '0x10', '%20300'].map(async (value) => {
          const [answer, ms] = await timed(s.read(`offset=${tail}&live=long-poll${value === null ? '' : `&timeout_ms=${value}`}`));
          expect([value, answer.status]).toEqual([value, 204]);
          expect(ms, String(value)).toBeGreaterThan(900);
          expect(ms, String(value)).toBeLessThan(3_000);
        }),
      );
    });

    it('LP-09 LP-11 timeout_ms sets the wait, from 1 ms', async () => {
      const s = stream();
      await s.create();
      const tail = await s.tail();
      const [short, shortMs] = await timed(s.poll(tail, { timeout_ms: 300 }));
      expect(short.status).toBe(204);
      expect(shortMs).toBeGreaterThan(250);
      expect(shortMs).toBeLessThan(900);
      const [none, noneMs] = await timed(s.poll(tail, { timeout_ms: 0 }));
      expect(none.status).toBe(204);
      expect(noneMs).toBeLessThan(700);
    });

    it('R055 the wait is bounded whatever else happens', async () => {
      const s = stream();
      await s.create({ ttl: 100 });
      const tail = await s.tail();
      const waiting = timed(s.poll(tail, { timeout_ms: 1_500 }));
      for (let i = 0; i < 10; i += 1) {
        await Promise.all([s.head(), s.append('', { type: OCTETS }), s.read({ offset: tail })]);
        await sleep(100);
      }
      const [answer, ms] = await waiting;
      expect(answer.status).toBe(204);
      expect(ms).toBeGreaterThan(1_400);
      expect(ms).toBeLessThan(2_300);
    });

    it('LP-14 missing, retained and bad requests are answered without waiting', async () => {
      const missing = await timed(stream().poll('-1', { timeout_ms: 20_000 }));
      expect([missing[0].status, missing[1] < 1_000]).toEqual([404, true]);
      const s = stream();
      const { next } = await s.create({ type: OCTETS, body: 'abc' });
      const bucketed = on.name === 'bucketed' ? s : twin(s);
      await bucketed.publish(next, 'snap');
      await bucketed.retain(next);
      const gone = await timed(s.poll('-1', { timeout_ms: 20_000 }));
      expect([gone[0].status, gone[1] < 1_000]).toEqual([410, true]);
      const bad = await timed(s.poll('x', { timeout_ms: 20_000 }));
      expect([bad[0].status, bad[1] < 1_000]).toEqual([400, true]);
    });

    it('LP-09 R133 seven readers on the six connections of a browser let another request through when they poll shortly', async () => {
      const s = stream();
      await s.create({ type: TEXT, body: 'abc' });
      const browser = new Pool(node.url, { connections: 6 });
      const get = async (path: string): Promise<number> => {
        const { statusCode, body } = await browser.request({ method: 'GET', path });
        await body.dump();
        return statusCode;
      };
      let open = true;
      const readers = Array.from({ length: 7 }, async () => {
        while (open) expect(await get(`${s.path}?offset=now&live=long-poll&timeout_ms=300`)).toBe(204);
      });
      await sleep(400);
      const [status, ms] = await timed(get(`${s.path}?offset=-1`));
      open = false;
      await Promise.all(readers);
      await browser.close();
      expect(status).toBe(200);
      expect(ms).toBeLessThan(2_000);
    });

    it('a long-poll never answers with an offset behind its own', async () => {
      const s = stream();
      await s.create({ type: OCTETS });
      let offset = await s.tail();
      const writing = (async () => {
        for (let i = 0; i < 40; i += 1) await s.append(`${i};`);
      })();
      let read = '';
      while (!read.endsWith('39;')) {
        const answer = await s.poll(offset, { timeout_ms: 500 });
        expect(answer.next >= offset).toBe(true);
        read += answer.text;
        offset = answer.next;
      }
      await writing;
      expect(read).toBe(Array.from({ length: 40 }, (_, i) => `${i};`).join(''));
    });
  });
});
