/**
 * A seeded fuzzer over requests: any mixture of methods, paths, queries, headers and bodies is answered with something below 500 (or 501), never a
 * crash; after the answer the connection takes the next request or is closed in good order; a control stream keeps its bytes.
 *
 * `FIRN_SEED` replays a run, `FIRN_FUZZ_MS` makes it longer.
 */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { seeded } from '../support/random.js';
import type { Random } from '../support/random.js';
import { RawConnection } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS } from '../support/stream.js';
import type { Stream } from '../support/stream.js';

const RUN_MS = Number(process.env['FIRN_FUZZ_MS'] ?? 20_000);
const WORKERS = 6;
const ANSWER_MS_MAX = 5_000;

const node = useNode();

const METHODS = ['GET', 'GET', 'GET', 'PUT', 'PUT', 'POST', 'POST', 'POST', 'HEAD', 'DELETE', 'OPTIONS', 'PATCH'];
const SEGMENTS = ['fuzz', 'fuzz', 'fuzz', 'demo', 'v1', 'stream', '__ds', '__firn', 'a', 'b', 'c', 'bootstrap', 'snapshot', 'retention', 'incarnation', 'chunk', '0', '5', '00000000000000000003', '-1', 'now', '%00', '%FF', '%2F', '..', '%2e', '$x', 'streams', '', '%F0%9F%98%80', 'x'.repeat(130)];
const VALUES = ['', '0', '1', '5', '-1', 'now', 'true', 'TRUE', 'false', '00000000000000000003', '9007199254740991', '9007199254740992', '4503599627370497', '1e3', '+1', 'abc', '%zz', '%00', ' ', '\t', 'é', '*', 'sse', 'long-poll', 'leader', 'local', '"x"', 'W/"x"', 'bytes=0-3', 'bytes=-1', 'bytes=9-2', '2099-01-01T00:00:00Z', 'a'.repeat(300), 'application/json', 'text/plain', OCTETS, 'image/png; x=y', '100-continue', 'gzip', 'gzip;q=0'];
const PARAMETERS = ['offset', 'offset', 'offset', 'live', 'max_bytes', 'timeout_ms', 'cursor', 'consistency', 'x'];
const HEADERS = ['Content-Type', 'Content-Type', 'Stream-Closed', 'Stream-TTL', 'Stream-Expires-At', 'Stream-Seq', 'Stream-Incarnation', 'Producer-Id', 'Producer-Epoch', 'Producer-Seq', 'Producer-Digest', 'If-None-Match', 'Range', 'If-Range', 'Accept-Encoding', 'Origin', 'Expect', 'Stream-Forked-From', 'Stream-Fork-Offset', 'Stream-Snapshot-Parts', 'X-Other'];
/** Values that get a request past the first checks. */
const PLAUSIBLE: Readonly<Record<string, readonly string[]>> = {
  'Content-Type': [OCTETS, 'text/plain', JSON_TYPE], 'Stream-Closed': ['false'], 'Stream-TTL': ['1', '3600'], 'Producer-Id': ['p'], 'Producer-Epoch': ['0', '1'], 'Producer-Seq': ['0', '1', '2'],
  'Stream-Seq': ['1', '2', '3'], Expect: ['100-continue'],
};
const BODIES = ['', 'x', '{}', '[]', '[1,2]', '{"a":', '"\\ud800"', '[[[]]]', ' ', '\x00\xff', '1'.repeat(70_000)];

function path(random: Random): string {
  if (random.chance(0.5)) {
    const tail = random.chance(0.5) ? '' : `/${Array.from({ length: random.int(1, 4) }, () => random.pick(SEGMENTS)).join('/')}`;
    return `${random.pick(['/fuzz/a', '/fuzz/b', '/fuzz/j', '/v1/stream/fuzz/a', '/v1/stream/fuzz/j'])}${tail}`;
  }
  return `/${Array.from({ length: random.int(0, 6) }, () => random.pick(SEGMENTS)).join('/')}`;
}

function query(random: Random): string {
  const count = random.pick([0, 1, 1, 2, 3, 5]);
  const pairs = Array.from({ length: count }, () => `${random.pick(PARAMETERS)}=${random.pick(VALUES)}`);
  // No wait longer than a moment.
  return count === 0 ? '' : `?${pairs.join('&')}&timeout_ms=${random.int(0, 30)}`.replaceAll(' ', '%20').replaceAll('\t', '%09').replaceAll('é', '%C3%A9');
}

function chunked(random: Random, body: Buffer): Buffer {
  const at = random.int(0, body.length);
  const pieces = [body.subarray(0, at), body.subarray(at)].filter((piece) => piece.length > 0);
  return Buffer.concat([...pieces.flatMap((piece) => [Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]), Buffer.from('0\r\n\r\n')]);
}

function request(random: Random): Buffer {
  const method = random.pick(METHODS);
  const lines = [`${method} ${path(random)}${query(random)} HTTP/1.1`, 'Host: fuzz'];
  for (let i = random.pick([0, 1, 2, 3, 6]); i > 0; i -= 1) {
    const name = random.pick(HEADERS);
    lines.push(`${random.chance(0.1) ? name.toUpperCase() : name}: ${random.pick((random.chance(0.8) && PLAUSIBLE[name]) || VALUES)}`);
  }
  let body: Buffer = Buffer.from(random.pick(BODIES), 'latin1');
  if (method !== 'POST' && method !== 'PUT' && !random.chance(0.1)) body = Buffer.alloc(0);
  else if (random.chance(0.2)) {
    lines.push('Transfer-Encoding: chunked');
    body = chunked(random, body);
  } else lines.push(`Content-Length: ${body.length}`);
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body]);
}

/** Status of the final answer; 0 when the connection ended without one. Throws when neither comes. */
async function statusOf(connection: RawConnection): Promise<number> {
  const final = /(?:^|\r\n\r\n)HTTP\/1\.1 ([2-5]\d\d) /;
  if (!(await connection.until((text) => final.test(text), ANSWER_MS_MAX)) && !connection.closed) throw new Error('no answer');
  return Number(final.exec(connection.received)?.[1] ?? 0);
}

/** A second request on the same connection is answered, unless the first answer said that the connection ends, or is an event stream. */
async function expectUsable(connection: RawConnection, control: Stream, incarnation: string): Promise<void> {
  const goesOn = !/^connection: close\r$/im.test(connection.received) && !connection.received.includes('text/event-stream');
  if (goesOn) connection.write(`HEAD ${control.path} HTTP/1.1\r\nHost: fuzz\r\n\r\n`);
  const answered = await connection.until((text) => goesOn && text.includes(`Stream-Incarnation: ${incarnation}\r\n`), goesOn ? ANSWER_MS_MAX : 0);
  if (goesOn && !answered) throw new Error(connection.closed ? 'the connection was cut' : 'the connection takes no second request');
}

/** Statuses that no request may get from a healthy node: 5xx, save 501 for what it does not offer. */
const wrong = (status: number): boolean => status >= 500 && status !== 501;

it(`R085 a fuzzer finds no 5xx and no crash in ${RUN_MS / 1_000} s`, { timeout: RUN_MS + 60_000 }, async () => {
  const seed = seeded('fuzz');
  const control = fresh(node);
  const { incarnation } = await control.create({ type: OCTETS, body: 'control' });
  const create = () => Promise.all(([['a', OCTETS], ['b', 'text/plain'], ['j', JSON_TYPE]] as const).map(([name, type]) => node.http.send('PUT', `/fuzz/${name}`, { headers: { 'content-type': type } })));
  const deadline = Date.now() + RUN_MS;
  const counts = new Map<number, number>();
  const faults: string[] = [];

  const work = async (random: Random): Promise<void> => {
    while (Date.now() < deadline && faults.length === 0) {
      // What the requests delete is there again soon.
      if (random.chance(0.02)) await create();
      const connection = await RawConnection.open(node.url);
      const bytes = request(random);
      connection.write(bytes);
      try {
        const status = await statusOf(connection);
        counts.set(status, (counts.get(status) ?? 0) + 1);
        if (wrong(status)) throw new Error(`answered ${status}`);
        if (status !== 0) await expectUsable(connection, control, incarnation);
      } catch (error) {
        faults.push(`${error instanceof Error ? error.message : ''}: ${connection.received.slice(0, 400)}\nto ${JSON.stringify(bytes.toString('latin1').slice(0, 600))}`);
      }
      connection.destroy();
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, () => work(seed.fork())));
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  process.stdout.write(`fuzz: ${[...counts].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`).join(', ')}\n`);
  expect(faults).toEqual([]);
  expect((await control.read()).text).toBe('control');
  expect(total).toBeGreaterThan(1_000);
  expect(counts.get(0) ?? 0).toBeLessThan(total / 100);
});
