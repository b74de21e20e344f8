/**
 * Live readers of the demonstration: they start on empty streams and must have received every byte once all is written.
 */
import { setMaxListeners } from 'node:events';
import { Readable } from 'node:stream';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { call, header, open } from './client.js';
import type { Airport } from './flights.js';

/** Longest wait for the last bytes, ms. */
const LIVE_MS_MAX = 60_000;

interface Received {
  bytes: number;
  readonly parts: string[];
}

function take(received: Received, text: string): void {
  received.parts.push(text);
  received.bytes += Buffer.byteLength(text);
}

async function bySse(url: string, airport: Airport, signal: AbortSignal): Promise<string> {
  const received: Received = { bytes: 0, parts: [] };
  let offset = '-1';
  while (received.bytes < airport.stored.length) {
    const answer = await open(`${url}/${airport.key}?offset=${offset}&live=sse`, { expect: [200], signal });
    const events = Readable.toWeb(answer.body as unknown as Readable).pipeThrough(new TextDecoderStream() as never).pipeThrough(new EventSourceParserStream());
    let pending = '';
    for await (const event of events as unknown as AsyncIterable<{ event?: string; data: string }>) {
      if (event.event === 'data') pending = event.data;
      if (event.event !== 'control') continue;
      take(received, pending);
      pending = '';
      offset = (JSON.parse(event.data) as { streamNextOffset: string }).streamNextOffset;
      if (received.bytes >= airport.stored.length) break;
    }
  }
  return received.parts.join('');
}

async function byLongPoll(url: string, airport: Airport, signal: AbortSignal): Promise<string> {
  const received: Received = { bytes: 0, parts: [] };
  let offset = '-1';
  while (received.bytes < airport.stored.length) {
    const answer = await call(`${url}/${airport.key}?offset=${offset}&live=long-poll&timeout_ms=2000`, { expect: [200, 204], signal });
    if (answer.status === 200) take(received, answer.body.toString('utf8'));
    offset = header(answer, 'stream-next-offset');
  }
  return received.parts.join('');
}

/** Starts `count` readers of each kind on the busiest airports; the promise resolves when all have everything, and rejects for any difference. */
export async function liveReaders(url: string, airports: readonly Airport[], count: number): Promise<number> {
  const signal = AbortSignal.timeout(LIVE_MS_MAX);
  setMaxListeners(0, signal);
  const readers = airports.slice(0, count).flatMap((airport) => [
    { airport, kind: 'SSE', text: bySse(url, airport, signal) },
    { airport, kind: 'long-poll', text: byLongPoll(url, airport, signal) },
  ]);
  await Promise.all(readers.map(async ({ airport, kind, text }) => {
    if ((await text) !== airport.stored.toString('utf8')) throw new Error(`${airport.key}: the ${kind} reader received other bytes than were sent`);
  }));
  return readers.length;
}
