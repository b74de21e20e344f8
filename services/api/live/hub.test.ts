import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Tally } from '../../../shared/observability/index.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Offset } from '../../../shared/protocol/types.js';
import { SseHub, type HubOptions, type HubTimes } from './hub.js';
import { READERS_A_LOOK } from './limits.js';
import { MemoryStream } from './memory-stream.test-support.js';
import { representationOf } from './representation.js';

interface Event {
  readonly type: string;
  readonly data: string;
}

/** A reader over a socket of its own. */
class Reader {
  text = '';
  ended = false;
  constructor(readonly socket: Socket) {
    socket.setEncoding('latin1').on('data', (piece: string) => {
      this.text += piece;
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.ended = true;
    });
  }

  /** Events so far, chunk framing removed and checked. */
  get events(): Event[] {
    let rest = Buffer.from(this.text.slice(this.text.indexOf('\r\n\r\n') + 4), 'latin1');
    let body = '';
    while (rest.length > 0) {
      const line = rest.indexOf('\r\n');
      const size = Number.parseInt(rest.subarray(0, line).toString(), 16);
      if (line < 0 || size === 0 || rest.length < line + 4 + size) break;
      expect(rest.subarray(line + 2 + size, line + 4 + size).toString()).toBe('\r\n');
      body += rest.subarray(line + 2, line + 2 + size).toString('utf8');
      rest = rest.subarray(line + 4 + size);
    }
    return body.split('\n\n').filter((block) => block !== '' && block !== ':').map((block) => {
      const lines = block.split('\n').filter((line) => line !== ':');
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(line[5] === ' ' ? 6 : 5));
      return { type: lines.find((line) => line.startsWith('event: '))?.slice(7) ?? '', data: data.join('\n') };
    });
  }

  get data(): string {
    return this.events.filter((event) => event.type === 'data').map((event) => event.data).join('');
  }

  get controls(): { streamNextOffset: string; streamCursor?: string; upToDate?: boolean; streamClosed?: boolean }[] {
    return this.events.filter((event) => event.type === 'control').map((event) => JSON.parse(event.data) as Reader['controls'][number]);
  }

  /** The answer has ended as HTTP wants it. */
  get complete(): boolean {
    return this.text.endsWith('\r\n0\r\n\r\n');
  }

  async until(condition: () => boolean): Promise<void> {
    const deadline = Date.now() + 3_000;
    while (!condition()) {
      if (Date.now() > deadline) throw new Error(`not within 3 s: ${condition.toString()}; got ${JSON.stringify(this.text.slice(-500))}`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }
}

let stream: MemoryStream;
let hub: SseHub;
let server: Server;
let nowMs: number;
const cut = new Tally();
let failures: unknown[];
/** Readers that are over, by hub: connections of an earlier test may close late. */
const overOf = new Map<SseHub, number>();
const sockets: Socket[] = [];
/** The other ends. */
const served: Socket[] = [];

interface Attach {
  readonly start?: number;
  readonly maxBytes?: number;
  readonly cursor?: string;
  readonly withToken?: boolean;
  readonly dialect?: 'base' | 'bucketed';
}
const over = (): number => overOf.get(hub) ?? 0;

function begin(contentType: string, content: string | Buffer = '', times: Partial<HubTimes> = {}, limits: Pick<HubOptions, 'largeEventsBytesMax' | 'fanOutTurnMs'> = {}): void {
  stream = new MemoryStream(contentType, content);
  hub = new SseHub({ now: () => nowMs, random: () => 0, cut, onFailure: (error) => failures.push(error), times: { tickMs: 1_000, ...times }, ...limits });
}

async function attach(how: Attach = {}): Promise<Reader> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  sockets.push(socket);
  await once(socket, 'connect');
  const reader = new Reader(socket);
  socket.write(`GET /?${encodeURIComponent(JSON.stringify(how))} HTTP/1.1\r\nHost: x\r\n\r\n`);
  await reader.until(() => reader.text.includes('\r\n\r\n'));
  return reader;
}

beforeEach(async () => {
  nowMs = 1_800_000_000_000;
  failures = [];
  cut.value = 0;
  server = createServer((req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    res.flushHeaders();
    served.push(res.socket!);
    const { start = 0, maxBytes = 8_388_608, cursor = null, withToken = false, dialect = 'bucketed' } = JSON.parse(decodeURIComponent(req.url!.slice(2))) as Attach;
    const mine = hub;
    hub.add({
      handle: stream.open(), start: start as Offset, representation: representationOf(stream.record!.contentType, dialect), maxBytes, cursor, withToken, res,
      onOver: () => {
        overOf.set(mine, (overOf.get(mine) ?? 0) + 1);
      },
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  hub.close();
});

const offset = (position: number): string => String(position).padStart(20, '0');

describe('the SSE hub', () => {
  it('SSE-05 SSE-06 SSE-08 replays, then follows, a control after each data event', async () => {
    begin('text/plain', 'one');
    const reader = await attach();
    await reader.until(() => reader.controls.at(-1)?.upToDate === true);
    stream.append('two');
    await reader.until(() => reader.data === 'onetwo');
    expect(reader.events.map((event) => event.type)).toEqual(['data', 'control', 'data', 'control']);
    expect(reader.controls.map((control) => control.streamNextOffset)).toEqual([offset(3), offset(6)]);
    expect(failures).toEqual([]);
  });

  it('SSE-08 a reader that shares what another one is reading is not told that this is all, when more was appended since', async () => {
    begin('text/plain', 'one');
    let release: () => void = () => undefined;
    stream.bodyGate = new Promise((resolve) => {
      release = resolve;
    });
    const first = await attach();
    await first.until(() => stream.reads === 1);
    stream.append('two');
    const second = await attach();
    await new Promise((resolve) => setTimeout(resolve, 20));
    stream.bodyGate = Promise.resolve();
    release();
    for (const reader of [first, second]) {
      await reader.until(() => reader.controls.at(-1)?.upToDate === true);
      expect(reader.data).toBe('onetwo');
      expect(reader.controls.map((control) => [control.streamNextOffset, control.upToDate])).toEqual([[offset(3), undefined], [offset(6), true]]);
    }
  });

  it('SSE-22 OFF-13 greets a reader at the tail at once', async () => {
    begin('application/octet-stream', 'old');
    const reader = await attach({ start: 3 });
    await reader.until(() => reader.controls.length === 1);
    expect(reader.events).toHaveLength(1);
    expect(reader.controls[0]).toMatchObject({ streamNextOffset: offset(3), upToDate: true });
  });

  it('reads nothing from storage for readers at the tail, and opens one handle for all of them', async () => {
    begin('application/json');
    const readers = await Promise.all([attach(), attach(), attach({ maxBytes: 100 })]);
    for (const reader of readers) await reader.until(() => reader.controls.length === 1);
    expect(stream.handles).toBe(1);
    const before = stream.reads;
    for (let i = 0; i < 5; i++) {
      stream.append(`{"n":${i}}\n`);
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    for (const reader of readers) await reader.until(() => reader.data.includes('{"n":4}'));
    expect(stream.reads).toBe(before);
    for (const reader of readers) expect(reader.data).toBe('{"n":0}\n{"n":1}\n{"n":2}\n{"n":3}\n{"n":4}\n');
  });

  it('SIZE-02 SIZE-06 gives a reader with a smaller max_bytes events of its own', async () => {
    begin('application/octet-stream');
    const [all, few] = await Promise.all([attach(), attach({ maxBytes: 2 })]);
    await all.until(() => all.controls.length === 1 && few.controls.length === 1);
    stream.append('abcde');
    await all.until(() => all.controls.length === 2);
    await few.until(() => few.controls.at(-1)?.streamNextOffset === offset(5));
    expect(all.data).toBe(Buffer.from('abcde').toString('base64'));
    expect(few.events.filter((event) => event.type === 'data').map((event) => Buffer.from(event.data, 'base64').toString())).toEqual(['ab', 'cd', 'e']);
    stream.append('f');
    await few.until(() => few.controls.at(-1)?.streamNextOffset === offset(6));
  });

  it('SSE-17 gives the base surface one array of the messages that became durable together', async () => {
    begin('application/json');
    const reader = await attach({ dialect: 'base' });
    await reader.until(() => reader.controls.length === 1);
    stream.append('1\n');
    stream.append('2\n3\n');
    await reader.until(() => reader.controls.length === 2);
    expect(reader.data).toBe('[1,2,3]');
  });

  it('R057 SSE-21 holds a character back until its last byte, also across live appends', async () => {
    begin('text/plain');
    const reader = await attach();
    await reader.until(() => reader.controls.length === 1);
    for (const byte of Buffer.from('é€😀')) {
      stream.append(Buffer.from([byte]));
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    await reader.until(() => reader.data === 'é€😀');
    expect(reader.controls.map((control) => control.streamNextOffset)).toEqual([offset(0), offset(2), offset(5), offset(9)]);
    expect(reader.text).not.toContain('\ufffd');
  });

  it('R057 a reader that comes amid a character shares the events that follow', async () => {
    begin('text/plain', Buffer.from('x€').subarray(0, 3));
    const first = await attach();
    await first.until(() => first.controls.length === 1);
    expect([first.data, first.controls[0]]).toEqual(['x', { streamNextOffset: offset(1), streamCursor: expect.any(String) as string }]);
    const inside = await attach({ start: 2 });
    await inside.until(() => inside.controls.length === 1);
    stream.append(Buffer.from('€y').subarray(2));
    await first.until(() => first.data === 'x€y');
    await inside.until(() => inside.controls.at(-1)?.streamNextOffset === offset(5));
    expect(first.controls.at(-1)).toMatchObject({ streamNextOffset: offset(5), upToDate: true });
  });

  it('SSE-09 SSE-11 R051 delivers the bytes of an append-and-close, then the closing control, then ends', async () => {
    for (let round = 0; round < 20; round++) {
      begin('text/plain', 'a');
      const [tail, replay] = await Promise.all([attach({ start: 1 }), attach()]);
      await tail.until(() => tail.controls.length === 1);
      stream.append('last', true);
      for (const reader of [tail, replay]) await reader.until(() => reader.complete);
      expect([tail.data, replay.data]).toEqual(['last', 'alast']);
      expect(tail.controls.at(-1)).toEqual({ streamNextOffset: offset(5), upToDate: true, streamClosed: true });
      hub.close();
    }
  });

  it('SSE-10 answers a reader at the tail of a closed stream with one control', async () => {
    begin('text/plain', 'a');
    stream.append('', true);
    const reader = await attach({ start: 1 });
    await reader.until(() => reader.complete);
    expect(reader.events).toHaveLength(1);
    expect(reader.controls[0]).toEqual({ streamNextOffset: offset(1), upToDate: true, streamClosed: true });
  });

  it('SSE-24 ends a closed text stream that stops amid a character with U+FFFD', async () => {
    begin('text/plain');
    const reader = await attach();
    await reader.until(() => reader.controls.length === 1);
    stream.append(Buffer.from([0x61, 0xe2, 0x82]));
    await reader.until(() => reader.controls.length === 2);
    expect(reader.controls[1]).not.toHaveProperty('upToDate');
    stream.append('', true);
    await reader.until(() => reader.complete);
    expect(reader.data).toBe('a\ufffd');
    expect(reader.controls.at(-1)?.streamNextOffset).toBe(offset(3));
  });

  it('SSE-19 INC-19 DEL-07 ends with an error event when the stream is deleted or another one', async () => {
    for (const [withToken, recreate, code] of [[true, false, 'STREAM_NOT_FOUND'], [true, true, 'INCARNATION_MISMATCH'], [false, true, 'STREAM_NOT_FOUND']] as const) {
      begin('text/plain', 'a');
      const reader = await attach({ withToken });
      await reader.until(() => reader.controls.length === 1);
      if (recreate) stream.recreate();
      else stream.delete();
      await reader.until(() => reader.complete);
      expect(reader.events.at(-1)?.type).toBe('error');
      expect(JSON.parse(reader.events.at(-1)!.data)).toMatchObject({ error: { code } });
      hub.close();
    }
  });

  it('SSE-19 I9 ends with an error event when storage fails, and tells what failed to the log alone', async () => {
    begin('text/plain', 'a');
    stream.failure = new FirnError('STREAM_GONE');
    const gone = await attach();
    await gone.until(() => gone.complete);
    expect(JSON.parse(gone.events.at(-1)!.data)).toMatchObject({ error: { code: 'STREAM_GONE' } });
    expect(failures).toEqual([]);
    stream.failure = new Error('secret of the disk');
    const broken = await attach();
    await broken.until(() => broken.complete);
    expect(JSON.parse(broken.events.at(-1)!.data)).toMatchObject({ error: { code: 'INTERNAL' } });
    expect(broken.text).not.toContain('secret');
    expect(failures).toHaveLength(1);
  });

  it('finds bytes that became visible without an event of their own', async () => {
    begin('text/plain', 'a');
    const reader = await attach();
    await reader.until(() => reader.controls.length === 1);
    stream.appendUnseen('b');
    await reader.until(() => reader.data === 'ab');
    stream.append('c');
    await reader.until(() => reader.data === 'abc');
  });

  it('says nothing about changes that no reader sees', async () => {
    begin('text/plain', 'a');
    const reader = await attach();
    await reader.until(() => reader.controls.length === 1);
    stream.touch();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(reader.events).toHaveLength(2);
  });

  it('CACHE-10 CACHE-11 moves a cursor past the one that was sent, and never back', async () => {
    begin('application/octet-stream');
    const plain = await attach();
    await plain.until(() => plain.controls.length === 1);
    const common = plain.controls[0]!.streamCursor!;
    const ahead = await attach({ cursor: String(Number(common) + 1000) });
    await ahead.until(() => ahead.controls.length === 1);
    expect(Number(ahead.controls[0]!.streamCursor)).toBeGreaterThan(Number(common) + 1000);
    stream.append('a');
    nowMs += 20_000;
    stream.append('b');
    await ahead.until(() => ahead.controls.at(-1)?.streamNextOffset === offset(2));
    await plain.until(() => plain.controls.at(-1)?.streamNextOffset === offset(2));
    expect(ahead.controls.at(-1)!.streamCursor).toBe(ahead.controls[0]!.streamCursor);
    expect(Number(plain.controls.at(-1)!.streamCursor)).toBe(Number(common) + 1);
    expect(ahead.data).toBe(plain.data);
  });
});

describe('times of SSE readers', () => {
  /** Readers whose event takes several turns to go out; between two of these `amid` runs, told how many readers it has reached. */
  async function amidRound(amid: (reached: number) => void): Promise<Reader[]> {
    begin('text/plain', '', {}, { fanOutTurnMs: 0 });
    const readers: Reader[] = [];
    for (let n = 0; n < 3 * READERS_A_LOOK; n++) readers.push(await attach());
    for (const reader of readers) await reader.until(() => reader.controls.length === 1);
    const ends = served.slice(-readers.length);
    const before = ends.map((socket) => socket.bytesWritten);
    stream.append('first.');
    for (let turn = 0; turn < 5 && ends.every((socket, index) => socket.bytesWritten === before[index]); turn++) await new Promise((resolve) => setImmediate(resolve));
    amid(ends.filter((socket, index) => socket.bytesWritten > before[index]!).length);
    return readers;
  }

  it.each<[string, () => void, string, boolean]>([
    ['another append', () => stream.append('second.'), 'first.second.', false],
    ['an append too large to share', () => stream.append('x'.repeat(600_000)), `first.${'x'.repeat(600_000)}`, false],
    ['an append that closes', () => stream.append('last.', true), 'first.last.', true],
    ['a close', () => stream.append('', true), 'first.', true],
    ['bytes without an event', () => stream.appendUnseen('unseen.'), 'first.unseen.', false],
  ])('R052 SSE-05 SSE-11 amid an event for many readers others have their turn, and %s reaches each of them', async (_what, change, data, ends) => {
    let reached = 0;
    const readers = await amidRound((written) => {
      reached = written;
      change();
    });
    expect(reached).toBeGreaterThan(0);
    expect(reached).toBeLessThan(readers.length);
    for (const reader of readers) await reader.until(() => reader.data.length >= data.length && reader.complete === ends);
    for (const reader of readers) {
      expect(reader.data).toBe(data);
      expect(reader.controls.at(-1)).toMatchObject(ends ? { streamClosed: true } : { upToDate: true });
    }
  });

  it('SSE-19 SSE-12 amid an event for many readers a deletion ends each of them, and a shutdown gives each a place to go on', async () => {
    const gone = await amidRound(() => stream.delete());
    for (const reader of gone) await reader.until(() => reader.complete);
    for (const reader of gone) expect(reader.events.at(-1)?.type).toBe('error');
    hub.close();
    const left = await amidRound(() => hub.shutdown());
    for (const reader of left) await reader.until(() => reader.complete);
    for (const reader of left) expect(reader.controls.at(-1)?.streamNextOffset).toBe(offset(reader.data.length));
  });

  it('R059 writes a comment to an idle reader, and none to a busy one', async () => {
    begin('text/plain', '', { heartbeatMs: 3_000 });
    const reader = await attach();
    await reader.until(() => reader.controls.length === 1);
    for (let i = 0; i < 3; i++) {
      nowMs += 1_000;
      hub.tick();
    }
    await reader.until(() => reader.text.includes('3\r\n:\n\n\r\n'));
    const length = reader.text.length;
    nowMs += 1_000;
    hub.tick();
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(reader.text).toHaveLength(length);
  });

  it('SSE-12 ends an answer after its life with a control, and the connection stays usable', async () => {
    begin('text/plain', 'a', { lifeMinMs: 5_000, lifeMaxMs: 5_000 });
    const reader = await attach();
    await reader.until(() => reader.controls.length === 1);
    for (let i = 0; i < 5; i++) {
      nowMs += 1_000;
      hub.tick();
    }
    await reader.until(() => reader.complete);
    expect(reader.events.map((event) => event.type)).toEqual(['data', 'control', 'control']);
    expect(reader.controls.at(-1)).not.toHaveProperty('streamClosed');
    expect([hub.size, over(), reader.ended]).toEqual([0, 1, false]);
    reader.text = '';
    reader.socket.write('GET /?{} HTTP/1.1\r\nHost: x\r\n\r\n');
    await reader.until(() => reader.data === 'a');
  });

  it('R052 R127 pauses a reader that does not drain, delays nobody else, and cuts it', async () => {
    begin('application/octet-stream', '', { stallMs: 4_000, heartbeatMs: 2_000 });
    const stuck = await attach();
    const good = await attach();
    await stuck.until(() => stuck.controls.length === 1 && good.controls.length === 1);
    stuck.socket.pause();
    const block = Buffer.alloc(1_048_576, 65);
    let size = 0;
    for (let i = 0; i < 24; i++) {
      stream.append(block);
      size += block.length;
      await good.until(() => good.text.includes(offset(size)));
      good.text = good.text.slice(-400);
    }
    for (let i = 0; i < 12; i++) {
      nowMs += 1_000;
      hub.tick();
    }
    expect(cut.value).toBe(1);
    await good.until(() => hub.size === 1);
    expect(over()).toBe(1);
  });

  it('R052 a reader that drains late reads on from storage and misses nothing', async () => {
    begin('application/octet-stream');
    const reader = await attach();
    await reader.until(() => reader.controls.length === 1);
    reader.socket.pause();
    for (let i = 0; i < 24; i++) {
      stream.append(Buffer.alloc(1_048_576, i));
      await new Promise((resolve) => setImmediate(resolve));
    }
    reader.socket.resume();
    await reader.until(() => reader.text.includes(`${offset(24 * 1_048_576)}","streamCursor"`));
    const all = Buffer.concat(reader.events.filter((event) => event.type === 'data').map((event) => Buffer.from(event.data, 'base64')));
    expect(all.equals(stream.bytes)).toBe(true);
  });

  it('I11 an append above the size of a shared event reaches the tail in pieces, so that no event holds up the node', async () => {
    begin('text/plain');
    const reader = await attach();
    await reader.until(() => reader.controls.length === 1);
    stream.append(Buffer.alloc(1_000_000, 13));
    await reader.until(() => reader.text.includes(`${offset(1_000_000)}"`));
    await reader.until(() => reader.controls.at(-1)?.streamNextOffset === offset(1_000_000));
    const ends = reader.controls.map((control) => Number(control.streamNextOffset));
    for (let i = 1; i < ends.length; i++) expect(ends[i]! - ends[i - 1]!).toBeLessThanOrEqual(262_144);
    expect(reader.data).toBe('\n'.repeat(1_000_000));
  });

  it('I11 large messages for readers that do not read are not all held at once; each reader gets its own in the end', async () => {
    const message = `"${'x'.repeat(12_000_000)}"\n`;
    begin('application/json', message, {}, { largeEventsBytesMax: 15_000_000 });
    const still = await attach({ dialect: 'base' });
    still.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(stream.reads).toBe(2);
    const others = await Promise.all(Array.from({ length: 3 }, () => attach({ dialect: 'base' })));
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (const other of others) expect(other.events).toEqual([]);
    // One leaves, one goes on its way at its end, one stays until the room is free.
    others[0]!.socket.destroy();
    hub.shutdown();
    await others[1]!.until(() => others[1]!.complete);
    expect(others[1]!.controls.at(-1)?.streamNextOffset).toBe(offset(0));
    still.socket.resume();
    await still.until(() => still.complete);
    expect(still.data.length).toBe(message.length - 1 + 2);
    await still.until(() => hub.size === 0);
  });

  it('R053 forgets a reader that leaves, whatever it was doing', async () => {
    begin('text/plain', 'x'.repeat(1000));
    let open = (): void => undefined;
    stream.gate = new Promise((resolve) => {
      open = resolve;
    });
    const reading = await attach();
    const waiting = await attach({ start: 1000 });
    await waiting.until(() => waiting.controls.length === 1);
    reading.socket.resetAndDestroy();
    waiting.socket.resetAndDestroy();
    await waiting.until(() => over() === 2);
    open();
    await waiting.until(() => stream.handles === 0);
    expect([hub.size, stream.listeners]).toEqual([0, 0]);
  });

  it('R083 ends every reader at shutdown with a control from which it can go on', async () => {
    begin('text/plain', 'abc');
    const readers = await Promise.all([attach(), attach({ start: 3 }), attach({ start: 1 })]);
    for (const reader of readers) await reader.until(() => reader.controls.length === 1);
    hub.shutdown();
    for (const reader of readers) await reader.until(() => reader.complete);
    for (const reader of readers) expect(reader.controls.at(-1)).toMatchObject({ streamNextOffset: offset(3), upToDate: true });
    const late = await attach();
    await late.until(() => late.complete);
    expect(late.controls.length).toBeGreaterThan(0);
    expect(hub.size).toBe(0);
  });

  it('frames nothing itself for a client of HTTP/1.0', async () => {
    begin('text/plain', 'a');
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    sockets.push(socket);
    const reader = new Reader(socket);
    socket.write('GET /?{} HTTP/1.0\r\n\r\n');
    await reader.until(() => reader.text.includes('upToDate'));
    stream.append('b', true);
    await reader.until(() => reader.ended);
    expect(reader.text.split('\r\n\r\n')[1]).toMatch(/^event: data\ndata:a\n\nevent: control\n.*\n\nevent: data\ndata:b\n\nevent: control\n.*"streamClosed":true\}\n\n$/);
  });
});
