import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import pino from 'pino';
import { createMetrics } from '../../../shared/observability/index.js';
import { advance, ZERO, type Incarnation, type StreamKey } from '../../../shared/protocol/types.js';
import { decodeBlock } from '../../../shared/storage/block.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import type { DurableStore } from '../hot/durable.js';
import { openDurableStore } from '../hot/durable-store.js';
import { dataRow, dirtyRow, doomedRow, streamRow } from '../hot/keys/index.js';
import { openRocksStore } from '../hot/rocks-store.js';
import type { HotOp, HotStore } from '../hot/store.js';
import type { Change } from './core.js';
import { Core } from './log-core.js';
import type { Slot } from './slot.js';
import type { StreamEvent } from './types.js';

const KEY = 'demo/core' as StreamKey;
const logger = pino({ level: 'silent' });
const INC = (2 ** 52 + 5) as Incarnation;

function record(over: Partial<StreamRecord> = {}): StreamRecord {
  return {
    incarnation: INC, contentType: 'application/octet-stream', createdAtMs: 1, tail: ZERO, retained: ZERO, sealed: ZERO, hotStart: ZERO, closed: false, closedBy: null,
    ttl: null, expiresAtMs: null, touchedAtMs: 1, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false, ...over,
  };
}

/** Counts batches, holds them back on demand, and fails the next one on demand, before or after it was applied. */
class Hands {
  batches: (readonly HotOp[])[] = [];
  fail: 'before' | 'after' | null = null;
  gate: Promise<void> | null = null;
  getGate: Promise<void> | null = null;

  over(store: HotStore): HotStore {
    return {
      get: async (key) => {
        const gate = this.getGate;
        const value = await store.get(key);
        await gate;
        return value;
      },
      getMany: (keys) => store.getMany(keys),
      scan: (range) => store.scan(range),
      close: () => store.close(),
      batch: async (ops, sync) => {
        if (this.gate !== null) await this.gate;
        const fail = this.fail;
        this.fail = null;
        if (fail === 'before') throw new Error('the disk said no');
        await store.batch(ops, sync);
        this.batches.push(ops);
        if (fail === 'after') throw new Error('the disk did not say');
      },
    };
  }
}

let dir: string;
let hands: Hands;
let store: DurableStore;
let core: Core;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-core-'));
  hands = new Hands();
  store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger, openStore: async (path) => hands.over(await openRocksStore(path)) });
  core = new Core({ store, partitions: 1, logged: true, logger, metrics: createMetrics(), now: () => 1000 });
  hands.batches = [];
});

afterEach(async () => {
  await core.close();
  await store.close();
  await rm(dir, { recursive: true, force: true });
});

function put(slot: Slot, text: string): Promise<void> {
  const payload = Buffer.from(text);
  const before = slot.pending ?? record();
  return core.stage({ slot, next: { ...before, tail: advance(before.tail, payload.length) }, append: { payload, atMs: 1000 } });
}

describe('log core', () => {
  it('joins the appends of one stream in one batch into one value and one state', async () => {
    await core.using(KEY, async (slot) => {
      await Promise.all(['a', 'bc', 'def'].map((text) => put(slot, text)));
      expect(hands.batches).toHaveLength(1);
      const block = decodeBlock((await core.store.get(dataRow.key(slot.slot, INC, 6 as never)))!);
      expect(block.payload.toString()).toBe('abcdef');
      expect(block.entries.map((entry) => entry.bytes)).toEqual([1, 2, 3]);
      expect(slot.durable?.tail).toBe(6);
      expect(slot.pending).toBe(slot.durable);
    });
  });

  it('I2 shows nothing to readers and watchers before the batch is durable', async () => {
    let open = (): void => undefined;
    hands.gate = new Promise((resolve) => (open = resolve));
    await core.using(KEY, async (slot) => {
      const events: StreamEvent[] = [];
      const stop = core.watch(slot, (event) => events.push(event));
      const done = put(slot, 'abc');
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(slot.durable).toBeNull();
      expect(slot.pending?.tail).toBe(3);
      expect(events).toEqual([]);
      hands.gate = null;
      open();
      await done;
      expect(events).toHaveLength(1);
      expect(Buffer.concat(events[0]!.data).toString()).toBe('abc');
      expect(events[0]).toMatchObject({ start: 0, end: 3 });
      stop();
    });
  });

  it('one batch is in flight at a time; what is staged meanwhile shares the next', async () => {
    let open = (): void => undefined;
    hands.gate = new Promise((resolve) => (open = resolve));
    await core.using(KEY, async (slot) => {
      const first = put(slot, 'a');
      await new Promise((resolve) => setTimeout(resolve, 10));
      const rest = Promise.all(Array.from({ length: 50 }, () => put(slot, 'b')));
      hands.gate = null;
      open();
      await first;
      await rest;
      expect(hands.batches).toHaveLength(2);
      expect(slot.durable?.tail).toBe(51);
    });
  });

  it('delete and recreate in one turn land in two batches and leave the old rows to the background (I7)', async () => {
    await core.using(KEY, async (slot) => {
      await put(slot, 'old');
      const gone = core.stage({ slot, next: null });
      const next = record({ incarnation: (INC + 1) as Incarnation });
      const made = core.stage({ slot, next: { ...next, tail: 3 as never }, append: { payload: Buffer.from('new'), atMs: 1000 } });
      await Promise.all([gone, made]);
      expect(slot.durable?.incarnation).toBe(INC + 1);
      expect(await core.store.get(doomedRow.key(slot.slot, INC))).toBeDefined();
      expect(dirtyRow.decode((await core.store.get(dirtyRow.key(0, slot.slot, INC)))!)).toMatchObject({ key: KEY, deleted: true });
      expect(decodeBlock((await core.store.get(dataRow.key(slot.slot, (INC + 1) as Incarnation, 3 as never)))!).payload.toString()).toBe('new');
    });
  });

  it('marks a stream dirty until what was logged has caught up with its last change', async () => {
    await core.using(KEY, async (slot) => {
      await put(slot, 'abc');
      const mark = dirtyRow.key(0, slot.slot, INC);
      expect(await core.store.get(mark)).toBeDefined();
      expect(core.unsealedBytes(0)).toBe(3);
      const at = slot.durable!;
      await core.stage({ slot, next: { ...at, sealed: at.tail, loggedChange: at.change }, quiet: true });
      expect(await core.store.get(mark)).toBeUndefined();
      expect(core.unsealedBytes(0)).toBe(0);
      await put(slot, 'd');
      expect(await core.store.get(mark)).toBeDefined();
      await core.stage({ slot, next: { ...slot.pending!, sealed: 3 as never, loggedChange: at.change }, quiet: true });
      expect(await core.store.get(mark), 'a change after the cut keeps the mark').toBeDefined();
    });
  });

  it.each(['before', 'after'] as const)('R001 WO-07 a batch that failed %s it was applied answers OUTCOME_UNKNOWN, and every state is read anew', async (when) => {
    await core.using(KEY, async (slot) => {
      await put(slot, 'kept');
      const events: StreamEvent[] = [];
      const stop = core.watch(slot, (event) => events.push(event));
      hands.fail = when;
      await expect(put(slot, 'lost?')).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', status: 503 });
      await expect.poll(() => core.healing).toBe(false);
      const tail = when === 'after' ? 9 : 4;
      expect(slot.durable?.tail).toBe(tail);
      expect(slot.pending).toBe(slot.durable);
      expect(events.at(-1)?.record?.tail).toBe(tail);
      expect(slot.staged).toBe(0);
      await put(slot, '!');
      expect(slot.durable?.tail).toBe(tail + 1);
      expect(streamRow.decode((await core.store.get(streamRow.key(slot.slot, KEY)))!).tail).toBe(tail + 1);
      stop();
    });
  });

  it('I2 what rests on a lost batch is refused while the store is read anew, and judged by what is there after', async () => {
    await core.using(KEY, async (slot) => {
      await put(slot, 'kept');
      hands.fail = 'before';
      const lost = put(slot, 'lost');
      await expect(lost).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
      expect(core.healing).toBe(true);
      expect(slot.pending?.tail, 'the lost write is not taken for one that is there').toBe(4);
      await expect(core.settled(slot)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
      await expect(core.stage({ slot, next: slot.pending, quiet: true })).rejects.toMatchObject({ code: 'GROUP_RESTARTING' });
      await expect.poll(() => core.healing).toBe(false);
    });
  });

  it('counts unsealed bytes anew after a failed batch that is there, for streams in memory and others', async () => {
    await core.using(KEY, (slot) => put(slot, 'four'));
    hands.fail = 'after';
    await expect(core.using(KEY, (slot) => put(slot, 'more'))).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
    await expect.poll(() => core.healing).toBe(false);
    expect(core.unsealedBytes(0)).toBe(8);
    expect(core.dirtySinceMs(0)).toBe(1000);
  });

  it('R083 closing ends when the last batch fails', async () => {
    await core.using(KEY, async (slot) => {
      hands.fail = 'before';
      const lost = put(slot, 'x');
      const closed = core.close();
      await expect(lost).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
      await closed;
    });
  });

  it('PROD-15 a lookup that is older than the cache of producers is made again', async () => {
    const seen = (seq: number): Change['producer'] => ({ id: 'p', record: { epoch: 0, lastSeq: seq, firstDigest: null, lastDigest: null, lastStart: ZERO, lastEnd: ZERO, lastClosed: false, closedEpoch: -1, closedSeq: -1, lastAtMs: 1, change: 0 } });
    await core.using(KEY, async (slot) => {
      await put(slot, 'a');
      let open = (): void => undefined;
      hands.getGate = new Promise((resolve) => (open = resolve));
      const slow = core.producer(slot, INC, 'p');
      hands.getGate = null;
      await core.stage({ slot, next: { ...slot.pending!, producers: 1 }, producer: seen(7)! });
      // As when more producers came than memory keeps.
      slot.producers = null;
      open();
      expect((await slow)?.lastSeq).toBe(7);
    });
  });
});
