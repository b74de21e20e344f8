/**
 * A large snapshot in one body, from its upload to its end, with an S3 server as cold tier: never in memory, never visible by half, whole after kills.
 *
 * `FIRN_TEST_SNAPSHOT_BYTES` makes it larger, up to 1 GiB (`1073741824`).
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { filesBelow } from '../support/damage.js';
import { FirnNode, type Env } from '../support/node.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';

const MIB = 1_048_576;
const BYTES = Number(process.env['FIRN_TEST_SNAPSHOT_BYTES'] ?? 256 * MIB);
/** Most that a step may add to the memory of the node (requirements: never in memory). */
const GROWTH_MAX = 64 * MIB;

const server = await useS3();
let node: FirnNode;
afterEach(() => node.dispose());

/** Bytes [from, to) of the body: each MiB begins with its number. */
function* bodyOf(from: number, to: number): Generator<Buffer> {
  const block = Buffer.alloc(MIB, 'all work and no play; ');
  for (let at = from; at < to; ) {
    const n = Math.floor(at / MIB);
    const piece = Buffer.from(block);
    piece.writeUInt32BE(n, 0);
    const end = Math.min(to, (n + 1) * MIB);
    yield piece.subarray(at - n * MIB, end - n * MIB);
    at = end;
  }
}

function hashOf(pieces: Iterable<Buffer>): string {
  const hash = createHash('sha256');
  for (const piece of pieces) hash.update(piece);
  return hash.digest('hex');
}

/** Sends [0, bytes) as a body that says it has BYTES; the status, or null when the connection broke. */
function upload(path: string, bytes = BYTES, onSent: () => void = () => undefined): Promise<number | null> {
  return new Promise((resolve) => {
    const out = request(`${node.url}${path}`, { method: 'PUT', agent: false, headers: { 'content-type': OCTETS, 'content-length': BYTES } }, (answer) => {
      answer.resume();
      answer.once('end', () => resolve(answer.statusCode ?? null));
    });
    out.on('error', () => resolve(null));
    const body = Readable.from(bodyOf(0, bytes));
    body.pipe(out, { end: bytes === BYTES });
    body.once('end', onSent);
    if (bytes !== BYTES) body.once('end', () => setTimeout(() => out.destroy(), 500));
  });
}

/** Status and hash of what a GET gives, as it streams. */
function download(path: string): Promise<{ readonly status: number; readonly bytes: number; readonly hash: string }> {
  return new Promise((resolve, reject) => {
    request(`${node.url}${path}`, { agent: false }, (answer: IncomingMessage) => {
      const hash = createHash('sha256');
      let bytes = 0;
      answer.on('data', (piece: Buffer) => {
        hash.update(piece);
        bytes += piece.length;
      });
      answer.once('error', reject);
      answer.once('end', () => resolve({ status: answer.statusCode ?? 0, bytes, hash: hash.digest('hex') }));
    }).once('error', reject).end();
  });
}

function memory(name: 'VmHWM' | 'VmRSS'): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${node.pid}/status`, 'utf8'))?.[1]) * 1_024;
}

/** Runs a step and holds what it adds at its peak against the limit. */
async function within<T>(step: string, work: () => Promise<T>): Promise<T> {
  writeFileSync(`/proc/${node.pid}/clear_refs`, '5');
  const before = memory('VmRSS');
  const result = await work();
  const grown = (memory('VmHWM') - before) / MIB;
  process.stdout.write(`${step} of ${BYTES / MIB} MiB: peak +${grown.toFixed(0)} MiB\n`);
  expect(grown, step).toBeLessThan(GROWTH_MAX / MIB);
  return result;
}

const staging = (): string[] => filesBelow(join(node.dataDir, 'staging'));

it('I11 R103 one body: half of it is never visible, and upload, kill, offload, reads and supersession add less than 64 MiB', { timeout: 600_000 }, async () => {
  const settings: Env = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', FIRN_LOG: 'warn', ...s3Settings(server) };
  node = new FirnNode(settings);
  await node.start();
  const s = new Stream(node.http, '/large/one');
  await s.create({ type: OCTETS, body: '0123456789' });
  const whole = hashOf(bodyOf(0, BYTES));
  const warmUp = async (offset: number): Promise<void> => {
    expect((await s.publish(String(offset), Buffer.alloc(40 * MIB, offset))).status).toBe(204);
    await node.seal();
    expect((await s.sub('GET', `snapshot/${offset}`)).body.length).toBe(40 * MIB);
  };
  // What the first use of each path loads for good is no growth with the body.
  await warmUp(1);

  // A client that leaves, and a node that is killed, in the middle of the upload: the snapshot before is the visible one.
  expect(await upload(`${s.path}/snapshot/5`, BYTES / 2)).toBeNull();
  await expect.poll(staging, { timeout: 10_000 }).toEqual([]);
  const killed = upload(`${s.path}/snapshot/5`, BYTES / 2, () => void node.kill());
  await expect.poll(() => staging().length, { timeout: 20_000 }).toBe(1);
  expect([(await s.head()).header('stream-snapshot-offset'), (await s.sub('GET', 'snapshot/5')).status]).toEqual([`${'0'.repeat(19)}1`, 404]);
  expect(await killed).toBeNull();
  await node.start();
  expect([(await s.head()).header('stream-snapshot-offset'), (await s.sub('GET', 'snapshot/5')).status, staging()]).toEqual([`${'0'.repeat(19)}1`, 404, []]);

  await warmUp(2);
  expect(await within('upload', () => upload(`${s.path}/snapshot/5`))).toBe(204);
  // Visible at once, from staging; the answer outlives the process.
  await node.kill();
  await node.start();
  // V8 lets some 64 MiB of buffers wait for their collection in any process that moves bytes: that much a warm one holds already.
  expect((await s.sub('GET', 'snapshot/5', { range: `bytes=0-${100 * MIB - 1}` })).body.length).toBe(100 * MIB);
  expect(await within('read from staging', () => download(`${s.path}/snapshot/5`))).toEqual({ status: 200, bytes: BYTES, hash: whole });
  await within('offload', () => node.seal());
  await expect.poll(staging, { timeout: 20_000 }).toEqual([]);
  expect(await within('read from the store', () => download(`${s.path}/snapshot/5`))).toEqual({ status: 200, bytes: BYTES, hash: whole });
  for (const [from, to] of [[0, 100], [16 * MIB - 50, 16 * MIB + 50], [BYTES - 77, BYTES]] as const) {
    const range = await s.sub('GET', 'snapshot/5', { range: `bytes=${from}-${to - 1}` });
    expect([range.status, range.body.equals(Buffer.concat([...bodyOf(from, to)]))]).toEqual([206, true]);
  }
  expect((await firn(['verify', '--deep'], settingsFor(node, settings))).code).toBe(0);

  // Superseded while it is read: the reader gets all of it, or is cut.
  const last = download(`${s.path}/snapshot/5`).catch(() => null);
  expect((await s.publish('10', Buffer.from('newer'))).status).toBe(204);
  const read = await last;
  if (read !== null) expect([read.status, read.hash]).toEqual([200, whole]);
  expect((await s.head()).header('stream-snapshot-offset')).toBe(`${'0'.repeat(18)}10`);
  await node.seal();
  await node.restart();
  expect([(await s.sub('GET', 'snapshot/10')).text, (await s.sub('GET', 'snapshot/5')).status, staging()]).toEqual(['newer', 404, []]);
  expect((await firn(['verify'], settingsFor(node, settings))).code).toBe(0);
});
