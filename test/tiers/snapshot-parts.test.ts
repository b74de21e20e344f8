/** Snapshots in parts with all that stands behind them: a gibibyte in bounded memory, ranges of it from the object store, and `kill -9` at any step (R103). */
import { createBLAKE3 } from 'hash-wasm';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { filesBelow } from '../support/damage.js';
import { FirnNode } from '../support/node.js';
import { seeded } from '../support/random.js';
import { OCTETS, sleep, Stream } from '../support/stream.js';

const MIB = 1_048_576;
const GROWTH_MAX = 64 * MIB;

let node: FirnNode;
afterEach(() => node.dispose());

async function digestOf(pieces: Iterable<Buffer>): Promise<string> {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(OCTETS.length));
  const hash = (await createBLAKE3()).init().update(length).update(OCTETS);
  for (const piece of pieces) hash.update(piece);
  return hash.digest('hex');
}

const commit = (s: Stream, offset: number, ids: readonly string[], digest: string) =>
  s.publish(String(offset), ids.map((id) => `${id}\n`).join(''), OCTETS, { 'stream-snapshot-parts': String(ids.length), 'stream-snapshot-digest': digest });

const staging = (ending = ''): string[] => filesBelow(join(node.dataDir, 'staging'), ending);

/** Bytes of memory that the node's process holds: at most since the last `forget`, and now. */
function memory(): { readonly peak: number; readonly now: number } {
  const status = readFileSync(`/proc/${node.pid}/status`, 'utf8');
  const of = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1_024;
  return { peak: of('VmHWM'), now: of('VmRSS') };
}

function forget(): void {
  writeFileSync(`/proc/${node.pid}/clear_refs`, '5');
}

it('SNAP-13 a gibibyte in 32 parts: memory grows by less than 64 MiB at each step, and the bytes come back by ranges from the object store', { timeout: 400_000 }, async () => {
  node = new FirnNode({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000' });
  await node.start();
  const s = new Stream(node.http, '/parts/large');
  await s.create({ type: OCTETS, body: '0123456789' });
  const part = Buffer.alloc(32 * MIB);
  const pieceAt = (n: number): Buffer => {
    part.fill(`part ${n} of a large snapshot; `);
    return part;
  };
  // What the first use of each path loads for good is no growth with the body.
  const warm = (await s.sub('POST', 'snapshot/1/parts', {}, pieceAt(99))).need('stream-snapshot-part');
  expect((await commit(s, 1, [warm], await digestOf([part]))).status).toBe(204);
  await node.seal();

  const within = async <T>(step: string, work: () => Promise<T>): Promise<T> => {
    forget();
    const before = memory().now;
    const result = await work();
    expect((memory().peak - before) / MIB, step).toBeLessThan(GROWTH_MAX / MIB);
    return result;
  };
  const ids = await within('upload', async () => {
    const made: string[] = [];
    for (let n = 0; n < 32; n += 1) made.push((await s.sub('POST', 'snapshot/10/parts', {}, pieceAt(n))).need('stream-snapshot-part'));
    return made;
  });
  const digest = await digestOf((function* () {
    for (let n = 0; n < 32; n += 1) yield pieceAt(n);
  })());
  expect((await within('commit', () => commit(s, 10, ids, digest))).status).toBe(204);
  expect(staging('.part')).toEqual([]);
  await within('offload', () => node.seal());
  await expect.poll(() => staging(), { timeout: 20_000 }).toEqual([]);
  await node.restart();
  const read = await s.sub('HEAD', 'snapshot/10');
  expect([read.header('content-length'), read.header('stream-snapshot-digest')]).toEqual([String(1_024 * MIB), digest]);
  for (const [from, to] of [[0, 40], [32 * MIB - 20, 32 * MIB + 20], [1_024 * MIB - 30, 1_024 * MIB - 1]] as const) {
    const range = await s.sub('GET', 'snapshot/10', { range: `bytes=${from}-${to}` });
    const expected = Buffer.concat([pieceAt(Math.floor(from / part.length)).subarray(from % part.length, from % part.length + to - from + 1)]);
    const rest = pieceAt(Math.floor(to / part.length)).subarray(0, to - from + 1 - expected.length);
    expect([range.status, range.body.equals(Buffer.concat([expected, rest]))]).toEqual([206, true]);
  }
});

it('R103 killed at any step: a snapshot is there whole or not at all, parts are usable or gone, and nothing stays behind', { timeout: 240_000 }, async () => {
  const random = seeded('snapshot parts');
  node = new FirnNode({ FIRN_SEAL_AGE_MS: '300', FIRN_HOT_KEEP_MS: '0' });
  await node.start();
  const s = new Stream(node.http, '/parts/killed');
  await s.create({ type: OCTETS, body: '0123456789' });
  let visible: number | null = null;
  for (let round = 0; round < 8; round += 1) {
    const offset = round + 1;
    const bodies = Array.from({ length: 4 }, (_, n) => Buffer.alloc(random.int(100_000, 3_000_000), `round ${round} part ${n} `));
    const digest = await digestOf(bodies);
    const ids: string[] = [];
    const story = async (): Promise<number> => {
      for (const body of bodies) {
        const answer = await s.sub('POST', `snapshot/${offset}/parts`, {}, body);
        if (answer.status === 201) ids.push(answer.need('stream-snapshot-part'));
      }
      return (await commit(s, offset, ids, digest)).status;
    };
    const outcome = story().catch(() => 0);
    await sleep(random.int(10, 300));
    await node.kill();
    const status = await outcome;
    await node.start();
    const head = await s.head();
    const seen = head.header('stream-snapshot-offset');
    if (status === 204) expect(Number(seen)).toBe(offset);
    if (seen === undefined) expect(visible).toBe(null);
    else expect([visible, offset]).toContain(Number(seen));
    // What was answered with 201 is there, unless the commit used it.
    if (ids.length === bodies.length) expect((await commit(s, offset, ids, digest)).status).toBe(204);
    const now = (await s.head()).header('stream-snapshot-offset');
    if (now !== undefined) {
      visible = Number(now);
      const read = await s.sub('GET', `snapshot/${now}`);
      expect(read.header('stream-snapshot-digest')).toBe(await digestOf([read.body]));
      if (visible === offset) expect(read.body.equals(Buffer.concat(bodies))).toBe(true);
    }
  }
  expect(visible).not.toBe(null);
  expect((await s.sub('DELETE', 'snapshot/parts')).status).toBe(204);
  await node.restart();
  await node.seal();
  await expect.poll(() => staging(), { timeout: 20_000 }).toEqual([]);
  await s.delete();
  await node.seal();
  const run = await firn(['verify', '--deep'], settingsFor(node));
  expect([run.code, run.code === 0 ? '' : run.stdout + run.stderr]).toEqual([0, '']);
});
