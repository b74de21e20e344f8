/**
 * Every way to read, on both surfaces, against the model: state, whole and by windows, at the tail and live, snapshots, bootstrap, chunks.
 */
import { isUtf8 } from 'node:buffer';
import { expect } from 'vitest';
import { partsOf } from '../support/multipart.js';
import type { Random } from '../support/random.js';
import { bytesOf, controlsOf, dataOf } from '../support/sse.js';
import { OCTETS } from '../support/stream.js';
import type { Life } from './spec.js';
import type { World } from './world.js';

const SIZES = [1, 9, 100, 5_000, 200_000, 8_388_608];
/** Chunks of the cacheable routes end at multiples of this. */
const GRID = 4_194_304;
const pad = (offset: number): string => String(offset).padStart(20, '0');

/** Nobody reads what is not there. */
export async function compareAbsent(world: World, path: string): Promise<void> {
  const wanted = world.spec.absent(path)!;
  const stream = world.stream(path);
  const answers = [await stream.head(), await stream.read(), await world.stream(path, true).poll('-1'), await stream.bootstrap(), await stream.sub('GET', 'snapshot/0')];
  expect([path, ...answers.map(({ status }) => status)]).toEqual([path, ...answers.map(() => wanted.status)]);
}

/** State and one window: enough for a stream that nothing was done to. */
export async function compareBriefly(world: World, life: Life, luck: Random): Promise<void> {
  await compareState(world, life);
  await compareWindow(world, life, luck);
}

export async function compareFully(world: World, life: Life, luck: Random): Promise<void> {
  await compareState(world, life);
  const rest = life.content.subarray(life.retained);
  expect((await world.stream(life.path).all(pad(life.retained), { max_bytes: luck.pick([40_000, 77_777, 8_388_608]) })).equals(rest), life.path).toBe(true);
  for (let i = 0; i < 4; i += 1) await compareWindow(world, life, luck);
  await compareChunk(world, life, luck);
  await compareBootstrap(world, life);
  await compareSse(world, life, luck);
  await compareTail(world, life, luck);
}

async function compareState(world: World, life: Life): Promise<void> {
  for (const base of [false, true]) {
    const head = await world.stream(life.path, base).head();
    const { snapshot } = life;
    expect([head.status, head.incarnation, Number(head.need('stream-next-offset')), head.closed, head.header('content-type'), head.header('stream-ttl') ?? null, head.header('stream-expires-at') === undefined], life.path)
      .toEqual([200, life.token, life.tail, life.closed, life.type, life.ttl, life.expiresAt === null]);
    if (!base) expect([Number(head.need('stream-retained-offset')), head.header('stream-snapshot-offset')], life.path).toEqual([life.retained, snapshot === null ? undefined : pad(snapshot.offset)]);
  }
  if (life.snapshot === null) return;
  const { offset, type, body } = life.snapshot;
  const read = await world.stream(life.path).sub('GET', `snapshot/${offset}`);
  expect([read.status, read.header('content-type'), read.body.equals(body), read.upToDate], `the snapshot of ${life.path}`).toEqual([200, type, true, offset === life.tail]);
  const ranged = await world.stream(life.path).sub('GET', `incarnation/${life.token}/snapshot/${pad(offset)}`, { range: `bytes=${body.length >> 1}-${(body.length >> 1) + 9}` });
  if (body.length > 0) expect(ranged.body.equals(body.subarray(body.length >> 1, (body.length >> 1) + 10)), `part of the snapshot of ${life.path}`).toBe(true);
}

/** What a surface sends for a range of the stream. */
function sent(life: Life, from: number, to: number, base: boolean): Buffer {
  const bytes = life.content.subarray(from, to);
  return life.json && base ? Buffer.from(`[${bytes.toString().replaceAll('\n', ',').slice(0, -1)}]`) : bytes;
}

/** A catch-up read or a long-poll with data: same bytes, same headers. */
async function compareWindow(world: World, life: Life, luck: Random): Promise<void> {
  const base = luck.chance(0.4);
  const from = luck.chance(0.6) ? luck.pick(life.ends) : luck.int(0, life.tail + 2);
  const maxBytes = luck.pick(SIZES);
  const poll = luck.chance(0.3) && from < life.tail;
  const answer = await world.stream(life.path, base).read({ offset: from, max_bytes: maxBytes, ...(poll ? { live: 'long-poll' } : {}) });
  const wanted = world.spec.read(life, from, maxBytes, base);
  const name = `${life.path} (${base ? 'base' : 'bucketed'}${poll ? ', long-poll' : ''}) from ${from} for ${maxBytes}`;
  expect(answer.status, name).toBe(wanted.status);
  if (answer.status !== 200) return;
  const end = wanted.next!;
  expect([Number(answer.next), answer.upToDate, answer.closed, answer.incarnation, answer.body.equals(sent(life, from, end, base))], name).toEqual([end, end === life.tail, wanted.closed, life.token, true]);
}

async function compareChunk(world: World, life: Life, luck: Random): Promise<void> {
  const from = luck.int(life.retained, life.tail + 1);
  const to = Math.min(life.tail, (Math.floor(from / GRID) + 1) * GRID);
  const answer = await world.stream(life.path).sub('GET', `incarnation/${life.token}/chunk/${pad(from)}`);
  expect([answer.status, Number(answer.next), answer.body.equals(life.content.subarray(from, to))], `chunk of ${life.path} at ${from}`).toEqual([200, to, true]);
}

/** Complete or a true prefix (BOOT-07 .. BOOT-13). */
async function compareBootstrap(world: World, life: Life): Promise<void> {
  const answer = await world.stream(life.path).bootstrap();
  const start = life.snapshot?.offset ?? life.retained;
  const end = Number(answer.next);
  const [first, ...updates] = partsOf(answer);
  expect([answer.status, answer.header('stream-snapshot-offset'), first!.contentType, first!.body.equals(life.snapshot?.body ?? Buffer.alloc(0)), answer.upToDate, answer.closed], `bootstrap of ${life.path}`)
    .toEqual([200, life.snapshot === null ? '-1' : pad(life.snapshot.offset), life.snapshot?.type ?? OCTETS, true, end === life.tail, life.closed && end === life.tail]);
  expect(Buffer.concat(updates.map(({ body }) => body)).equals(life.content.subarray(start, end)), `updates of ${life.path}`).toBe(true);
  if (life.json) for (const { body } of updates) expect(body.indexOf(0x0a)).toBe(body.length - 1);
}

/** Events from some append's end up to the tail. */
async function compareSse(world: World, life: Life, luck: Random): Promise<void> {
  const from = luck.pick(life.ends.filter((end) => end >= life.retained).concat(life.tail));
  const rest = life.content.subarray(from);
  // Text goes as UTF-8; a fork may begin inside a character.
  if (life.type !== OCTETS && !isUtf8(rest)) return;
  const base = luck.chance(0.5) && (!life.json || life.isBoundary(from));
  const sse = await world.stream(life.path, base).sse(pad(from), { max_bytes: luck.pick([4_000, 100_000, 8_388_608]) });
  try {
    const events = await sse.through((control) => control.upToDate === true || control.streamClosed === true);
    const last = controlsOf(events).at(-1)!;
    expect([Number(last.streamNextOffset), last.streamClosed === true], `SSE of ${life.path} from ${from}`).toEqual([life.tail, life.closed]);
    if (life.type === OCTETS) expect(bytesOf(events).equals(rest)).toBe(true);
    else if (life.json && base) expect(events.filter(({ event }) => event === 'data').flatMap(({ data }) => JSON.parse(data) as unknown[])).toEqual(rest.toString().split('\n').slice(0, -1).map((line) => JSON.parse(line) as unknown));
    else expect(dataOf(events)).toBe(rest.toString());
  } finally {
    sse.close();
  }
}

/** Nothing more at the tail, in each mode. */
async function compareTail(world: World, life: Life, luck: Random): Promise<void> {
  const stream = world.stream(life.path, luck.chance(0.5));
  for (const answer of [await stream.poll(pad(life.tail), { timeout_ms: 1 }), await stream.read({ offset: 'now' })]) {
    expect([answer.status === 204 || answer.status === 200, Number(answer.next), answer.upToDate, answer.closed], `tail of ${life.path}`).toEqual([true, life.tail, true, life.closed]);
  }
}
