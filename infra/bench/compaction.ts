/**
 * What the cold tier costs: requests and bytes of sealing many small streams, of reading one of them before and after compaction, and of compaction itself; and what compaction does to appends.
 *
 * Real records in many small streams and one longer one. All figures are the node's own counts of what it asked of the S3 server.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { call } from '../demo/client.js';
import { loadAirports } from '../demo/flights.js';
import type { FirnProcess } from '../lib/firn-process.js';
import { each } from '../lib/pool.js';
import { bytes, count } from '../lib/table.js';
import type { S3Server } from '../services/s3-server.js';
import { metricsOf, SEALED_WHEN_ASKED, withColdNode } from './cold-node.js';
import { median, WARM_UP, WARM_UP_SECONDS, type Options, type Row } from './results.js';
import { drained, runOne, SEAL_BYTES, type Run } from './sealing.js';

const JSON_TYPE = { 'content-type': 'application/json' };
const OCTETS = { 'content-type': 'application/octet-stream' };
const MIB = 1_048_576;
/** Streams of about 10 KiB, written in so many rounds, each of them sealed. */
const STREAMS = 10_000;
const ROUNDS = 8;
/** Flights of one append: about 1.3 KiB. */
const FLIGHTS = 12;
/** What a long stream gets in each round, bytes. */
const LONG_BYTES = 400_000;
const TOGETHER = 64;
/** Longest block, and what a GET that goes on behind its reader may take until it is counted, ms. */
const BLOCK_BYTES = 262_144;
const SETTLE_MS = 500;
/** Streams that are read, one by one. */
const READ = 40;
/** One PUT for so many bytes sealed, and those of a seal that is not full. */
const PUT_BYTES_MIN = 8 * MIB;
const PUTS_OF_A_SEAL = 2;
/** Flight records shrink to less than this, their names and sums included. */
const STORED_MAX = 0.17;
const GETS_MAX = 2;
const AMPLIFICATION_MAX = 3;
/** Seals of the steady state, and streams in them. */
const STEADY_ROUNDS = 72;
const STEADY_STREAMS = 400;
const P99_MAX = 1.5;
const BODY_BYTES = 256;

interface Counted {
  readonly puts: number;
  readonly gets: number;
  readonly read: number;
  readonly sealed: number;
  readonly merged: number;
}

async function counted(node: FirnProcess): Promise<Counted> {
  const metrics = await metricsOf(node);
  return {
    puts: metrics.sum('firn_store_requests_total', { op: 'put' }),
    gets: metrics.sum('firn_store_requests_total', { op: 'get' }),
    read: metrics.sum('firn_store_bytes_total', { direction: 'read' }),
    sealed: metrics.sum('firn_object_bytes_written_total', { kind: 'segment' }),
    merged: metrics.sum('firn_object_bytes_written_total', { kind: 'merged' }),
  };
}

const ask = async (node: FirnProcess, what: string): Promise<Buffer> => (await call(`${node.adminUrl}/__firn/${what}`, { method: 'POST', expect: [200] })).body;

const flights = loadAirports().flatMap(({ messages }) => messages);

function body(n: number, round: number): string {
  const at = (n * ROUNDS + round) * FLIGHTS;
  return `[${Array.from({ length: FLIGHTS }, (_, i) => flights[(at + i) % flights.length] as string).join(',')}]`;
}

const path = (n: number): string => `/bench/small-${n}`;

/** Writes and seals the rounds; the bytes appended. */
async function fill(node: FirnProcess): Promise<{ readonly small: number; readonly long: number }> {
  const sizes = { small: 0, long: 0 };
  const all = Array.from({ length: STREAMS }, (_, n) => n);
  await call(`${node.url}/bench/long`, { method: 'PUT', headers: OCTETS, expect: [201] });
  await each(all, TOGETHER, async (n) => void (await call(`${node.url}${path(n)}`, { method: 'PUT', headers: JSON_TYPE, expect: [201] })));
  for (let round = 0; round < ROUNDS; round += 1) {
    process.stderr.write(`bench: ${STREAMS} streams, round ${round + 1} of ${ROUNDS}\n`);
    await each(all, TOGETHER, async (n) => {
      const text = body(n, round);
      await call(`${node.url}${path(n)}`, { method: 'POST', headers: JSON_TYPE, body: text, expect: [200, 204] });
      sizes.small += text.length;
    });
    await call(`${node.url}/bench/long`, { method: 'POST', headers: OCTETS, body: randomBytes(LONG_BYTES), expect: [200, 204] });
    sizes.long += LONG_BYTES;
    await ask(node, 'seal');
  }
  return sizes;
}

interface ReadCost {
  readonly gets: number;
  readonly bytes: number;
}

/** Requests and bytes of a cold read of one small stream, in the mean, and the most GETs of a read of 1 MiB of the long one, which compaction may have put together before it is asked to. */
async function readCost(node: FirnProcess): Promise<{ readonly small: ReadCost; readonly long: number }> {
  // Nothing of what was read before is in memory.
  await node.stop();
  await node.start();
  const before = await counted(node);
  for (let n = 0; n < READ; n += 1) await call(`${node.url}${path(Math.floor((n * STREAMS) / READ))}?offset=-1`, { expect: [200] });
  const after = await counted(node);
  let long = 0;
  // Places apart from each other: nothing of one is in memory for the next.
  for (let from = LONG_BYTES / 2; from + MIB <= ROUNDS * LONG_BYTES; from += MIB + BLOCK_BYTES) {
    const { gets } = await counted(node);
    const answer = await call(`${node.url}/bench/long?offset=${from}&max_bytes=${MIB}`, { expect: [200] });
    if (answer.body.length !== MIB) throw new Error(`a read of 1 MiB gave ${answer.body.length} bytes`);
    await sleep(SETTLE_MS);
    long = Math.max(long, (await counted(node)).gets - gets);
  }
  return { small: { gets: (after.gets - before.gets) / READ, bytes: (after.read - before.read) / READ }, long };
}

async function costRows(node: FirnProcess): Promise<Row[]> {
  const start = await counted(node);
  const sizes = await fill(node);
  const sealed = await counted(node);
  const appended = sizes.small + sizes.long;
  const puts = sealed.puts - start.puts;
  const allowed = appended / PUT_BYTES_MIN + PUTS_OF_A_SEAL * ROUNDS;
  const one = await readCost(node);
  process.stderr.write('bench: compaction\n');
  const before = await counted(node);
  const report = JSON.parse((await ask(node, 'compact')).toString('utf8')) as { plans: number; objects: number; bytesRead: number };
  const merged = (await counted(node)).merged - before.merged;
  const two = await readCost(node);
  const figure = ({ gets, bytes: fetched }: ReadCost): string => `${gets.toFixed(2)} GETs, ${bytes(fetched)}`;
  return [
    { work: `${count(STREAMS)} streams, ${bytes(appended)} in ${ROUNDS} seals: PUTs / allowed`, firn: `${puts} PUTs, ${((puts / appended) * 1_024 * MIB).toFixed(0)} per GiB`, other: `${allowed.toFixed(1)}`, ratio: puts / allowed, bound: { kind: 'max', value: 1 } },
    { work: 'stored / appended, small streams of flights', firn: bytes(sealed.sealed - start.sealed - sizes.long), other: bytes(sizes.small), ratio: (sealed.sealed - start.sealed - sizes.long) / sizes.small, bound: null },
    { work: 'the same after compaction', firn: bytes(merged - sizes.long), other: bytes(sizes.small), ratio: (merged - sizes.long) / sizes.small, bound: { kind: 'max', value: STORED_MAX } },
    { work: 'cold read of one small stream: compacted / sealed', firn: figure(two.small), other: figure(one.small), ratio: two.small.gets / one.small.gets, bound: { kind: 'max', value: 1 } },
    { work: 'most GETs of a cold read of 1 MiB: asked to compact (bound), before', firn: `${two.long}`, other: `${one.long}`, ratio: two.long, bound: { kind: 'max', value: GETS_MAX } },
    { work: 'compaction asked for: read, written', firn: `${bytes(report.bytesRead)}, ${bytes(merged)}`, other: `${report.plans} plans, ${report.objects} objects`, ratio: null, bound: null },
  ];
}

/** Many seals of many streams, compacted as they come: what is written in all against what was sealed. */
async function amplificationRow(node: FirnProcess): Promise<Row> {
  const start = await counted(node);
  const all = Array.from({ length: STEADY_STREAMS }, (_, n) => n);
  await each(all, TOGETHER, async (n) => void (await call(`${node.url}/steady/${n}`, { method: 'PUT', headers: JSON_TYPE, expect: [201] })));
  process.stderr.write(`bench: ${STEADY_ROUNDS} seals, compacted as they come\n`);
  for (let round = 0; round < STEADY_ROUNDS; round += 1) {
    await each(all, TOGETHER, async (n) => void (await call(`${node.url}/steady/${n}`, { method: 'POST', headers: JSON_TYPE, body: body(n + round, round), expect: [200, 204] })));
    await ask(node, 'seal');
  }
  const end = await counted(node);
  const [sealed, merged] = [end.sealed - start.sealed, end.merged - start.merged];
  return { work: `write amplification, ${STEADY_ROUNDS} seals of ${STEADY_STREAMS} streams`, firn: `${bytes(sealed + merged)} written`, other: `${bytes(sealed)} sealed`, ratio: (sealed + merged) / sealed, bound: { kind: 'max', value: AMPLIFICATION_MAX } };
}

/** Appends while everything that is sealed is put together again and again, beside appends while it is not. */
async function appendRow(node: FirnProcess, options: Options): Promise<Row> {
  const runs = { busy: [] as Run[], rest: [] as Run[] };
  let plans = 0;
  for (let round = WARM_UP; round < options.rounds; round += 1) {
    process.stderr.write(`bench: appends during compaction, round ${round + 1}\n`);
    const seconds = round === WARM_UP ? WARM_UP_SECONDS : options.seconds;
    const rest = await runOne(node, BODY_BYTES, 2 * round, seconds);
    await drained(node);
    let over = false;
    const compacting = (async () => {
      while (!over) plans += (JSON.parse((await ask(node, 'compact')).toString('utf8')) as { plans: number }).plans;
    })();
    const busy = await runOne(node, BODY_BYTES, 2 * round + 1, seconds);
    over = true;
    await compacting;
    await drained(node);
    if (round === WARM_UP) continue;
    runs.rest.push(rest);
    runs.busy.push(busy);
  }
  const p99 = (of: readonly Run[]): number => median(of.map(({ result }) => result.p99Ms));
  const figure = (of: readonly Run[]): string => `${count(median(of.map(({ result }) => result.rate)))}/s p99 ${p99(of).toFixed(1)} ms`;
  const fault = plans === 0 ? 'nothing was compacted' : undefined;
  return { work: `append ${bytes(BODY_BYTES)}: compacting all the time / not, p99`, firn: figure(runs.busy), other: figure(runs.rest), ratio: p99(runs.busy) / p99(runs.rest), bound: { kind: 'max', value: P99_MAX }, ...(fault === undefined ? {} : { fault }) };
}

export async function compaction(s3: S3Server, options: Options): Promise<Row[]> {
  const rows = await withColdNode(s3, SEALED_WHEN_ASKED, costRows);
  rows.push(await withColdNode(s3, SEALED_WHEN_ASKED, amplificationRow));
  rows.push(await withColdNode(s3, { FIRN_SEAL_BYTES: String(SEAL_BYTES), FIRN_SEAL_AGE_MS: '1000' }, (node) => appendRow(node, options)));
  return rows;
}
