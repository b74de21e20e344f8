/**
 * Snapshots of the demonstration: small ones that are sealed with their streams, and large ones that move to objects of their own.
 */
import type { Bar } from '../lib/bars.js';
import { call, header } from './client.js';
import type { Airport } from './flights.js';

export interface Published {
  readonly airport: Airport;
  readonly offset: number;
  readonly body: Buffer;
}

/** Snapshots from this size on are moved to an object of their own. */
const LARGE_BYTES = 1_048_576;

/** Delays by destination, as somebody would keep them. */
function state(messages: readonly string[]): Buffer {
  const delays = new Map<string, number[]>();
  for (const message of messages) {
    const { destination, delay } = JSON.parse(message) as { destination: string; delay: number };
    delays.set(destination, [...(delays.get(destination) ?? []), delay]);
  }
  return Buffer.from(JSON.stringify(Object.fromEntries(delays)));
}

/** The state of every airport so often over that it is large: a history of states. */
function largeState(messages: readonly string[]): Buffer {
  const one = state(messages).toString('utf8');
  const times = Math.ceil(LARGE_BYTES / one.length) + 1;
  return Buffer.from(`[${Array.from({ length: times }, () => one).join(',')}]`);
}

/** What will be published: large snapshots for the first `large` airports, small ones for `small` more, each at the middle of its stream. */
export function planSnapshots(airports: readonly Airport[], large: number, small: number): Published[] {
  return airports.slice(0, large + small).map((airport, index) => {
    const covered = airport.messages.slice(0, Math.ceil(airport.messages.length / 2));
    const offset = covered.reduce((sum, message) => sum + Buffer.byteLength(message) + 1, 0);
    return { airport, offset, body: index < large ? largeState(covered) : state(covered) };
  });
}

const padded = (offset: number): string => String(offset).padStart(20, '0');

export async function publishSnapshots(url: string, plan: readonly Published[], bar: Bar): Promise<void> {
  for (const { airport, offset, body } of plan) {
    await call(`${url}/${airport.key}/snapshot/${padded(offset)}`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body, expect: [204] });
    bar.add();
  }
}

/** Splits a multipart answer into the bodies of its parts. */
function partsOf(body: Buffer, contentType: string): Buffer[] {
  const boundary = /boundary="?([^";]+)"?/.exec(contentType)?.[1];
  if (boundary === undefined) throw new Error(`no boundary in ${contentType}`);
  const mark = Buffer.from(`--${boundary}`);
  const parts: Buffer[] = [];
  for (let at = body.indexOf(mark); ; ) {
    const next = body.indexOf(mark, at + mark.length);
    if (next < 0) return parts;
    const head = body.indexOf('\r\n\r\n', at) + 4;
    parts.push(body.subarray(head, next - 2));
    at = next;
  }
}

async function checkOne(url: string, { airport, offset, body }: Published): Promise<void> {
  const direct = await call(`${url}/${airport.key}/snapshot/${padded(offset)}`, { expect: [200] });
  if (!direct.body.equals(body)) throw new Error(`${airport.key}: the snapshot came back with other bytes`);
  const answer = await call(`${url}/${airport.key}/bootstrap`, { expect: [200] });
  const [snapshot, ...updates] = partsOf(answer.body, header(answer, 'content-type'));
  if (snapshot === undefined || !snapshot.equals(body)) throw new Error(`${airport.key}: the bootstrap holds another snapshot`);
  // A bootstrap may stop early where updates are cold; a client reads on from where it says.
  const next = header(answer, 'stream-next-offset');
  const rest = await call(`${url}/${airport.key}?offset=${next}`, { expect: [200] });
  const joined = Buffer.concat([...updates, rest.body]);
  if (!joined.equals(airport.stored.subarray(offset))) throw new Error(`${airport.key}: bootstrap and the read after it do not make up the stream`);
}

/** Fetches each snapshot directly and by bootstrap, and compares; answers the time of each bootstrap with the read that completes it, ms. */
export async function checkSnapshots(url: string, plan: readonly Published[], bar: Bar): Promise<number[]> {
  const times: number[] = [];
  for (const published of plan) {
    const started = performance.now();
    await checkOne(url, published);
    times.push(performance.now() - started);
    bar.add();
  }
  return times;
}
