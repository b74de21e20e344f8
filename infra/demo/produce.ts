/**
 * Producers: each stream gets its messages in order, in batches, many streams at a time; every tenth batch is sent twice, as after a lost answer.
 */
import type { Bar } from '../lib/bars.js';
import { each } from '../lib/pool.js';
import type { Airport } from './flights.js';
import { call, header } from './client.js';

/** Streams written at a time. */
const PRODUCERS = 16;
/** Messages in one append. */
const BATCH_MESSAGES = 20;
const REPEAT_EVERY = 10;

const JSON_TYPE = { 'content-type': 'application/json' };

export async function createStreams(url: string, airports: readonly Airport[], bar: Bar): Promise<void> {
  await each(airports, PRODUCERS, async (airport) => {
    await call(`${url}/${airport.key}`, { method: 'PUT', headers: JSON_TYPE, expect: [201] });
    bar.add();
  });
}

async function produceOne(url: string, airport: Airport, bar: Bar): Promise<number> {
  let appends = 0;
  for (let seq = 0; seq * BATCH_MESSAGES < airport.messages.length; seq += 1) {
    const batch = airport.messages.slice(seq * BATCH_MESSAGES, (seq + 1) * BATCH_MESSAGES);
    const headers = { ...JSON_TYPE, 'producer-id': `tower-${airport.key.slice(-3)}`, 'producer-epoch': '0', 'producer-seq': String(seq) };
    // Both surfaces take the same batch, the array of it.
    const target = seq % 2 === 0 ? `${url}/${airport.key}` : `${url}/v1/stream/${airport.key}`;
    const send = () => call(target, { method: 'POST', headers, body: `[${batch.join(',')}]`, expect: [200, 204] });
    const first = await send();
    if (seq % REPEAT_EVERY === REPEAT_EVERY - 1) {
      const again = await send();
      if (again.status !== 204 || header(again, 'stream-next-offset') !== header(first, 'stream-next-offset')) throw new Error(`${airport.key}: a repeated batch was not recognised`);
    }
    appends += 1;
    bar.add(batch.length);
  }
  return appends;
}

/** Writes every message of every airport; answers the number of appends. */
export async function produceAll(url: string, airports: readonly Airport[], bar: Bar): Promise<number> {
  let appends = 0;
  await each(airports, PRODUCERS, async (airport) => {
    const made = await produceOne(url, airport, bar);
    appends += made;
  });
  return appends;
}
