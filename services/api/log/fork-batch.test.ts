import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import pino from 'pino';
import { createMetrics } from '../../../shared/observability/index.js';
import { advance, ZERO, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { BatchFault } from '../hot/batch-fault.contract.js';
import type { DurableStore } from '../hot/durable.js';
import { openDurableStore } from '../hot/durable-store.js';
import { dataRow, streamRow, unpinRow } from '../hot/keys/index.js';
import { Core } from './log-core.js';
import type { Slot } from './slot.js';
import type { StreamEvent } from './types.js';

const SOURCE = 'demo/source' as StreamKey;
const FORK = 'demo/fork' as StreamKey;
const INC = (2 ** 52 + 5) as Incarnation;
const FORK_INC = (2 ** 52 + 6) as Incarnation;

function record(over: Partial<StreamRecord> = {}): StreamRecord {
  return {
    incarnation: INC, contentType: 'text/plain', createdAtMs: 1, tail: ZERO, retained: ZERO, sealed: ZERO, hotStart: ZERO, closed: false, closedBy: null,
    ttl: null, expiresAtMs: null, touchedAtMs: 1, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false, ...over,
  };
}

function forkAt(at: number): StreamRecord {
  const offset = at as Offset;
  return record({ incarnation: FORK_INC, tail: offset, sealed: offset, hotStart: offset, origin: { key: SOURCE, incarnation: INC, offset, sub: 0, at: offset, depth: 1 } });
}

let dir: string;
let store: DurableStore;
let core: Core;
let fault: BatchFault;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-fork-'));
  fault = new BatchFault();
  const logger = pino({ level: 'silent' });
  store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger, openStore: fault.open });
  core = new Core({ store, partitions: 1, logged: true, logger, metrics: createMetrics(), now: () => 1000 });
});

afterEach(async () => {
  await core.close();
  await store.close();
  await rm(dir, { recursive: true, force: true });
});

async function both(work: (source: Slot, fork: Slot) => Promise<void>): Promise<void> {
  await core.using(SOURCE, (source) => core.using(FORK, (fork) => work(source, fork)));
}

async function settled(): Promise<void> {
  while (core.healing) await new Promise((resolve) => setTimeout(resolve, 10));
}

function made(source: Slot, fork: Slot, payload = ''): Promise<void> {
  const before = source.pending!;
  const next = forkAt(before.tail);
  const bytes = Buffer.from(payload);
  return core.stageTogether([
    { slot: source, next: { ...before, forks: before.forks + 1 } },
    { slot: fork, next: { ...next, tail: advance(next.tail, bytes.length) }, ...(payload === '' ? {} : { append: { payload: bytes, atMs: 1 } }) },
  ]);
}

describe('a fork and the pin of its source', () => {
  it.each(['before', 'after'] as const)('FORK-30 are there together or not at all when their batch fails (%s it was applied)', async (how) => {
    await both(async (source, fork) => {
      await core.stage({ slot: source, next: record({ tail: 3 as Offset }), append: { payload: Buffer.from('abc'), atMs: 1 } });
      fault.next = how;
      await expect(made(source, fork, 'own')).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
      await settled();
      expect(source.pending?.forks).toBe(how === 'after' ? 1 : 0);
      expect(fork.pending === null).toBe(how === 'before');
      expect((await core.store.get(streamRow.key(fork.slot, FORK))) === undefined).toBe(how === 'before');
    });
  });

  it('the first bytes of a fork, and appends of the same batch, lie behind what it inherits', async () => {
    await both(async (source, fork) => {
      void core.stage({ slot: source, next: record({ tail: 3 as Offset }), append: { payload: Buffer.from('abc'), atMs: 1 } });
      void made(source, fork, 'own');
      const next = { ...fork.pending!, tail: 8 as Offset };
      await core.stage({ slot: fork, next, append: { payload: Buffer.from('!!'), atMs: 1 } });
      expect(fork.durable).toMatchObject({ tail: 8, hotStart: 3 });
      expect(await core.store.get(dataRow.key(fork.slot, FORK_INC, 8 as Offset))).toBeDefined();
    });
  });

  it('the pin lies behind a deletion and a new life of the source that wait for the disk', async () => {
    await both(async (source, fork) => {
      await core.stage({ slot: source, next: record() });
      void core.stage({ slot: source, next: null });
      void core.stage({ slot: source, next: record({ incarnation: (INC + 9) as Incarnation }) });
      await core.stageTogether([
        { slot: source, next: { ...source.pending!, forks: 1 } },
        { slot: fork, next: { ...forkAt(0), origin: { ...forkAt(0).origin!, incarnation: (INC + 9) as Incarnation } } },
      ]);
      expect(source.durable).toMatchObject({ incarnation: INC + 9, forks: 1 });
    });
  });

  it('the end of a fork leaves its row in the very batch', async () => {
    await both(async (source, fork) => {
      await core.stage({ slot: source, next: record() });
      await made(source, fork);
      fault.next = 'before';
      await expect(core.stage({ slot: fork, next: null })).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
      await settled();
      expect(await core.store.get(unpinRow.key(source.slot, INC, FORK_INC))).toBeUndefined();
      await core.stage({ slot: fork, next: null });
      expect(unpinRow.decode((await core.store.get(unpinRow.key(source.slot, INC, FORK_INC)))!)).toEqual({ key: SOURCE });
    });
  });
});

describe('watchers of a source that is deleted and kept for its forks', () => {
  it.each([null, 'after'] as const)('are told that it is gone (batch that fails: %s)', async (how) => {
    await both(async (source, fork) => {
      await core.stage({ slot: source, next: record() });
      await made(source, fork);
      const events: StreamEvent[] = [];
      const stop = core.watch(source, (event) => events.push(event));
      fault.next = how;
      await core.stage({ slot: source, next: { ...source.pending!, softDeleted: true } }).catch(() => undefined);
      await settled();
      expect(source.durable?.softDeleted).toBe(true);
      expect(events.map((event) => event.record)).toEqual([null]);
      stop();
    });
  });
});
