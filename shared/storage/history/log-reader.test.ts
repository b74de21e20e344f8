import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FsObjectStore } from '../fs-store.js';
import { logKey } from '../keys.js';
import { MeasuredStore, StoreTally } from '../measured-store.js';
import { pause } from '../../time/pause.js';
import { encodeLogEntry } from '../records/log-entry.js';
import { LOG_START, readLog } from './log-reader.js';

const MIB = 1_048_576;

let dir: string;
let store: FsObjectStore;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-log-reader-'));
  store = await FsObjectStore.open(join(dir, 'objects'));
});
afterEach(async () => {
  await store.close();
  await rm(dir, { recursive: true });
});

/** How many entries, and how many of their bytes, were read ahead of a slow reader at most. */
async function readAhead(records: number, bytes: number): Promise<{ entries: number; bytes: number; stored: number }> {
  let stored = 0;
  for (let seq = 1; seq <= records; seq++) {
    const deltas = Array.from({ length: Math.ceil(bytes / 12_288) }, () => ({ kind: 'purge' as const, bucket: randomBytes(12_000).toString('base64') }));
    const entry = encodeLogEntry({ kind: 'record', partition: 0, session: 1, seq, plan: null, writtenAtMs: 1, objects: [], deltas });
    stored = entry.length;
    await store.putOnce(logKey(0, 1, seq), entry);
  }
  const tally = new StoreTally();
  const most = { entries: 0, bytes: 0, stored };
  const ahead = { entries: 0, bytes: 0 };
  let seen = 0;
  for await (const { record, bytes: entryBytes } of readLog({ store: new MeasuredStore(store, tally), partition: 0, after: LOG_START, until: 1, live: true })) {
    expect(record.seq).toBe(++seen);
    await pause(30);
    const { requests, read } = tally.take() ?? { requests: [], read: 0 };
    ahead.entries += requests.filter(({ op }) => op === 'get').reduce((sum, { count }) => sum + count, 0) - 1;
    ahead.bytes += read - entryBytes;
    most.entries = Math.max(most.entries, ahead.entries);
    most.bytes = Math.max(most.bytes, ahead.bytes);
  }
  expect(seen).toBe(records);
  return most;
}

it('I11 short log entries are read ahead up to a number of them', async () => {
  const { entries } = await readAhead(30, 1);
  expect(entries).toBeGreaterThan(3);
  expect(entries).toBeLessThanOrEqual(8);
});

it('I11 long log entries are read ahead up to 8 MiB of them, and one at least', async () => {
  const { bytes, entries, stored } = await readAhead(10, 3 * MIB);
  expect(stored).toBeGreaterThan(2 * MIB);
  expect(entries).toBeGreaterThan(0);
  expect(bytes).toBeLessThanOrEqual(8 * MIB);
});

it('an entry longer than all that may be read ahead is read all the same', async () => {
  const { stored } = await readAhead(2, 12 * MIB);
  expect(stored).toBeGreaterThan(8 * MIB);
});
