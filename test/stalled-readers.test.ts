/** Catch-up reads of clients that never read what they asked for: what they cost a node, and what they get when they read after all (R053, I11). */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { FirnNode, type Env } from './support/node.js';
import { fresh, OCTETS, sleep, type Stream } from './support/stream.js';

const READERS = 200;
const MB = 1_048_576;
const STREAM_BYTES = 32 * MB;
/** Most bytes of one answer. */
const WINDOW_BYTES = 8 * MB;
const HEADS = 40;
const ROUNDS = 12;
/** What all of them may hold, MB: a piece of 256 KiB each, one more of the few that may read ahead, and as much again for what is not collected when it is looked at. */
const HELD_MB_MAX = 128;
const HEAD_MS_MAX = 200;
const WAKE_MS_MAX = 60_000;

/** Resident memory of a process, MB. */
function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024;
}

/** A client that asks and takes nothing until it is woken. */
class StalledReader {
  readonly #socket: Socket;
  readonly #start: number;

  private constructor(socket: Socket, start: number) {
    this.#socket = socket;
    this.#start = start;
  }

  static async open(node: FirnNode, path: string, start: number): Promise<StalledReader> {
    const { hostname, port } = new URL(node.url);
    const socket = connect({ host: hostname, port: Number(port) });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    socket.pause();
    socket.write(`GET ${path}?offset=${String(start).padStart(20, '0')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    return new StalledReader(socket, start);
  }

  /** Reads to the end of the answer; how many bytes came that are those of the stream, -1: others were among them. */
  wake(stream: Buffer): Promise<number> {
    return new Promise((resolve) => {
      let head = '';
      let at = this.#start;
      let wrong = false;
      this.#socket.on('data', (piece: Buffer) => {
        let body = piece;
        if (!head.endsWith('\r\n\r\n')) {
          const end = piece.indexOf('\r\n\r\n');
          head += piece.toString('latin1', 0, end < 0 ? piece.length : end + 4);
          body = end < 0 ? Buffer.alloc(0) : piece.subarray(end + 4);
        }
        wrong ||= !body.equals(stream.subarray(at, at + body.length));
        at += body.length;
      });
      this.#socket.on('error', () => undefined);
      this.#socket.on('close', () => resolve(wrong || !head.startsWith('HTTP/1.1 200') ? -1 : at - this.#start));
      this.#socket.resume();
    });
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

async function fill(s: Stream): Promise<Buffer> {
  const bytes = randomBytes(STREAM_BYTES);
  await s.create({ type: OCTETS });
  for (let at = 0; at < bytes.length; at += MB) expect((await s.append(bytes.subarray(at, at + MB))).status).toBe(204);
  return bytes;
}

async function readAll(s: Stream): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let offset = '-1'; ; ) {
    const answer = await s.read({ offset });
    pieces.push(answer.body);
    if (answer.upToDate) return Buffer.concat(pieces);
    offset = answer.next;
  }
}

/** The longest of so many HEADs, ms. */
async function slowestHead(s: Stream): Promise<number> {
  let longest = 0;
  for (let n = 0; n < HEADS; n++) {
    const startedAt = performance.now();
    expect((await s.head()).status).toBe(200);
    longest = Math.max(longest, performance.now() - startedAt);
    await sleep(25);
  }
  return longest;
}

async function metric(node: FirnNode, name: string): Promise<number> {
  const line = (await node.admin.send('GET', '/__firn/metrics')).text.split('\n').find((text) => text.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

/** Memory of buffers, MB, while somebody reads the stream again and again: the least of what was seen, as buffers that nobody holds any more are collected only now and then. */
async function heldMb(node: FirnNode, s: Stream, bytes: Buffer): Promise<number> {
  let least = Infinity;
  let reading = true;
  const looks = (async () => {
    for (; reading; await sleep(20)) least = Math.min(least, (await metric(node, 'nodejs_external_memory_bytes')) / MB);
  })();
  for (let round = 0; round < ROUNDS; round++) expect((await readAll(s)).equals(bytes)).toBe(true);
  reading = false;
  await looks;
  return least;
}

/** Sealed only when asked for. */
const NEVER_SEALED: Env = { FIRN_SEAL_AGE_MS: '3600000', FIRN_SEAL_BYTES: '1073741824' };

interface Tier {
  readonly tier: 'hot' | 'cold';
  readonly settings: Env;
  /** What all of them may add to the resident memory of the node, MB: also buffers of their reads that nobody holds any more, until they are collected. */
  readonly residentMbMax: number;
}

const TIERS: readonly Tier[] = [
  { tier: 'cold', settings: { ...NEVER_SEALED, FIRN_HOT_KEEP_MS: '0' }, residentMbMax: 128 },
  { tier: 'hot', settings: NEVER_SEALED, residentMbMax: 350 },
];

describe('clients that ask for megabytes and take nothing', () => {
  it.each(TIERS)('R053 I11 200 of them, of bytes that are $tier, hold a piece each, delay nobody, and get every byte when they read', { timeout: 180_000 }, async ({ tier, settings, residentMbMax }) => {
    const node = new FirnNode(settings);
    const readers: StalledReader[] = [];
    try {
      await node.start();
      const s = fresh(node);
      const bytes = await fill(s);
      if (tier === 'cold') await node.seal();
      const heldAloneMb = await heldMb(node, s, bytes);
      const aloneMs = await slowestHead(s);
      const before = residentMb(node.pid);
      let most = before;
      const sampler = setInterval(() => (most = Math.max(most, residentMb(node.pid))), 20);
      for (let n = 0; n < READERS; n++) readers.push(await StalledReader.open(node, s.path, Math.floor((n * (STREAM_BYTES - WINDOW_BYTES)) / READERS)));
      // What the system takes for their connections is on its way first.
      await sleep(2_000);
      const besideMs = await slowestHead(s);
      clearInterval(sampler);
      const held = (await heldMb(node, s, bytes)) - heldAloneMb;
      process.stdout.write(`${READERS} readers of ${tier} bytes that take nothing: hold ${held.toFixed(0)} MB, ${(most - before).toFixed(0)} MB resident more than ${before.toFixed(0)}; HEAD ${besideMs.toFixed(0)} ms at most, ${aloneMs.toFixed(0)} ms without them\n`);
      expect(held).toBeLessThan(HELD_MB_MAX);
      expect(most - before).toBeLessThan(residentMbMax);
      // A machine that is busy with something else delays a HEAD without any reader.
      expect(besideMs).toBeLessThan(Math.max(HEAD_MS_MAX, 2 * aloneMs));
      const late = sleep(WAKE_MS_MAX).then(() => 'too late' as const);
      const woken = await Promise.all(readers.map((reader) => Promise.race([reader.wake(bytes), late])));
      expect(new Set(woken)).toEqual(new Set([WINDOW_BYTES]));
      const other = tier === 'cold' ? 'hot' : 'cold';
      expect(await metric(node, `firn_read_bytes_total{tier="${other}"}`)).toBe(0);
      expect(await metric(node, `firn_read_bytes_total{tier="${tier}"}`)).toBeGreaterThanOrEqual(READERS * WINDOW_BYTES);
    } finally {
      for (const reader of readers) reader.destroy();
      await node.dispose();
    }
  });
});
