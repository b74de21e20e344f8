/**
 * A load generator on plain sockets: many connections, each with one request at a time, for what `wrk` cannot count per connection.
 */
import { connect, type Socket } from 'node:net';
import { quantile } from '../lib/table.js';

export interface SocketLoad {
  readonly url: string;
  readonly connections: number;
  readonly seconds: number;
  /** The next request of a connection, whole. */
  request(connection: number, turn: number): Buffer;
}

export interface SocketResult {
  readonly rate: number;
  readonly bad: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const HEAD_END = Buffer.from('\r\n\r\n');

/** Bytes of the first answer in `buffer`, 0 while it is not whole. Answers without a length have no body here (204). */
function answerBytes(buffer: Buffer): number {
  const head = buffer.indexOf(HEAD_END);
  if (head < 0) return 0;
  const length = /\r\ncontent-length: *(\d+)/i.exec(buffer.toString('latin1', 0, head))?.[1];
  const end = head + 4 + Number(length ?? 0);
  return buffer.length >= end ? end : 0;
}

/** One request as bytes. */
export function rawRequest(method: string, path: string, headers: Readonly<Record<string, string>>, body: Buffer): Buffer {
  const lines = Object.entries({ host: 'bench', ...headers, 'content-length': String(body.length) }).map(([name, value]) => `${name}: ${value}`);
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`), body]);
}

class Tally {
  readonly millis: number[] = [];
  bad = 0;
}

function lane(load: SocketLoad, index: number, until: number, tally: Tally): Promise<void> {
  const { hostname, port } = new URL(load.url);
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(Number(port), hostname);
    socket.setNoDelay(true);
    let turn = 0;
    let sent = 0;
    let rest: Buffer = Buffer.alloc(0);
    const next = (): void => {
      if (performance.now() >= until) {
        socket.destroy();
        resolve();
        return;
      }
      sent = performance.now();
      socket.write(load.request(index, turn));
      turn += 1;
    };
    socket.once('connect', next);
    socket.once('error', reject);
    socket.on('data', (piece: Buffer) => {
      rest = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      const bytes = answerBytes(rest);
      if (bytes === 0) return;
      tally.millis.push(performance.now() - sent);
      if (rest[9] !== 0x32) tally.bad += 1;
      rest = rest.subarray(bytes);
      next();
    });
  });
}

/** Runs the load to its end. */
export async function socketLoad(load: SocketLoad): Promise<SocketResult> {
  const started = performance.now();
  const tally = new Tally();
  await Promise.all(Array.from({ length: load.connections }, (_, index) => lane(load, index, started + load.seconds * 1_000, tally)));
  const seconds = (performance.now() - started) / 1_000;
  return { rate: (tally.millis.length - tally.bad) / seconds, bad: tally.bad, p50Ms: quantile(tally.millis, 0.5), p99Ms: quantile(tally.millis, 0.99) };
}
