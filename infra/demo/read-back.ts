/**
 * Reads every stream from its start on both surfaces and compares it with what was sent.
 */
import type { Bar } from '../lib/bars.js';
import { each } from '../lib/pool.js';
import { call, header } from './client.js';
import { asArray, type Airport } from './flights.js';

const READERS = 8;

/** All pages of a stream. `inner`: what of a page counts. */
async function pagesOf(url: string, inner: (body: Buffer) => Buffer): Promise<Buffer[]> {
  const pages: Buffer[] = [];
  for (let offset = '-1'; ; ) {
    const answer = await call(`${url}?offset=${offset}`, { expect: [200] });
    pages.push(inner(answer.body));
    if (answer.headers['stream-up-to-date'] === 'true') return pages;
    offset = header(answer, 'stream-next-offset');
  }
}

async function compare(url: string, airport: Airport): Promise<void> {
  const lines = Buffer.concat(await pagesOf(`${url}/${airport.key}`, (body) => body));
  if (!lines.equals(airport.stored)) throw new Error(`${airport.key}: ${lines.length} bytes of NDJSON came back, ${airport.stored.length} were sent, and they differ`);
  const arrays = await pagesOf(`${url}/v1/stream/${airport.key}`, (body) => body.subarray(1, -1));
  const array = Buffer.from(`[${arrays.map((page) => page.toString('utf8')).filter((page) => page !== '').join(',')}]`);
  if (!array.equals(asArray(airport.stored))) throw new Error(`${airport.key}: the array of the base surface differs from what was sent`);
}

/** Compares all streams; answers the time of each (both surfaces), ms. */
export async function readBack(url: string, airports: readonly Airport[], bar: Bar): Promise<number[]> {
  const times: number[] = [];
  await each(airports, READERS, async (airport) => {
    const started = performance.now();
    await compare(url, airport);
    times.push(performance.now() - started);
    bar.add();
  });
  return times;
}
