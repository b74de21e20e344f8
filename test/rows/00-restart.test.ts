/** Rows of several sections that speak of restarts: everything is set up, the node is killed, started and looked at again. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FirnNode } from '../support/node.js';
import { fresh, JSON_TYPE, OCTETS, TEXT, twin } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

const pad = (offset: number): string => String(offset).padStart(20, '0');

for (const how of ['kill -9', 'SIGTERM'] as const) {
  describe(`after ${how}`, () => {
    const node = new FirnNode();
    let text: Stream;
    let json: Stream;
    let closed: Stream;
    let keyed: Stream;
    let ttl: Stream;
    let deleted: Stream;
    let before: { inc: string; tail: string; etag: string; digest: string; cut: string };

    beforeAll(async () => {
      await node.start();
      [text, json, closed, keyed, ttl, deleted] = Array.from({ length: 6 }, () => fresh(node)) as [Stream, Stream, Stream, Stream, Stream, Stream];
      await text.create({ type: TEXT, body: 'first ' });
      const { next: cut } = await text.append('second ', { seq: '5' });
      await text.append('third');
      const digest = (await text.publish(cut, 'snapshot', 'application/x-state')).need('stream-snapshot-digest');
      await text.retain(pad(6));
      await json.create({ type: 'application/json; charset=utf-8', body: '[1.50e3,"\\ud800"]' });
      await closed.create({ type: OCTETS, body: 'whole', closed: true });
      await keyed.create({ type: OCTETS });
      await keyed.append('a', { producer: ['p', 0, 0] });
      await keyed.append('b', { producer: ['p', 1, 0] });
      await keyed.append('c', { producer: ['p', 1, 1] });
      await ttl.create({ ttl: 3_600, type: OCTETS });
      await deleted.create({ body: 'gone', type: OCTETS });
      await deleted.delete();
      const head = await text.head();
      before = { inc: head.incarnation, tail: head.next, etag: (await text.read({ offset: cut })).need('etag'), digest, cut };
      if (how === 'kill -9') await node.kill();
      else expect((await node.stop()).code).toBe(0);
      await node.start();
    }, 60_000);
    afterAll(() => node.dispose());

    it('APP-12 OFF-06 acknowledged bytes are there, at the same offsets', async () => {
      for (const seen of [text, twin(text)]) {
        expect((await seen.read({ offset: before.cut })).text).toBe('third');
        expect(await seen.tail()).toBe(before.tail);
      }
      expect((await json.read()).text).toBe('1.50e3\n"\\ud800"\n');
      expect((await twin(json).read()).text).toBe('[1.50e3,"\\ud800"]');
      expect((await json.head()).header('content-type')).toBe('application/json; charset=utf-8');
    });

    it('CLO-08 the closed state is', async () => {
      for (const seen of [closed, twin(closed)]) {
        expect((await seen.head()).closed).toBe(true);
        expect((await seen.append('x')).status).toBe(409);
        const read = await seen.read();
        expect([read.text, read.closed]).toEqual(['whole', true]);
      }
    });

    it('PROD-18 producers are: repeats stay repeats, epochs stay closed', async () => {
      for (const seen of [keyed, twin(keyed)]) {
        expect((await seen.append('c', { producer: ['p', 1, 1] })).status).toBe(204);
        const late = await seen.append('a', { producer: ['p', 0, 0] });
        expect([late.status, late.header('producer-outcome'), late.header('producer-closed-seq')]).toEqual([403, 'epoch-closed;by=claim', '0']);
      }
      expect((await keyed.append('d', { producer: ['p', 1, 2] })).status).toBe(200);
      expect((await keyed.read()).text).toBe('abcd');
    });

    it('SEQ-02 the last Stream-Seq is', async () => {
      for (const seen of [text, twin(text)]) expect((await seen.append('x', { type: TEXT, seq: '5' })).status).toBe(409);
    });

    it('INC-03 OFF-01 incarnations are, and new offsets sort after old ones', async () => {
      expect(await text.token()).toBe(before.inc);
      const { next } = await text.append('!', { seq: '6' });
      expect(next > before.tail).toBe(true);
    });

    it('SNAP-24 RET-01 snapshot and boundary are', async () => {
      const head = await text.head();
      expect([head.header('stream-snapshot-offset'), head.header('stream-snapshot-digest'), head.header('stream-retained-offset')]).toEqual([before.cut, before.digest, pad(6)]);
      const snapshot = await text.sub('GET', `snapshot/${before.cut}`);
      expect([snapshot.text, snapshot.header('content-type')]).toEqual(['snapshot', 'application/x-state']);
      expect((await text.read({ offset: pad(5) })).status).toBe(410);
    });

    it('HD-04 lifetimes are', async () => {
      for (const seen of [ttl, twin(ttl)]) expect((await seen.head()).header('stream-ttl')).toBe('3600');
    });

    it('DEL-03 what was deleted stays so, and a new life has a new token', async () => {
      expect((await deleted.read()).status).toBe(404);
      expect((await twin(deleted).read()).status).toBe(404);
      expect((await deleted.create({ type: JSON_TYPE })).status).toBe(201);
    });
  });
}
