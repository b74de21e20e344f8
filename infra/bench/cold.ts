/**
 * Reads whose bytes lie in S3 alone, beside a plain GET of the very same bytes from the same server.
 *
 * Both sides are read to their end and thrown away; they take turns. Random bytes do not shrink, so that Firn has to fetch as much as the GET does; flight records do, and have
 * to be unpacked.
 */
import { randomBytes } from 'node:crypto';
import { Agent, get, type IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { call, header } from '../demo/client.js';
import { loadAirports } from '../demo/flights.js';
import type { FirnProcess } from '../lib/firn-process.js';
import { clientOf } from '../services/s3-server.js';
import { compaction } from './compaction.js';
import { BUCKET, metricsOf, SEALED_WHEN_ASKED, withColdNode, withS3 } from './cold-node.js';
import { median, type Options, type Row } from './results.js';

const CATCH_UP_BYTES = 64 * 1_048_576;
const SNAPSHOT_BYTES = 16 * 1_048_576;
const APPEND_BYTES = 262_144;
const FLOOR = 0.5;
/** More rounds than of a load that lasts seconds: one takes a fraction of one. */
const ROUNDS_FACTOR = 3;

interface Content {
  readonly name: string;
  readonly type: string;
  /** What is written, append by append, and how it comes back. */
  readonly appends: readonly Buffer[];
  readonly stored: Buffer;
}

function randomContent(): Content {
  const stored = randomBytes(CATCH_UP_BYTES);
  return { name: 'random bytes', type: 'application/octet-stream', stored, appends: Array.from({ length: CATCH_UP_BYTES / APPEND_BYTES }, (_, n) => stored.subarray(n * APPEND_BYTES, (n + 1) * APPEND_BYTES)) };
}

/** All flights, so often over that they reach the size. */
function flightContent(): Content {
  const lines = loadAirports().map((airport) => airport.stored).join('').split('\n').slice(0, -1);
  const appends: Buffer[] = [];
  const stored: Buffer[] = [];
  for (let bytes = 0, at = 0; bytes < CATCH_UP_BYTES; at += 2_000) {
    const batch = Array.from({ length: 2_000 }, (_, n) => lines[(at + n) % lines.length] as string);
    appends.push(Buffer.from(`[${batch.join(',')}]`));
    const text = Buffer.from(`${batch.join('\n')}\n`);
    stored.push(text);
    bytes += text.length;
  }
  return { name: 'flight records', type: 'application/json', appends, stored: Buffer.concat(stored) };
}

async function fill(node: FirnProcess, path: string, { type, appends }: Content): Promise<void> {
  const headers = { 'content-type': type };
  await call(`${node.url}${path}`, { method: 'PUT', headers, expect: [201] });
  for (const body of appends) await call(`${node.url}${path}`, { method: 'POST', headers, body, expect: [200, 204] });
}

async function seal(node: FirnProcess): Promise<void> {
  await call(`${node.adminUrl}/__firn/seal`, { method: 'POST', expect: [200] });
}

/** Reads a stream from its start; answers its bytes. */
async function catchUp(node: FirnProcess, path: string): Promise<number> {
  let bytes = 0;
  for (let offset = '-1'; ; ) {
    const answer = await answerOf(`${node.url}${path}?offset=${offset}`);
    bytes += await bytesOf(answer);
    if (answer.headers['stream-up-to-date'] === 'true') return bytes;
    offset = header(answer, 'stream-next-offset');
  }
}

const agent = new Agent({ keepAlive: true });

/** By `node:http`, as the SDK's GET: what the client itself takes is the same on both sides. */
async function answerOf(url: string): Promise<IncomingMessage> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => get(url, { agent }, resolve).once('error', reject));
  if (answer.statusCode !== 200) throw new Error(`GET ${url}: ${answer.statusCode}`);
  return answer;
}

async function bytesOf(body: Readable): Promise<number> {
  let bytes = 0;
  for await (const piece of body) bytes += (piece as Buffer).length;
  return bytes;
}

async function rawGet(client: S3Client, key: string): Promise<number> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }));
  return bytesOf(Body as Readable);
}

/** Milliseconds of a read of at least `bytes`. */
async function timed(bytes: number, read: () => Promise<number>): Promise<number> {
  const started = performance.now();
  const got = await read();
  if (got < bytes) throw new Error(`${got} bytes came, ${bytes} were to come`);
  return performance.now() - started;
}

interface Contest {
  readonly work: string;
  readonly bytes: number;
  readonly firn: () => Promise<number>;
  readonly raw: () => Promise<number>;
}

/** Lets both take turns; the first turn of each is thrown away. */
async function contest({ work, bytes, firn, raw }: Contest, options: Options): Promise<Row> {
  const millis = { firn: [] as number[], raw: [] as number[] };
  for (let round = -1; round < options.rounds * ROUNDS_FACTOR; round += 1) {
    const times = { raw: await timed(bytes, raw), firn: await timed(bytes, firn) };
    if (round < 0) continue;
    millis.raw.push(times.raw);
    millis.firn.push(times.firn);
  }
  const figure = (list: readonly number[]): string => `${(bytes / 1e3 / median(list)).toFixed(0)} MB/s, ${median(list).toFixed(0)} ms`;
  return { work: `${work} / raw GET`, firn: figure(millis.firn), other: figure(millis.raw), ratio: median(millis.raw) / median(millis.firn), bound: { kind: 'min', value: FLOOR } };
}

async function catchUpRow(node: FirnProcess, client: S3Client, content: Content, options: Options): Promise<Row> {
  const key = `raw/${content.type}`;
  const path = `/bench/${content.type.replace('/', '-')}`;
  process.stderr.write(`bench: cold catch-up, ${content.name}\n`);
  await client.send(new PutObjectCommand({ Bucket: BUCKET, Key: key, Body: content.stored }));
  await fill(node, path, content);
  await seal(node);
  const before = await metricsOf(node);
  const row = await contest({ work: `cold catch-up, 64 MiB of ${content.name}`, bytes: content.stored.length, firn: () => catchUp(node, path), raw: () => rawGet(client, key) }, options);
  const after = await metricsOf(node);
  const hot = after.sum('firn_read_bytes_total', { tier: 'hot' }) - before.sum('firn_read_bytes_total', { tier: 'hot' });
  return hot === 0 ? row : { ...row, fault: `${hot} bytes came from the hot tier` };
}

async function bootstrapRow(node: FirnProcess, client: S3Client, options: Options): Promise<Row> {
  process.stderr.write('bench: cold bootstrap\n');
  const key = 'raw/snapshot';
  const body = randomBytes(SNAPSHOT_BYTES);
  await client.send(new PutObjectCommand({ Bucket: BUCKET, Key: key, Body: body }));
  const headers = { 'content-type': 'application/octet-stream' };
  await call(`${node.url}/bench/with-snapshot`, { method: 'PUT', headers, body: Buffer.alloc(1_024), expect: [201] });
  await call(`${node.url}/bench/with-snapshot/snapshot/${'1024'.padStart(20, '0')}`, { method: 'PUT', headers, body, expect: [204] });
  await seal(node);
  return contest({ work: 'cold bootstrap, snapshot of 16 MiB', bytes: SNAPSHOT_BYTES, firn: async () => bytesOf(await answerOf(`${node.url}/bench/with-snapshot/bootstrap`)), raw: () => rawGet(client, key) }, options);
}

export async function cold(options: Options): Promise<Row[]> {
  return withS3(async (s3) => {
    const client = clientOf(s3);
    try {
      return await withColdNode(s3, SEALED_WHEN_ASKED, async (node) => [
        await catchUpRow(node, client, randomContent(), options),
        await catchUpRow(node, client, flightContent(), options),
        await bootstrapRow(node, client, options),
      ]).then(async (rows) => [...rows, ...(await compaction(s3, options))]);
    } finally {
      agent.destroy();
      client.destroy();
    }
  });
}
