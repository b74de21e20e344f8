/** Section 15 of the requirements: lifetimes. Everything that waits does so side by side. */
import { beforeAll, describe, expect, it } from 'vitest';
import { ownNode, useNode } from '../support/node.js';
import { fresh, OCTETS, onBoth, sleep, Stream, TEXT, twin } from '../support/stream.js';

const node = useNode();

onBoth('lifetimes', (on) => {
  const stream = () => fresh(node, on);
  /** Creates a stream with a TTL of 3 s; its countdown has restarted when `renew` has run at 2 s and it is there at 4 s. */
  const renews = async (renew: (s: Stream) => Promise<unknown>, body = 'abc'): Promise<number> => {
    const s = stream();
    await s.create({ type: OCTETS, ttl: 3, body });
    await sleep(2_000);
    await renew(s);
    await sleep(2_000);
    return (await s.head()).status;
  };

  describe.concurrent('side by side', () => {
    it('TTL-01 ERR-03 the form of Stream-TTL', async () => {
      for (const ttl of ['+3600', '03600', '3600.0', '3.6e3', '-1', 'abc', '', '1 2', '0x10', '00', '1_000', '٣']) {
        const s = stream();
        const answer = await s.create({ ttl }).catch(() => null);
        if (answer === null) continue; // the client library itself refuses to send it
        expect([ttl, answer.status, answer.code]).toEqual([ttl, 400, 'INVALID_HEADER']);
        expect((await s.head()).status).toBe(404);
      }
      expect((await stream().create({ ttl: '03600' })).message).toMatch(/leading zero/i);
      expect((await stream().create({ ttl: '3600' })).status).toBe(201);
    });

    it('TTL-02 TTL-07 INC-02 an untouched stream is missing after its TTL, and can be created anew', async () => {
      const s = stream();
      const { incarnation } = await s.create({ ttl: 1, type: TEXT, body: 'old' });
      await sleep(1_300);
      expect((await s.read()).status).toBe(404);
      expect((await s.head()).status).toBe(404);
      expect((await s.append('x')).status).toBe(404);
      expect((await s.delete()).status).toBe(404);
      const again = await s.create({ type: OCTETS });
      expect(again.status).toBe(201);
      expect(again.incarnation).not.toBe(incarnation);
      expect((await s.read()).text).toBe('');
    });

    it('TTL-03 a read restarts the countdown', async () => expect(await renews((s) => s.read())).toBe(200));
    it('TTL-03 a write restarts the countdown', async () => expect(await renews((s) => s.append('x'))).toBe(200));
    it('TTL-03 a read at the tail restarts the countdown', async () => expect(await renews((s) => s.read({ offset: 'now' }))).toBe(200));
    it('TTL-09 a close restarts the countdown', async () => expect(await renews((s) => s.close())).toBe(200));
    it('TTL-09 a keyed write and its repeat restart the countdown', async () =>
      expect(
        await renews(async (s) => {
          await s.append('x', { producer: ['p', 0, 0] });
          await sleep(1_500);
          expect((await s.append('x', { producer: ['p', 0, 0] })).status).toBe(204);
        }),
      ).toBe(200));
    it('TTL-09 a bootstrap restarts the countdown', async () => expect(await renews((s) => (on.name === 'bucketed' ? s : twin(s)).bootstrap())).toBe(200));
    it('TTL-09 a 304 restarts the countdown', async () =>
      expect(
        await renews(async (s) => {
          const etag = (await s.read()).need('etag');
          await sleep(1_500);
          expect((await s.read({ offset: '-1' }, { 'if-none-match': etag })).status).toBe(304);
        }),
      ).toBe(200));
    it('TTL-09 a snapshot, its read and a retention restart the countdown', async () =>
      expect(
        await renews(async (s) => {
          const b = on.name === 'bucketed' ? s : twin(s);
          expect((await b.publish('3', 'snap')).status).toBe(204);
          await sleep(1_500);
          expect((await b.sub('GET', 'snapshot/3')).status).toBe(200);
          await sleep(1_500);
          expect((await b.retain('3')).status).toBe(204);
        }),
      ).toBe(200));
    it('TTL-08 a read refused with 412 does not restart it', async () =>
      expect(
        await renews(async (s) => {
          for (const live of [undefined, 'long-poll', 'sse']) expect((await s.read({ offset: '-1', live }, { 'stream-incarnation': '4503599627370497' })).status).toBe(412);
        }),
      ).toBe(404));
    it('TTL-09 a refused write does not restart it', async () => expect(await renews((s) => s.append('x', { type: 'text/html' }))).toBe(404));
    it('HD-10 R076 HEAD does not restart it', async () => expect(await renews((s) => s.head())).toBe(404));
    it('TTL-04 a long-poll restarts it when it starts', async () => expect(await renews(async (s) => s.poll(await s.tail(), { timeout_ms: 1 }))).toBe(200));

    it('R076 reads in time keep a stream alive for several windows', async () => {
      const s = stream();
      await s.create({ ttl: 2, type: TEXT });
      for (let i = 0; i < 5; i += 1) {
        await sleep(1_200);
        expect((await s.read()).status).toBe(200);
      }
    });

    it('TTL-05 the form of Stream-Expires-At', async () => {
      for (const expiresAt of ['not-a-timestamp', '', '2099-01-01', '2099-13-01T00:00:00Z', '2099-02-30T00:00:00Z', '2099-01-01T25:00:00Z', '2099-01-01T00:00:00', '2099-01-01 00:00:00', '4070908800', '2099-1-1T0:0:0Z', 'Thu, 01 Jan 2099 00:00:00 GMT']) {
        const s = stream();
        const answer = await s.create({ expiresAt });
        expect([expiresAt, answer.status, (await s.head()).status]).toEqual([expiresAt, 400, 404]);
      }
      for (const expiresAt of ['2099-01-01T00:00:00Z', '2099-01-01T00:00:00+00:00', '2099-01-01T00:00:00.123456Z', '2099-01-01t00:00:00z', '2096-02-29T23:59:59-11:30']) {
        expect([expiresAt, (await stream().create({ expiresAt })).status]).toEqual([expiresAt, 201]);
      }
    });

    it('TTL-06 an expiry time is absolute', async () => {
      const s = stream();
      await s.create({ type: TEXT, expiresAt: new Date(Date.now() + 3_000).toISOString() });
      await sleep(2_000);
      expect((await s.read()).status).toBe(200);
      expect((await s.append('x')).status).toBe(204);
      await sleep(1_400);
      expect((await s.read()).status).toBe(404);
    });

    it('TTL-10 a long-poll that waits longer than the TTL holds the stream', async () => {
      const s = stream();
      await s.create({ ttl: 1, type: TEXT });
      const waiting = s.poll(await s.tail(), { timeout_ms: 2_600 });
      expect((await waiting).status).toBe(204);
      expect((await s.head()).status).toBe(200);
      await sleep(1_500);
      expect((await s.head()).status).toBe(404);
    });

    it('TTL-10 a live reader holds the stream', async () => {
      const s = stream();
      await s.create({ ttl: 1, type: TEXT });
      const sse = await s.sse('-1');
      await sse.control();
      await sleep(2_600);
      expect((await s.head()).status).toBe(200);
      expect((await s.append('there')).status).toBe(204);
      expect((await sse.next()).data).toBe('there');
      sse.close();
      await sleep(2_000);
      expect((await s.head()).status).toBe(404);
    });

    it('TTL-11 zero and past times expire at once, huge ones never', async () => {
      const zero = stream();
      expect((await zero.create({ ttl: '0' })).status).toBe(201);
      expect((await zero.read()).status).toBe(404);
      const past = stream();
      expect((await past.create({ expiresAt: '2001-01-01T00:00:00Z' })).status).toBe(201);
      expect((await past.head()).status).toBe(404);
      const huge = stream();
      const digits = '9'.repeat(20);
      expect((await huge.create({ ttl: digits })).status).toBe(201);
      const head = await huge.head();
      expect([head.status, head.header('stream-ttl')]).toEqual([200, digits]);
      expect((await huge.create({ ttl: digits })).status).toBe(200);
    });

    it('TTL-12 expiry times compare as instants', async () => {
      const s = stream();
      await s.create({ expiresAt: '2099-01-01T00:00:00Z' });
      for (const same of ['2099-01-01T00:00:00+00:00', '2099-01-01T01:00:00+01:00', '2099-01-01T00:00:00.000Z']) expect([same, (await s.put({ expiresAt: same })).status]).toEqual([same, 200]);
      expect((await s.put({ expiresAt: '2099-01-01T00:00:00.001Z' })).status).toBe(409);
    });

  });
});

describe('lifetimes and the store', () => {
  const quiet = ownNode({ FIRN_SEAL_AGE_MS: '3600000' });
  beforeAll(() => quiet.start(), 60_000);
  const metric = async (name: string): Promise<number> => Number((await quiet.admin.send('GET', '/__firn/metrics')).text.split('\n').find((line) => line.startsWith(name))?.split(' ').at(-1));

  it('TTL-03 R147 thousands of reads of a stream with a TTL are hardly a write', { timeout: 60_000 }, async () => {
    const s = new Stream(quiet.http, '/short/read');
    await s.create({ type: TEXT, body: 'abc', ttl: 3_600 });
    const before = await metric('firn_commit_seconds_count');
    for (let i = 0; i < 100; i += 1) await Promise.all(Array.from({ length: 30 }, () => s.read()));
    expect((await metric('firn_commit_seconds_count')) - before).toBeLessThan(10);
    await s.delete();
  });

  it('TTL-02 R078 streams that nobody touches go by themselves, and give back their room', { timeout: 60_000 }, async () => {
    const streams = Array.from({ length: 600 }, (_, i) => new Stream(quiet.http, `/short/s${i}`));
    const until = new Date(Date.now() + 3_000).toISOString();
    await Promise.all(streams.map((s, i) => s.create({ type: OCTETS, body: Buffer.alloc(1_000), ...(i % 2 === 0 ? { ttl: 1 } : { expiresAt: until }) })));
    const kept = new Stream(quiet.http, '/short/kept');
    await kept.create({ type: OCTETS, body: 'abc', ttl: 3_600 });
    expect(await metric('firn_unsealed_bytes')).toBe(600_003);
    const deadline = Date.now() + 30_000;
    while ((await metric('firn_unsealed_bytes')) > 3 && Date.now() < deadline) await sleep(200);
    expect(await metric('firn_unsealed_bytes')).toBe(3);
    expect((await kept.read()).text).toBe('abc');
  });
});
