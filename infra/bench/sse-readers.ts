/**
 * Many SSE readers in one process. Arguments: URL, path, number of readers, events to wait for, longest wait in ms.
 *
 * Each event carries `~{number}:{time}~`, the time being the monotonic clock of the machine in ns when it was sent. Prints `ready` when all are connected, then one JSON line: events
 * received over all readers, and quantiles of the delay in ms.
 */
import { connect } from 'node:net';
import { quantile } from '../lib/table.js';

const [url = '', path = '', readersText, eventsText, waitText] = process.argv.slice(2);
const readers = Number(readersText);
const events = Number(eventsText);
const { hostname, port } = new URL(url);

const delays: number[] = [];
let connected = 0;
let received = 0;
/** Numbers seen by each reader: a repeated event is not a received one. */
const seen = Array.from({ length: readers }, () => new Set<number>());

function finish(): void {
  const line = { received, expected: readers * events, p50Ms: quantile(delays, 0.5), p99Ms: quantile(delays, 0.99) };
  process.stdout.write(`${JSON.stringify(line)}\n`, () => process.exit(0));
}

function read(reader: number): void {
  const socket = connect(Number(port), hostname);
  let rest = '';
  let begun = false;
  socket.once('connect', () => socket.write(`GET ${path} HTTP/1.1\r\nhost: bench\r\naccept: text/event-stream\r\n\r\n`));
  socket.on('data', (piece: Buffer) => {
    const now = process.hrtime.bigint();
    rest += piece.toString('latin1');
    if (!begun && rest.includes('event: control')) {
      begun = true;
      connected += 1;
      if (connected === readers) process.stdout.write('ready\n');
    }
    let end = 0;
    for (const match of rest.matchAll(/~(\d+):(\d+)~/g)) {
      end = match.index + match[0].length;
      const number = Number(match[1]);
      if (seen[reader]?.has(number) === true) continue;
      seen[reader]?.add(number);
      received += 1;
      delays.push(Number(now - BigInt(match[2] ?? 0)) / 1e6);
    }
    rest = end > 0 ? rest.slice(end) : rest.slice(-4_096);
    if (received === readers * events) finish();
  });
  socket.on('error', () => undefined);
}

// A few at a time: a burst of connections would measure the accept queue.
for (let reader = 0; reader < readers; reader += 1) setTimeout(() => read(reader), reader * 2);
setTimeout(finish, Number(waitText)).unref();
