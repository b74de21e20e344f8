/**
 * What a sequence is made of: each step asks the model and the node the same thing and compares their answers.
 *
 * A step is a name, a place and a number that draws everything else, so fast-check can leave steps out while it looks for a shorter story. A new command is one entry of `STEPS` and its
 * weight in `WEIGHTS`.
 */
import fc from 'fast-check';
import { expect } from 'vitest';
import { SnapshotDigest } from '../../shared/protocol/digest.js';
import { eventually, forkOf } from '../support/forks.js';
import type { Answer, Headers } from '../support/http.js';
import type { Env } from '../support/node.js';
import { Random } from '../support/random.js';
import { JSON_TYPE, OCTETS, sleep, TEXT } from '../support/stream.js';
import { checkRows } from './rows.js';
import type { Append, Claim, Life, Wanted } from './spec.js';
import { bucketOf } from './spec.js';
import { PATHS } from './world.js';
import type { World } from './world.js';

const PRODUCERS = ['p', 'q'];
const FAR = '2999-01-01T00:00:00Z';
/** Bodies of snapshots from this size on are files, and become objects of their own. */
const LARGE = 1_048_576;
/** A stream that grew to this gets short appends alone. */
const CONTENT_MAX = 1_500_000;
/** Longer than any time that a stream is given to live. */
const LATER_MS = 2 * 86_400_000;

/** How often each comes. */
const WEIGHTS = {
  create: 10, append: 18, keyed: 8, close: 2, delete: 4, fork: 7, snapshot: 5, parts: 2, retain: 5, expire: 1, later: 1, purge: 1,
  seal: 6, evict: 2, offload: 2, checkpoint: 2, compact: 4, collect: 2, restart: 2, kill: 3, restore: 2, lose: 3,
} as const;

type Name = keyof typeof WEIGHTS;

export interface Step {
  readonly do: Name;
  readonly on: number;
  readonly luck: number;
}

/** Does a step; tells whose streams to look at closely afterwards, null: everybody's. */
export async function take(world: World, { do: what, on, luck }: Step): Promise<string | null> {
  const path = PATHS[on]!;
  await STEPS[what](world, path, new Random(luck));
  return WHOLE.has(what) ? null : path;
}

/** Steps behind which every stream is looked at. */
const WHOLE: ReadonlySet<Name> = new Set(['seal', 'evict', 'offload', 'checkpoint', 'compact', 'restart', 'kill', 'restore', 'lose', 'later', 'purge']);

export const anyStep: fc.Arbitrary<Step> = fc.record({
  do: fc.oneof(...Object.entries(WEIGHTS).map(([name, weight]) => ({ weight, arbitrary: fc.constant(name as Name) }))),
  on: fc.nat({ max: PATHS.length - 1 }),
  luck: fc.nat({ max: 0xffff_ffff }),
});

const STEPS: Record<Name, (world: World, path: string, luck: Random) => Promise<void>> = {
  create, append, keyed, close, delete: remove, fork, snapshot, parts, retain, expire, later, purge, seal, evict, offload, checkpoint, compact, collect,
  restart: (world) => again(world, 'stop'),
  kill: (world) => again(world, 'kill'),
  restore: async (world, _path, luck) => {
    await world.seal();
    await lose(world, _path, luck);
  },
  lose,
};

/** The node's answer is the one that the model gave. */
function agree(what: string, answer: Answer, wanted: Wanted): void {
  const { next, closed } = wanted;
  const got: Wanted = {
    status: answer.status,
    ...(next === undefined ? {} : { next: Number(answer.need('stream-next-offset')) }),
    ...(closed === undefined ? {} : { closed: answer.closed }),
  };
  expect(got, `${what} ${answer.status >= 400 ? answer.text : ''}`).toEqual(wanted);
}

interface Body {
  readonly body: Buffer;
  readonly stored: Buffer;
}

function bodyOf(world: World, type: string, luck: Random, bytes = luck.chance(0.08) ? 300_000 : luck.int(1, 900)): Body {
  const mark = world.unique();
  if (type !== JSON_TYPE) {
    const body = type === TEXT ? Buffer.from(`text ${mark} 水é😀\n`.repeat(1 + (bytes >> 5))) : Buffer.alloc(bytes, Buffer.concat([Buffer.from(`${mark};`), luck.bytes(50)]));
    return { body, stored: body };
  }
  const messages = Array.from({ length: luck.int(1, 5) }, (_, n) => JSON.stringify({ mark, n, text: '"\\水'.repeat(1 + (bytes >> 4)) }));
  const single = messages.length === 1 && luck.chance(0.5);
  return { body: Buffer.from(single ? ` ${messages.join('')}` : `[${messages.join(' ,\n')}]`), stored: Buffer.from(messages.map((one) => `${one}\n`).join('')) };
}

async function create(world: World, path: string, luck: Random): Promise<void> {
  const found = world.spec.lives.get(path);
  // A fork is asked for as a fork; most others are asked for as they are.
  if (found !== undefined && (found.source !== null || luck.chance(0.5))) return append(world, path, luck);
  const repeat = found !== undefined && luck.chance(0.5);
  const type = repeat ? found.type : luck.pick([JSON_TYPE, TEXT, OCTETS]);
  const [ttl, expiresAt] = repeat ? [found.ttl, found.expiresAt] : luck.pick([[null, null], [null, null], ['86400', null], [null, FAR]] as const);
  const closed = repeat ? found.closed : luck.chance(0.08);
  const body = luck.chance(0.5) ? bodyOf(world, type, luck) : { body: null, stored: Buffer.alloc(0) };
  const answer = await world.stream(path, luck.chance(0.5)).put({ type, ...(ttl === null ? {} : { ttl }), ...(expiresAt === null ? {} : { expiresAt }), ...(closed ? { closed } : {}), body: body.body });
  agree(`create ${path}`, answer, world.spec.create(path, { type, ttl, expiresAt, closed, stored: body.stored }));
  if (answer.status === 201) born(world, path, answer);
}

function born(world: World, path: string, answer: Answer): void {
  world.places.isNew(answer.incarnation);
  const life = world.spec.lives.get(path);
  if (life !== undefined) life.token = answer.incarnation;
}

/** A lifetime that is over at once leaves nothing behind (TTL-11). */
async function expire(world: World, path: string, luck: Random): Promise<void> {
  if (world.spec.lives.has(path)) return append(world, path, luck);
  const { body, stored } = bodyOf(world, TEXT, luck);
  const answer = await world.stream(path).put({ type: TEXT, ttl: '0', body });
  agree(`expire ${path}`, answer, world.spec.create(path, { type: TEXT, ttl: '0', expiresAt: null, closed: false, stored }));
  born(world, path, answer);
}

async function send(world: World, path: string, request: Append): Promise<void> {
  const { base, claim, seq, close: closes, body, type } = request;
  const answer = await world.stream(path, base).append(body.length === 0 ? null : body, {
    type: body.length === 0 ? null : type,
    ...(claim === null ? {} : { producer: [claim.id, claim.epoch, claim.seq] as const }),
    ...(seq === null ? {} : { seq }),
    ...(closes ? { close: true } : {}),
  });
  agree(`append ${path}`, answer, world.spec.append(path, request));
}

async function append(world: World, path: string, luck: Random): Promise<void> {
  const life = world.spec.lives.get(path);
  const type = life === undefined || luck.chance(0.06) ? luck.pick([JSON_TYPE, TEXT, OCTETS]) : life.type;
  const last = life?.lastSeq ?? '0';
  const seq = luck.chance(0.2) ? luck.pick([`${last}1`, last, '00']) : null;
  const close = luck.chance(0.03);
  const body = (life?.tail ?? 0) > CONTENT_MAX ? bodyOf(world, type, luck, 50) : bodyOf(world, type, luck);
  await send(world, path, { type, ...body, claim: null, seq, close, base: luck.chance(0.5) });
}

async function keyed(world: World, path: string, luck: Random): Promise<void> {
  const life = world.spec.lives.get(path);
  const id = luck.pick(PRODUCERS);
  const { epoch, seq } = life?.producers.get(id) ?? { epoch: luck.int(0, 3), seq: -1 };
  const claims: readonly Claim[] = [
    { id, epoch, seq: seq + 1 }, { id, epoch, seq: seq + 1 }, { id, epoch, seq: seq + 1 },
    { id, epoch, seq: Math.max(0, seq) }, { id, epoch, seq: 0 }, { id, epoch, seq: seq + 3 },
    { id, epoch: epoch + 1, seq: 0 }, { id, epoch: epoch + 1, seq: 2 }, { id, epoch: Math.max(0, epoch - 1), seq: 0 },
  ];
  const type = life?.type ?? OCTETS;
  await send(world, path, { type, ...bodyOf(world, type, luck, luck.int(1, 300)), claim: luck.pick(claims), seq: null, close: luck.chance(0.04), base: luck.chance(0.5) });
}

async function close(world: World, path: string, luck: Random): Promise<void> {
  const nothing = Buffer.alloc(0);
  await send(world, path, { type: OCTETS, body: nothing, stored: nothing, claim: null, seq: null, close: true, base: luck.chance(0.5) });
}

async function remove(world: World, path: string, luck: Random): Promise<void> {
  const answer = await world.stream(path, luck.chance(0.5)).delete();
  const { wanted, freed } = world.spec.delete(path);
  agree(`delete ${path}`, answer, wanted);
  await areFree(world, freed);
}

async function fork(world: World, path: string, luck: Random): Promise<void> {
  if (world.spec.lives.has(path) && !world.spec.isErased(path)) return append(world, path, luck);
  const from = luck.pick(PATHS.filter((one) => one !== path));
  const source = world.spec.lives.get(from);
  const offset = source === undefined || luck.chance(0.3) ? null : luck.chance(0.8) ? luck.pick(source.ends) : luck.int(0, source.tail + 2);
  const end = offset === null || source === undefined ? 0 : (source.ends.find((one) => one > offset) ?? offset) - offset;
  const sub = offset === null ? 0 : luck.pick([0, 0, luck.int(0, source!.json ? 6 : end + 2)]);
  const { body, stored } = source !== undefined && luck.chance(0.4) ? bodyOf(world, source.type, luck, 80) : { body: null, stored: Buffer.alloc(0) };
  const answer = await world.stream(path).put({ headers: forkOf(world.stream(from, luck.chance(0.5)), { ...(offset === null ? {} : { offset }), ...(sub === 0 ? {} : { sub }) }), body });
  agree(`fork ${path} of ${from} at ${offset} + ${sub}`, answer, world.spec.fork(path, { from, offset, sub, stored }));
  if (answer.status === 201) born(world, path, answer);
}

/** An offset that is mostly taken, of a stream that may not be there. */
function offsetIn(life: Life | undefined, luck: Random): number {
  if (life === undefined) return 0;
  const least = Math.max(life.retained, life.snapshot?.offset ?? 0);
  return luck.chance(0.8) ? luck.pick(life.ends.filter((end) => end >= least).concat(life.tail)) : luck.int(0, life.tail + 3);
}

async function snapshot(world: World, path: string, luck: Random): Promise<void> {
  const life = world.spec.lives.get(path);
  const visible = life?.snapshot ?? null;
  const one = visible !== null && luck.chance(0.15) ? visible : { offset: offsetIn(life, luck), type: luck.pick([JSON_TYPE, OCTETS]), body: Buffer.alloc(luck.chance(0.2) ? LARGE + luck.int(0, 1_000) : luck.int(0, 3_000), `snapshot ${world.unique()};`) };
  const answer = await world.stream(path).publish(String(one.offset), one.body, one.type);
  agree(`snapshot ${path} at ${one.offset}`, answer, world.spec.snapshot(path, one));
}

/** The same, uploaded in parts. */
async function parts(world: World, path: string, luck: Random): Promise<void> {
  const life = world.spec.lives.get(path);
  if (life === undefined || life.deleted) return snapshot(world, path, luck);
  const offset = luck.pick(life.ends.filter((end) => end >= life.retained).concat(life.tail));
  const bodies = Array.from({ length: luck.int(1, 4) }, () => Buffer.alloc(luck.pick([10, 5_000, 400_000]), `part ${world.unique()};`));
  const stream = world.stream(path);
  const ids: string[] = [];
  for (const body of bodies) ids.push((await stream.sub('POST', `snapshot/${offset}/parts`, {}, body)).need('stream-snapshot-part'));
  const body = Buffer.concat(bodies);
  const headers: Headers = { 'stream-snapshot-parts': String(ids.length), 'stream-snapshot-digest': SnapshotDigest.start(TEXT).update(body).finish() };
  const answer = await stream.publish(String(offset), ids.map((id) => `${id}\n`).join(''), TEXT, headers);
  agree(`snapshot ${path} at ${offset} in ${ids.length} parts`, answer, world.spec.snapshot(path, { offset, type: TEXT, body }));
}

async function retain(world: World, path: string, luck: Random): Promise<void> {
  const life = world.spec.lives.get(path);
  const limit = life?.snapshot?.offset ?? 0;
  const offset = life !== undefined && luck.chance(0.8) ? luck.pick(life.ends.filter((end) => end <= limit)) : offsetIn(life, luck);
  agree(`retain ${path} from ${offset}`, await world.stream(path).retain(String(offset)), world.spec.retain(path, offset));
}

async function seal(world: World, path: string, luck: Random): Promise<void> {
  await world.seal(luck.chance(0.7) ? '' : path.slice(1));
}

/** Everything becomes cold: room is short, so hot copies go before their time. */
async function evict(world: World): Promise<void> {
  const { spec, places } = world;
  await again(world, 'stop', { FIRN_HOT_BYTES_MAX: '1' });
  await world.seal();
  const hotBytes = async (): Promise<number> => {
    let sum = 0;
    for (const { path } of spec.readable) {
      const { hot, cold } = await places.pageOf(path);
      sum += Number(hot.end) - Math.max(Number(hot.start), Number(cold.start));
    }
    return sum;
  };
  await eventually(async () => (await hotBytes()) <= 1);
  await again(world, 'stop', { FIRN_HOT_BYTES_MAX: String(2 ** 30) });
}

/** A large snapshot becomes an object of its own. */
async function offload(world: World, path: string, luck: Random): Promise<void> {
  const { rig, spec } = world;
  const life = spec.lives.get(path);
  const files = async (): Promise<number> => (await rig.view.keys()).filter((key) => key.includes('/snapshots/')).length;
  const before = await files();
  const one = { offset: life?.tail ?? 0, type: OCTETS, body: Buffer.alloc(LARGE + luck.int(0, 300_000), `large ${world.unique()};`) };
  const wanted = spec.snapshot(path, one);
  agree(`large snapshot ${path}`, await world.stream(path).publish(String(one.offset), one.body, one.type), wanted);
  if (wanted.status !== 204) return;
  await world.seal();
  for (let tries = 0; tries < 400 && (await world.places.pageOf(path)).snapshot?.cold === null; tries += 1) await sleep(10);
  expect((await world.places.pageOf(path)).snapshot?.cold).toMatch(/\/snapshots\//);
  expect(await files()).toBeGreaterThan(before);
}

async function checkpoint({ rig }: World): Promise<void> {
  await rig.node.ask('POST', '/__firn/checkpoint');
}

/** Ranges of small seals are put together. */
async function compact({ rig }: World): Promise<void> {
  await rig.node.ask('POST', '/__firn/compact');
}

/** A collection begins; what follows goes on while its grace runs, and may end it. */
async function collect({ rig }: World): Promise<void> {
  void rig.node.ask('POST', '/__firn/collect').catch(() => undefined);
  await sleep(5);
}

async function again(world: World, how: 'stop' | 'kill', changed: Env = {}): Promise<void> {
  await world.rig.again(how, changed, () => checkRows(world));
}

/** Days later: streams that live for a time are over. */
async function later(world: World): Promise<void> {
  await again(world, 'stop', world.rig.later(LATER_MS));
  await areFree(world, world.spec.expire());
}

/** An operator erases a bucket. */
async function purge(world: World, path: string): Promise<void> {
  const { rig, spec, ledger } = world;
  const bucket = bucketOf(path);
  const report = await rig.node.ask('DELETE', `/__firn/buckets/${bucket}`);
  const { streams, freed } = spec.purge(bucket);
  expect(report).toEqual({ bucket, streams });
  await areFree(world, freed);
  ledger.purged(spec, bucket);
}

/** Sources that waited for their last fork go a little later (FORK-26), and are counted off before the answer is looked at. */
async function areFree(world: World, freed: readonly string[]): Promise<void> {
  const { spec, places } = world;
  await Promise.all(freed.map((one) => eventually(async () => (await world.stream(one).head()).status === 404)));
  await Promise.all(spec.readable.map(({ path, forks }) => eventually(async () => (await places.pageOf(path)).forks === forks)));
}

/**
 * The machine is lost, with whatever was not sealed. Each stream is there as it was at its last seal: a folder is no store that outlives a machine, so its lives get new incarnations, those on a server keep
 * theirs unless told otherwise (design section 6, INC-04).
 */
async function lose(world: World, _path: string, luck: Random): Promise<void> {
  const { rig, spec, places, ledger } = world;
  const renews = luck.chance(0.5);
  const frontiers = new Map<number, number>();
  for (const { id, path } of spec.readable) frontiers.set(id, Number((await places.pageOf(path)).cold.end));
  const report = await rig.restore(luck.chance(0.5) ? 'stop' : 'kill', renews ? ['--new-incarnations'] : []);
  expect([report.losses, report.newIncarnations]).toEqual([[], renews || rig.remote === null]);
  if (rig.remote === null) places.objects.moved();
  // Sources whose forks did not come back are let go at the start.
  await rig.node.ask('POST', '/__firn/verify?deep=0');
  const found: Life[] = [];
  for (const path of PATHS) {
    const head = await world.stream(path).head();
    const content = head.status === 200 ? await world.stream(path).all(head.need('stream-retained-offset')) : Buffer.alloc(0);
    const life = ledger.find(path, { head, content });
    if (life === null) continue;
    found.push(life);
    const frontier = frontiers.get(life.id);
    if (frontier !== undefined) expect([path, life.tail >= frontier, life.tail === frontier || !rig.sealsByHand], `the tail ${life.tail} and what was sealed, ${frontier}`).toEqual([path, true, true]);
    if (head.status !== 200) life.token = '';
    else if (!report.newIncarnations) expect([path, head.incarnation]).toEqual([path, life.token]);
    else {
      life.token = head.incarnation;
      places.isNew(life.token);
    }
  }
  spec.goBack(found);
  expect(report.partitions.reduce((sum, { streams }) => sum + streams, 0)).toBeGreaterThanOrEqual(found.length);
  ledger.restart(spec);
}
