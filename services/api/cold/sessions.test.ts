import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics } from '../../../shared/observability/metrics.js';
import { FsObjectStore } from '../../../shared/storage/fs-store.js';
import { ObjectDamaged } from '../../../shared/storage/object-store.js';
import { logKey } from '../../../shared/storage/keys.js';
import { encodeLogEntry } from '../../../shared/storage/records/log-entry.js';
import type { LogRecord } from '../../../shared/storage/records/types.js';
import { openDurableStore } from '../hot/durable-store.js';
import type { DurableStore } from '../hot/durable.js';
import { readLog } from '../../../shared/storage/history/log-reader.js';
import { readLogEntry } from '../../../shared/storage/history/log-entries.js';
import { coldMetrics } from './cold-metrics.js';
import { Switchable } from './cold-rig.contract.js';
import { rowsOfStore } from './directory.js';
import { PartitionSession, SessionFenced } from './partition-session.js';
import { fenceEarlier, newestSession } from './sessions.js';
import { StartRefused } from './start-refused.js';
import { noSteps } from './steps.js';

const logger = createLogger('silent');
let dir: string;
let objects: Switchable;
const open: DurableStore[] = [];
const stops: AbortController[] = [];

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-sessions-'));
  objects = new Switchable(await FsObjectStore.open(join(dir, 'objects')));
});
afterEach(async () => {
  for (const stop of stops.splice(0)) stop.abort();
  for (const store of open.splice(0)) await store.close();
  await rm(dir, { recursive: true, force: true });
});

/** A node run's session on a directory of its own name. */
async function sessionOf(name: string, store: DurableStore | null = null): Promise<{ session: PartitionSession; store: DurableStore }> {
  const hot = store ?? (await openDurableStore({ dir: join(dir, name), ackedFile: join(dir, `${name}.acked`), logger }));
  if (store === null) open.push(hot);
  const stop = new AbortController();
  stops.push(stop);
  const session = new PartitionSession({
    partition: 0, store: objects, rows: rowsOfStore(hot), logger, metrics: coldMetrics(createMetrics()), now: Date.now,
    nonce: () => randomBytes(16).toString('hex'), steps: noSteps, stop: stop.signal,
  });
  await session.load();
  return { session, store: hot };
}

const DRAFT = { plan: null, objects: [], deltas: [{ kind: 'purge', bucket: 'demo' }] } as const;

async function history(until: number, after = { session: 0, seq: 0 }, live = true): Promise<string[]> {
  const seen: string[] = [];
  for await (const { record } of readLog({ store: objects, partition: 0, after, until, live })) seen.push(`${record.session}/${record.seq}`);
  return seen;
}

describe('sessions of a partition (I10)', () => {
  it('are claimed in order; each run fences the one before and numbers its log from 1', async () => {
    const first = await sessionOf('a');
    await first.session.claim();
    await first.session.append(DRAFT);
    await first.session.append(DRAFT);
    const second = await sessionOf('a', first.store);
    await second.session.claim();
    expect(second.session.session).toBe(2);
    await second.session.append(DRAFT);
    expect(await history(2)).toEqual(['1/1', '1/2', '2/1']);
    expect(await history(2, { session: 1, seq: 1 })).toEqual(['1/2', '2/1']);
    expect((await readLogEntry(objects, 0, 1, 3)).kind).toBe('fence');
    await expect(first.session.append(DRAFT)).rejects.toBeInstanceOf(SessionFenced);
    expect(first.session.refusal).toMatchObject({ code: 'APPLY_STOPPED' });
  });

  it('count a record that was created before its fence, and refuse one that came after', async () => {
    const first = await sessionOf('a');
    await first.session.claim();
    await first.session.append(DRAFT);
    // The record wins the position that the fence wanted: the fence goes behind it.
    const late: LogRecord = { kind: 'record', partition: 0, session: 1, seq: 2, plan: null, writtenAtMs: 1, objects: [], deltas: [] };
    let raced = false;
    objects.before = async (call, key) => {
      if (raced || call !== 'put' || key !== logKey(0, 1, 2)) return;
      raced = true;
      await objects.inner.putOnce(key, encodeLogEntry(late));
    };
    await fenceEarlier(objects, 0, 1, 2);
    expect(raced).toBe(true);
    expect((await readLogEntry(objects, 0, 1, 2)).kind).toBe('record');
    expect((await readLogEntry(objects, 0, 1, 3)).kind).toBe('fence');
    await fenceEarlier(objects, 0, 1, 2);
    await expect(readLogEntry(objects, 0, 1, 4)).rejects.toThrow();
  });

  it('settle a record whose answer was lost with the very same bytes', async () => {
    const { session } = await sessionOf('a');
    await session.claim();
    let lost = 0;
    const put = objects.putOnce.bind(objects);
    objects.putOnce = async (...args) => {
      const outcome = await put(...args);
      if (args[0] === logKey(0, 1, 1) && lost++ === 0) {
        objects.down = true;
        setTimeout(() => (objects.down = false), 50);
        return put(...args);
      }
      return outcome;
    };
    const { record } = await session.append(DRAFT);
    expect(record.seq).toBe(1);
    expect(lost).toBe(2);
    expect((await session.append(DRAFT)).record.seq).toBe(2);
    expect(await history(1)).toEqual(['1/1', '1/2']);
  });

  it('take over an own claim whose answer was lost, and refuse when another node moved on', async () => {
    const first = await sessionOf('a');
    let cut = true;
    const put = objects.putOnce.bind(objects);
    objects.putOnce = async (...args) => {
      const outcome = await put(...args);
      if (cut && args[0].includes('/sessions/')) {
        cut = false;
        objects.down = true;
        return put(...args);
      }
      return outcome;
    };
    await expect(first.session.claim()).rejects.toThrow(/unavailable/);
    objects.down = false;
    await first.session.claim();
    expect(first.session.session).toBe(2);
    const other = await sessionOf('b');
    await expect(other.session.claim()).rejects.toBeInstanceOf(StartRefused);
    expect(other.session.state).toBe('refused');
    expect(await newestSession(objects, 0)).toBe(2);
  });

  it('give exactly one of two nodes with one directory the session', async () => {
    const a = await sessionOf('a');
    const b = await sessionOf('b');
    const outcomes = await Promise.allSettled([a.session.claim(), b.session.claim()]);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('end and go on within a run, as one history', async () => {
    const { session } = await sessionOf('a');
    await session.claim();
    await session.append(DRAFT);
    await session.claimNext();
    await session.append(DRAFT);
    expect(session.session).toBe(2);
    expect(await history(2)).toEqual(['1/1', '2/1']);
  });
});

describe('the log read from objects (I9)', () => {
  it('refuses a hole, a missing fence, an entry behind a fence, and damage', async () => {
    const { session } = await sessionOf('a');
    await session.claim();
    for (let n = 0; n < 3; n++) await session.append(DRAFT);
    await expect(history(1, undefined, false)).rejects.toBeInstanceOf(ObjectDamaged);
    await fenceEarlier(objects, 0, 1, 2);
    expect(await history(1, undefined, false)).toEqual(['1/1', '1/2', '1/3']);
    await objects.putOnce(logKey(0, 1, 5), encodeLogEntry({ kind: 'record', partition: 0, session: 1, seq: 5, plan: null, writtenAtMs: 1, objects: [], deltas: [] }));
    await expect(history(1)).rejects.toThrow(/behind the fence/);
    await objects.delete(logKey(0, 1, 5));
    await objects.delete(logKey(0, 1, 2));
    await expect(history(1)).rejects.toThrow(/missing/);
    await writeFile(join(dir, 'objects', logKey(0, 1, 2)), 'not a log entry');
    await expect(history(1)).rejects.toThrow();
  });
});
