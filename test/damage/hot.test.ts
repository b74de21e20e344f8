/** Damage in RocksDB's files: the write-ahead log and the tables (R005, R007, I9). */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cutEnd, filesBelow, flip, locate } from '../support/damage.js';
import { FirnNode } from '../support/node.js';
import { Random } from '../support/random.js';
import { OCTETS, Stream } from '../support/stream.js';
import { headLoudly, readiness, readLoudly, tryStart } from './loud.js';

const RECORDS = 40;
const RECORD_BYTES = 1_000;

let node: FirnNode;
let streams: { stream: Stream; records: Buffer[] }[];

beforeEach(async () => {
  node = new FirnNode();
  await node.start();
  const random = new Random(77);
  streams = [];
  for (const name of ['aaa', 'bbb', 'ccc']) {
    const stream = new Stream(node.http, `/hurt/${name}`);
    await stream.create({ type: OCTETS });
    streams.push({ stream, records: [] });
  }
  for (let i = 0; i < RECORDS; i += 1) {
    for (const { stream, records } of streams) {
      const record = random.bytes(RECORD_BYTES);
      expect((await stream.append(record)).status).toBe(204);
      records.push(record);
    }
  }
});
afterEach(() => node.dispose());

const contentOf = (records: readonly Buffer[]): Buffer => Buffer.concat(records);
const hot = (): string => join(node.dataDir, 'hot');

/** After damage that lost acknowledged bytes: the node does not come up ready, and shows nothing shorter than what was acknowledged. */
async function expectNoPretence(): Promise<void> {
  if (!(await tryStart(node))) {
    // It says which batches are missing (architecture section 5).
    expect(node.output).toMatch(/batch/);
    expect(node.output).toMatch(/missing|acknowledged|lost/);
    return;
  }
  const ready = await readiness(node);
  expect(ready.status).toBe(503);
  expect(ready.text.length).toBeGreaterThan(10);
  for (const { stream, records } of streams) {
    const content = contentOf(records);
    await headLoudly(stream, content.length);
    await readLoudly(stream, content);
    const append = await stream.append('behind the hole');
    expect([append.status, append.header('retry-after')]).toEqual([503, expect.any(String)]);
    expect((await stream.delete()).status).toBe(503);
  }
  expect((await new Stream(node.http, '/hurt/new').create({ type: OCTETS })).status).toBe(503);
}

describe('write-ahead log', () => {
  it('R005 one byte flipped in the middle of it: not ready, nothing shorter is served, no append behind the hole', async () => {
    await node.kill();
    const { file, at } = locate(filesBelow(hot(), '.log'), streams[1]!.records[RECORDS / 2]!.subarray(0, 64));
    flip(file, at + 500);
    await expectNoPretence();
    expect(node.output).toContain('hurt/bbb');
  });

  it('R005 the same after a second start', async () => {
    await node.kill();
    const { file, at } = locate(filesBelow(hot(), '.log'), streams[0]!.records[3]!.subarray(0, 64));
    flip(file, at + 10);
    await expectNoPretence();
    await node.kill();
    await expectNoPretence();
  });

  it('its last bytes cut off: the acknowledged end is missed', async () => {
    await node.kill();
    const { file } = locate(filesBelow(hot(), '.log'), streams[2]!.records[RECORDS - 1]!.subarray(0, 64));
    cutEnd(file, 300);
    await expectNoPretence();
  });

  it('without damage the same steps come up ready with every byte', async () => {
    await node.kill();
    await node.start();
    expect((await readiness(node)).status).toBe(200);
    for (const { stream, records } of streams) expect(await readLoudly(stream, contentOf(records))).toBe('exact');
  });
});

describe('tables', () => {
  /** RocksDB moves its log into a table at the next open. */
  const intoTables = async (): Promise<void> => {
    await node.restart();
    await node.stop();
  };

  it('one byte flipped in a table: the damaged range is an error, other streams go on', async () => {
    await intoTables();
    const hurt = streams[1]!;
    const { file, at } = locate(filesBelow(hot(), '.sst'), hurt.records[RECORDS / 2]!.subarray(0, 64));
    flip(file, at + 500);
    if (!(await tryStart(node))) return;
    expect(await readLoudly(hurt.stream, contentOf(hurt.records))).toBe('refused');
    await headLoudly(hurt.stream, contentOf(hurt.records).length);
    for (const { stream, records } of streams) await readLoudly(stream, contentOf(records));
    const append = await hurt.stream.append('more');
    if (append.status === 204) expect(Number(append.next)).toBe(contentOf(hurt.records).length + 4);
    else expect(append.status).toBeGreaterThanOrEqual(500);
  });

  it('a missing table: an error at the start or at the read', async () => {
    await intoTables();
    const { file } = locate(filesBelow(hot(), '.sst'), streams[1]!.records[RECORDS / 2]!.subarray(0, 64));
    rmSync(file);
    if (!(await tryStart(node))) return;
    for (const { stream, records } of streams) {
      await headLoudly(stream, contentOf(records).length);
      await readLoudly(stream, contentOf(records));
    }
    const outcomes = await Promise.all(streams.map(({ stream, records }) => readLoudly(stream, contentOf(records))));
    expect(outcomes).toContain('refused');
  });
});
