/** Many live readers, and readers that never read (R052, R053, R127, section "what other servers get wrong"). */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { FirnNode, useNode } from './support/node.js';
import { RawConnection } from './support/raw.js';
import { bytesOf, controlsOf } from './support/sse.js';
import { fresh, OCTETS, sleep, TEXT } from './support/stream.js';

const READERS = 200;
const APPENDED_BYTES = 100 * 1024 * 1024;
/** What all of them may add to the memory of the node, MB. */
const READERS_MB_MAX = 128;
const HEAD_MS_MAX = 200;

/** Resident memory of a process, MB. */
function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

interface Cost {
  readonly residentMb: number;
  readonly headMs: number;
}

/** Appends 100 MiB with so many readers that never read; what it costs at most. */
async function costOf(readers: number): Promise<Cost> {
  const node = new FirnNode();
  try {
    await node.start();
    const s = fresh(node);
    await s.create({ type: OCTETS });
    const idle = await Promise.all(
      Array.from({ length: readers }, async () => {
        const connection = await RawConnection.open(node.url);
        connection.write(`GET ${s.path}?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n`);
        await connection.until((text) => text.includes('event: control'));
        connection.socket.pause();
        return connection;
      }),
    );
    const piece = Buffer.alloc(1024 * 1024, 'never read ');
    const cost = { residentMb: 0, headMs: 0 };
    for (let bytes = 0; bytes < APPENDED_BYTES; bytes += piece.length) {
      expect((await s.append(piece)).status).toBe(204);
      const startedAt = performance.now();
      expect((await s.head()).status).toBe(200);
      cost.headMs = Math.max(cost.headMs, performance.now() - startedAt);
      cost.residentMb = Math.max(cost.residentMb, residentMb(node.pid));
    }
    for (const connection of idle) connection.destroy();
    const sse = await s.sse(String(APPENDED_BYTES - piece.length));
    expect(bytesOf(await sse.through(undefined, 30_000)).equals(piece)).toBe(true);
    sse.close();
    return cost;
  } finally {
    await node.dispose();
  }
}

describe('readers that never read', () => {
  it('R052 200 of them cost neither memory nor the time of others, and miss nothing when they come back', { timeout: 180_000 }, async () => {
    const text = ({ residentMb: mb, headMs: ms }: Cost): string => `${mb.toFixed(0)} MB resident, HEAD ${ms.toFixed(0)} ms at most`;
    const alone = await costOf(0);
    // A machine that is busy with something else delays a HEAD without any reader, and hardly twice; readers would each time.
    let beside = await costOf(READERS);
    if (beside.headMs >= HEAD_MS_MAX) beside = await costOf(READERS);
    process.stdout.write(`100 MiB appended: ${text(alone)}; with ${READERS} readers that never read: ${text(beside)}\n`);
    expect(beside.residentMb - alone.residentMb).toBeLessThan(READERS_MB_MAX);
    expect(beside.headMs).toBeLessThan(Math.max(HEAD_MS_MAX, 2 * alone.headMs));
  });
});

describe('live readers', () => {
  const node = useNode();

  it('every one of 150 readers gets every event once and in order', { timeout: 60_000 }, async () => {
    const s = fresh(node);
    await s.create({ type: TEXT });
    const readers = await Promise.all(Array.from({ length: 150 }, () => s.sse('now')));
    for (const sse of readers) await sse.control();
    let text = '';
    for (let i = 0; i < 100; i += 1) {
      text += `${i};`;
      await s.append(`${i};`);
    }
    const tail = await s.tail();
    for (const sse of readers) {
      const events = await sse.through((control) => control.streamNextOffset === tail, 20_000);
      expect(events.filter((event) => event.event === 'data').map((event) => event.data).join('')).toBe(text);
      const offsets = controlsOf(events).map((control) => control.streamNextOffset);
      expect([...offsets].sort()).toEqual(offsets);
      sse.close();
    }
  });

  it('a slow reader falls behind without holding up a fast one, and gets the same bytes', { timeout: 60_000 }, async () => {
    const s = fresh(node);
    await s.create({ type: OCTETS });
    const slow = await RawConnection.open(node.url);
    slow.write(`GET ${s.path}?offset=-1&live=sse HTTP/1.1\r\nHost: x\r\n\r\n`);
    await slow.until((text) => text.includes('event: control'));
    slow.socket.pause();
    const fast = await s.sse('-1');
    const body = Buffer.alloc(300_000, 'slow and fast ');
    for (let i = 0; i < 40; i += 1) await s.append(body);
    const tail = await s.tail();
    const events = await fast.through((control) => control.streamNextOffset === tail, 20_000);
    expect(bytesOf(events).length).toBe(40 * body.length);
    fast.close();
    slow.socket.resume();
    const whole = await slow.until((text) => text.includes(`"streamNextOffset":"${tail}"`), 20_000);
    const payload = [...slow.received.matchAll(/event: data\r?\n((?:data: ?[^\r\n]*\r?\n)+)/g)].map((match) => (match[1] ?? '').replaceAll(/^data: ?|\r?\n/gm, '')).map((text) => Buffer.from(text, 'base64'));
    const got = Buffer.concat(payload);
    // Either it caught up, or it was cut at an offset from which it may go on.
    expect(whole || slow.closed).toBe(true);
    expect(got.equals(Buffer.alloc(40 * body.length, body).subarray(0, got.length))).toBe(true);
    slow.destroy();
  });

  it('R053 readers that come and go leave no reader counted', { timeout: 60_000 }, async () => {
    const s = fresh(node);
    await s.create({ type: TEXT, body: 'abc' });
    for (let round = 0; round < 10; round += 1) {
      const opened = await Promise.all(Array.from({ length: 20 }, () => RawConnection.open(node.url)));
      for (const connection of opened) connection.write(`GET ${s.path}?offset=now&live=${round % 2 === 0 ? 'sse' : 'long-poll&timeout_ms=60000'} HTTP/1.1\r\nHost: x\r\n\r\n`);
      await sleep(60);
      for (const connection of opened) connection.destroy();
    }
    let left = -1;
    for (let i = 0; i < 50 && left !== 0; i += 1) {
      const seen = (await node.ask('GET', `/__firn/streams${s.path}`)) as { subscribers?: number };
      left = seen.subscribers ?? -1;
      await sleep(100);
    }
    expect(left).toBe(0);
  });

  it('R129 an event stream is not compressed, and each event comes at once', async () => {
    const s = fresh(node);
    await s.create({ type: TEXT });
    const sse = await s.sse('-1', {}, { 'accept-encoding': 'gzip, br, zstd' });
    expect(sse.answer.header('content-encoding') ?? 'identity').toBe('identity');
    await sse.control(1_000);
    for (let i = 0; i < 5; i += 1) {
      await s.append(`${i}`);
      expect((await sse.next(1_000)).data).toBe(`${i}`);
      await sse.control(1_000);
    }
    expect(sse.answer.header('x-accel-buffering')).toBe('no');
    sse.close();
  });
});
