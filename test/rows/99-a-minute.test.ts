/** Whatever takes about a minute, side by side: the longest live reads, stalled bodies and headers, idle connections. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { RawConnection } from '../support/raw.js';
import { controlsOf } from '../support/sse.js';
import { BASE, BUCKETED, fresh, OCTETS, sleep, TEXT, twin } from '../support/stream.js';

const node = useNode();

describe.concurrent('a minute', { timeout: 180_000 }, () => {
  it('LP-11 a longer wait is clamped to 60 s', async () => {
    const s = fresh(node);
    await s.create();
    const startedAt = performance.now();
    const answer = await s.poll(await s.tail(), { timeout_ms: 600_000 });
    expect(answer.status).toBe(204);
    expect(performance.now() - startedAt).toBeGreaterThan(58_000);
    expect(performance.now() - startedAt).toBeLessThan(66_000);
  });

  it('SSE-12 R059 R131 an idle connection hears something every 20 s and ends cleanly after about 60 s; who comes again goes on at once', async () => {
    const s = fresh(node);
    await s.create({ type: TEXT });
    const startedAt = Date.now();
    const readers = await Promise.all([s.sse('-1'), twin(s).sse('-1')]);
    const [first] = readers;
    let heard = 0;
    let heardAt = Date.now();
    let quietestMs = 0;
    const watch = setInterval(() => {
      if (first.wire.length > heard) heardAt = Date.now();
      heard = first.wire.length;
      if (first.ended === null) quietestMs = Math.max(quietestMs, Date.now() - heardAt);
    }, 200);
    for (const reader of readers) {
      expect(await reader.end(80_000)).toBe('clean');
      expect(Date.now() - startedAt).toBeGreaterThan(50_000);
      expect(Date.now() - startedAt).toBeLessThan(72_000);
      expect(reader.events.some((event) => event.event === 'error')).toBe(false);
      expect(controlsOf(reader.events).some((control) => control.streamClosed)).toBe(false);
    }
    clearInterval(watch);
    expect(quietestMs).toBeLessThan(21_000);
    const from = controlsOf(first.events).at(-1)!.streamNextOffset;
    await s.append('between');
    for (const reader of [s, twin(s)]) {
      const again = await reader.sse(from);
      expect((await again.next(1_000)).data).toBe('between');
      expect((await again.control(1_000)).upToDate).toBe(true);
      again.close();
    }
  });

  it('R127 a reader that never reads is let go of at the end of its time at the latest, and holds nothing', async () => {
    const s = fresh(node);
    await s.create({ type: OCTETS });
    const readers = await Promise.all(
      ['sse', 'sse', 'long-poll&timeout_ms=60000'].map(async (live, i) => {
        const connection = await RawConnection.open(node.url);
        connection.write(`GET ${i === 1 ? '/v1/stream' : ''}${s.path}?offset=${i === 2 ? 'now' : '-1'}&live=${live} HTTP/1.1\r\nHost: x\r\n\r\n`);
        await sleep(200);
        connection.socket.pause();
        return connection;
      }),
    );
    const subscribers = async () => ((await node.ask('GET', `/__firn/streams${s.path}`)) as { readonly subscribers: number }).subscribers;
    expect(await subscribers()).toBe(3);
    for (let i = 0; i < 16; i += 1) await s.append(Buffer.alloc(1_000_000, 'never read '));
    const startedAt = Date.now();
    while ((await subscribers()) > 0 && Date.now() - startedAt < 90_000) await sleep(500);
    expect(await subscribers()).toBe(0);
    expect(Date.now() - startedAt).toBeLessThan(75_000);
    for (const connection of readers) connection.destroy();
  });

  for (const on of [BUCKETED, BASE]) {
    it(`WO-02 WO-08 R139 a body that stalls or trickles is cut with 408 BODY_TOO_SLOW; nothing is applied (${on.name})`, async () => {
      const s = fresh(node, on);
      await s.create({ type: TEXT, body: 'abc' });
      const stalled = async (line: string, close: boolean, bytesPerSecond: number): Promise<void> => {
        const connection = await RawConnection.open(node.url);
        connection.write(`${line} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nStream-Closed: ${close}\r\nContent-Length: 1000\r\n\r\nhalf`);
        const trickle = setInterval(() => connection.write('x'.repeat(bytesPerSecond)), 1_000);
        const answer = await connection.answer(90_000);
        clearInterval(trickle);
        connection.destroy();
        expect([line, answer?.status, answer?.body.toString()]).toEqual([line, 408, expect.stringContaining('"BODY_TOO_SLOW"')]);
      };
      await Promise.all([0, 1].flatMap((rate) => [stalled(`POST ${s.path}`, false, rate), stalled(`POST ${s.path}`, true, rate), stalled(`PUT ${s.path}x`, false, rate)]));
      const read = await s.read();
      expect([read.text, read.closed]).toEqual(['abc', false]);
      expect((await node.http.send('HEAD', `${s.path}x`)).status).toBe(404);
    });
  }

  it('R072 an idle connection outlives the pools in front, and a request at the end of its time is answered or was not applied', async () => {
    const s = fresh(node);
    await s.create({ type: TEXT });
    const opened = await Promise.all(
      Array.from({ length: 320 }, async () => {
        const connection = await RawConnection.open(node.url);
        connection.write(`HEAD ${s.path} HTTP/1.1\r\nHost: x\r\n\r\n`);
        expect((await connection.answer(10_000, true))?.status).toBe(200);
        return connection;
      }),
    );
    const startedAt = performance.now();
    // Some after the 60 s of common pools, the others one after another around the instants at which idle ones are closed.
    const outcomes = await Promise.all(
      opened.map(async (connection, i) => {
        const atMs = i < 20 ? 62_000 : 74_000 + (i - 20) * 40;
        await sleep(atMs - (performance.now() - startedAt));
        const marker = `<${i}>`;
        connection.write(`POST ${s.path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: ${marker.length}\r\n\r\n${marker}`);
        const answer = await connection.answer(5_000);
        connection.destroy();
        return { marker, status: answer?.status ?? null };
      }),
    );
    for (const { marker, status } of outcomes.slice(0, 20)) expect([marker, status]).toEqual([marker, 204]);
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set([204, null]));
    const stored = (await s.read()).text.match(/<\d+>/g) ?? [];
    expect([...stored].sort()).toEqual(outcomes.filter(({ status }) => status === 204).map(({ marker }) => marker).sort());
  });

  it('R139 slow headers are cut', async () => {
    const connection = await RawConnection.open(node.url);
    connection.write('GET /demo/x HTTP/1.1\r\nHost: x\r\n');
    const startedAt = performance.now();
    const drip = setInterval(() => connection.write('X: y\r\n'), 1_000);
    await connection.until((text) => text.includes('HTTP/1.1 408'), 100_000);
    clearInterval(drip);
    expect(connection.closed || connection.received.includes('HTTP/1.1 408')).toBe(true);
    expect(performance.now() - startedAt).toBeLessThan(25_000);
    connection.destroy();
  });

  it('R139 a slow but steady body is taken', async () => {
    const s = fresh(node);
    await s.create({ type: TEXT });
    const connection = await RawConnection.open(node.url);
    const bytes = 800_000;
    connection.write(`POST ${s.path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: ${bytes}\r\n\r\n`);
    for (let sent = 0; sent < bytes; sent += 20_000) {
      connection.write(Buffer.alloc(20_000, 'x'));
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
    expect((await connection.answer())?.status).toBe(204);
    connection.destroy();
    expect(Number(await s.tail())).toBe(bytes);
  });
});
