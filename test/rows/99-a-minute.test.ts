/** Whatever takes about a minute, side by side: the longest live reads, stalled bodies and headers. */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { RawConnection } from '../support/raw.js';
import { controlsOf } from '../support/sse.js';
import { BASE, BUCKETED, fresh, TEXT, twin } from '../support/stream.js';

const node = useNode();

describe.concurrent('a minute', { timeout: 150_000 }, () => {
  it('LP-11 a longer wait is clamped to 60 s', async () => {
    const s = fresh(node);
    await s.create();
    const startedAt = performance.now();
    const answer = await s.poll(await s.tail(), { timeout_ms: 600_000 });
    expect(answer.status).toBe(204);
    expect(performance.now() - startedAt).toBeGreaterThan(58_000);
    expect(performance.now() - startedAt).toBeLessThan(66_000);
  });

  it('SSE-12 R059 an idle connection hears something every 20 s and ends cleanly after about 60 s', async () => {
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
  });

  for (const on of [BUCKETED, BASE]) {
    it(`WO-08 a body that stalls is cut with 408 BODY_TOO_SLOW; nothing is applied (${on.name})`, async () => {
      const s = fresh(node, on);
      await s.create({ type: TEXT, body: 'abc' });
      const connection = await RawConnection.open(node.url);
      connection.write(`POST ${s.path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nhalf`);
      const answer = await connection.answer(90_000);
      connection.destroy();
      expect([answer?.status, answer?.body.toString()]).toEqual([408, expect.stringContaining('"BODY_TOO_SLOW"')]);
      expect((await s.read()).text).toBe('abc');
    });
  }

  it('R139 slow headers are cut', async () => {
    const connection = await RawConnection.open(node.url);
    connection.write('GET /demo/x HTTP/1.1\r\nHost: x\r\n');
    const drip = setInterval(() => connection.write('X: y\r\n'), 1_000);
    await connection.until((text) => text.includes('HTTP/1.1 408'), 100_000);
    clearInterval(drip);
    expect(connection.closed || connection.received.includes('HTTP/1.1 408')).toBe(true);
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
