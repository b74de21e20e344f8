/** Damage in the object store: data objects, snapshots, log records (I9, R007, R115). */
import { copyFileSync, cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { cutEnd, filesBelow, flip, flipMiddle } from '../support/damage.js';
import { FirnNode } from '../support/node.js';
import { Random } from '../support/random.js';
import { OCTETS, Stream } from '../support/stream.js';
import { headLoudly, readLoudly } from './loud.js';

let node: FirnNode;
let cold: { stream: Stream; content: Buffer }[];
let hot: { stream: Stream; content: Buffer };
const SNAPSHOT = Buffer.alloc(1_500_000, 'a large snapshot ');

beforeEach(async () => {
  node = new FirnNode({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000' });
  await node.start();
  const random = new Random(99);
  cold = [];
  for (const name of ['one', 'two', 'three']) {
    const stream = new Stream(node.http, `/cold/${name}`);
    const content = random.bytes(150_000);
    await stream.create({ type: OCTETS });
    for (let at = 0; at < content.length; at += 10_000) await stream.append(content.subarray(at, at + 10_000));
    cold.push({ stream, content });
  }
  expect((await cold[0]!.stream.publish('100000', SNAPSHOT)).status).toBe(204);
  const report = await node.seal();
  expect(report.bytes).toBeGreaterThanOrEqual(450_000);
  hot = { stream: new Stream(node.http, '/cold/hot'), content: random.bytes(5_000) };
  await hot.stream.create({ type: OCTETS, body: hot.content });
  await node.stop();
  rmSync(join(node.dataDir, 'cache'), { recursive: true, force: true });
});
afterEach(() => node.dispose());

const objects = (kind: string): string[] => filesBelow(join(node.dataDir, 'objects')).filter((path) => path.includes(`/${kind}/`));
const outcomes = () => Promise.all(cold.map(({ stream, content }) => readLoudly(stream, content)));

/** `firn verify --deep` by the running node and on the stopped directory both find something. */
async function verifyFinds(running: boolean): Promise<void> {
  const run = await firn(['verify', '--deep'], settingsFor(node, running ? {} : { FIRN_LOG: 'error' }));
  expect(run.code, run.stdout + run.stderr).not.toBe(0);
}

async function goesOnElsewhere(): Promise<void> {
  expect(await readLoudly(hot.stream, hot.content)).toBe('exact');
  expect((await hot.stream.append('more')).status).toBe(204);
  for (const { stream, content } of cold) await headLoudly(stream, content.length);
}

describe('data objects', () => {
  it('without damage everything reads back and verify is content', async () => {
    await node.start();
    expect(await outcomes()).toEqual(['exact', 'exact', 'exact']);
    const run = await firn(['verify', '--deep'], settingsFor(node));
    expect([run.code, run.code === 0 ? '' : run.stdout + run.stderr]).toEqual([0, '']);
  });

  it('one byte flipped: the range is an error while it is so, and whole again after the repair', async () => {
    const segments = objects('segments');
    const positions = segments.map((file) => [file, 60_000] as const);
    for (const [file, at] of positions) flip(file, at);
    await node.start();
    expect(await outcomes()).toContain('refused');
    await goesOnElsewhere();
    await verifyFinds(true);
    expect(filesBelow(join(node.dataDir, 'objects')).length).toBeGreaterThanOrEqual(segments.length);
    for (const [file, at] of positions) flip(file, at);
    expect(await outcomes()).toEqual(['exact', 'exact', 'exact']);
  });

  it('a missing object: 5xx, never 404; whole again when it is back', async () => {
    const [file] = objects('segments');
    const aside = join(tmpdir(), `firn-aside-${process.pid}`);
    copyFileSync(file!, aside);
    rmSync(file!);
    await node.start();
    expect(await outcomes()).toContain('refused');
    const read = await cold[0]!.stream.read({ offset: '0' }).catch(() => null);
    if (read !== null) expect(read.status === 200 || read.status >= 500).toBe(true);
    await goesOnElsewhere();
    await verifyFinds(true);
    renameSync(aside, file!);
    expect(await outcomes()).toEqual(['exact', 'exact', 'exact']);
  });

  it('a short object is never data', async () => {
    for (const file of objects('segments')) cutEnd(file, 100_000);
    await node.start();
    expect(await outcomes()).toContain('refused');
    await goesOnElsewhere();
    await verifyFinds(true);
  });

  it('a damaged chunk or snapshot route says so as well', async () => {
    for (const file of objects('segments')) flip(file, 1_000);
    await node.start();
    const answers = await Promise.all(
      cold.map(async ({ stream }) => {
        const inc = (await stream.head()).incarnation;
        return stream.sub('GET', `incarnation/${inc}/chunk/${'0'.repeat(20)}`).catch(() => null);
      }),
    );
    const refused = answers.filter((answer) => answer === null || answer.status >= 500);
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of answers) if (answer !== null && answer.status >= 500) expect(answer.header('cache-control')).toBe('no-store');
  });
});

describe('snapshot objects', () => {
  it('one byte flipped: the body is refused or cut, never whole and wrong', async () => {
    const files = objects('snapshots');
    expect(files.length).toBe(1);
    flipMiddle(files[0]!);
    await node.start();
    const { stream } = cold[0]!;
    const answer = await stream.sub('GET', 'snapshot/100000').catch(() => null);
    if (answer !== null) expect(answer.status).toBeGreaterThanOrEqual(500);
    const boot = await stream.bootstrap().catch(() => null);
    if (boot !== null) expect(boot.status).toBeGreaterThanOrEqual(500);
    expect((await stream.head()).header('stream-snapshot-offset')).toBe('100000'.padStart(20, '0'));
    await verifyFinds(true);
  });
});

describe('log records', () => {
  const restoreElsewhere = async () => {
    const dir = mkdtempSync(join(tmpdir(), 'firn-restore-'));
    try {
      cpSync(join(node.dataDir, 'objects'), join(dir, 'objects'), { recursive: true });
      return await firn(['restore'], { FIRN_DATA_DIR: dir });
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  };

  it('without damage a restore goes through', async () => {
    const run = await restoreElsewhere();
    expect([run.code, run.code === 0 ? '' : run.stderr]).toEqual([0, '']);
  });

  it('one byte flipped in each: the node serves what it has or refuses, verify finds it, a restore refuses', async () => {
    const records = objects('log');
    expect(records.length).toBeGreaterThan(0);
    for (const file of records) flipMiddle(file);
    const run = await restoreElsewhere();
    expect(run.code).not.toBe(0);
    expect(run.stderr.trim()).not.toBe('');
    await verifyFinds(false);
    const { tryStart } = await import('./loud.js');
    if (await tryStart(node)) for (const { stream, content } of cold) await readLoudly(stream, content);
  });

  it('a missing record in the middle: a restore refuses', async () => {
    await node.start();
    for (let i = 0; i < 3; i += 1) {
      await hot.stream.append(`round ${i}`);
      await node.seal();
    }
    await node.stop();
    const records = objects('log');
    rmSync(records[records.length - 2]!);
    const run = await restoreElsewhere();
    expect(run.code).not.toBe(0);
    await verifyFinds(false);
  });
});
