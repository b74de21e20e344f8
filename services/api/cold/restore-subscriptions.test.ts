import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import { createLogger } from '../../../shared/observability/logger.js';
import type { CheckpointItem } from '../../../shared/storage/checkpoint.js';
import { subscriptionItems } from '../../../shared/storage/history/subscription-overlay.js';
import { sampleStreamRecord, sampleSubscription } from '../../../shared/storage/records/arbitrary.contract.js';
import type { LinkCursor, LogDelta } from '../../../shared/storage/records/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { openDurableStore } from '../hot/durable-store.js';
import type { DurableStore } from '../hot/durable.js';
import { streamRow, subscriptionBaseRow, subscriptionKeysRow, subscriptionLinkRow, subscriptionLoggedRow, subscriptionRow } from '../hot/keys/index.js';
import { RestoredSubscriptions } from './restore-subscriptions.js';
import { RowWriter } from './row-writer.js';

const token = (n: number): Incarnation => (2 ** 52 + n) as Incarnation;
const FLOOR = 7 * 2 ** 32;
let dir: string;
let store: DurableStore;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-restore-subscriptions-'));
  store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger: createLogger('silent') });
});
afterEach(async () => {
  await store.close();
  await rm(dir, { recursive: true });
});

async function* listed(items: readonly CheckpointItem[]): AsyncGenerator<CheckpointItem> {
  yield* items;
}

/** A stream that was restored: under this token, up to this tail. */
async function stream(key: string, incarnation: Incarnation, tail: number): Promise<void> {
  const record = sampleStreamRecord({ incarnation, tail: tail as Offset, retained: 0 as Offset, sealed: tail as Offset, hotStart: tail as Offset, snapshot: null, closed: false, closedBy: null });
  await store.commit([{ type: 'put', key: streamRow.key(slotOf(key as StreamKey), key as StreamKey), value: streamRow.encode(record) }]);
}

it('I7 binds cursors to the lives that are there, at their tails at most, under their tokens of now; the log is told the same', async () => {
  await stream('ev/long', token(101), 50);
  await stream('ev/short', token(102), 30);
  await stream('ev/reborn', token(103), 90);
  const cursors = [{ incarnation: token(1), acked: 50 }, { incarnation: token(2), acked: 40 }, { incarnation: token(3), acked: 10 }, { incarnation: token(4), acked: 5 }];
  const links = [
    { key: 'ev/short' as StreamKey, incarnation: token(2), acked: 40 }, { key: 'ev/reborn' as StreamKey, incarnation: token(3), acked: 10 }, { key: 'ev/never' as StreamKey, incarnation: 0 as Incarnation, acked: -1 },
  ];
  const items = [...subscriptionItems('s', sampleSubscription({ wakeStream: 'wakes/s' as StreamKey }), links, cursors)];
  const lost: string[] = [];
  const restored = new RestoredSubscriptions({ store, lost: (name, what) => lost.push(`${name}: ${what}`) });
  await restored.want(listed(items));
  expect(restored.wants).toBe(true);
  restored.note('ev/long' as StreamKey, token(1));
  restored.note('ev/short' as StreamKey, token(2));
  // The stream of token 3 ended, and its key has another life: nothing names that by token 3.
  restored.note('ev/reborn' as StreamKey, token(33));
  const deltas: LogDelta[] = [];
  const writer = new RowWriter(store);
  expect(await restored.fill(listed(items), FLOOR, writer, async (some) => void deltas.push(...some))).toBe(1);
  await restored.finish(FLOOR, writer);

  const wanted = [{ incarnation: token(101), acked: 50 }, { incarnation: token(102), acked: 30 }];
  const bound = [
    { key: 'ev/short', incarnation: token(102), acked: 30 }, { key: 'ev/reborn', incarnation: 0, acked: -1 }, { key: 'ev/never', incarnation: 0, acked: -1 },
  ];
  expect(deltas).toEqual([{ kind: 'subscription', id: 's', config: sampleSubscription({ wakeStream: 'wakes/s' as StreamKey }), whole: true, links: bound, unlinked: [], cursors: wanted }]);
  const record = subscriptionRow.decode((await store.get(subscriptionRow.key('s')))!);
  expect(record).toMatchObject({ number: 1, generation: FLOOR, wake: null, failures: 0, nextAttemptAtMs: null });
  const rows: LinkCursor[] = [];
  for await (const page of store.scan(subscriptionBaseRow.range(1))) for (const { value } of page) rows.push(...subscriptionBaseRow.decode(value));
  expect(rows).toEqual(wanted);
  for (const { key, ...link } of bound) expect(subscriptionLinkRow.decode((await store.get(subscriptionLinkRow.key(1, key as StreamKey)))!)).toEqual(link);
  expect(await store.get(subscriptionLoggedRow.key('s'))).toBeDefined();
  // No secret comes from the object store: the node makes new ones.
  expect(subscriptionKeysRow.decode((await store.get(subscriptionKeysRow.key()))!)).toEqual({ nextNumber: 2, tokenSecret: Buffer.alloc(0), signing: [], generationFloor: FLOOR });
  expect(lost).toEqual([
    '__ds/subscriptions/s: its cursor to ev/short: it stood at 40, the restored stream ends at 30',
    '__ds/subscriptions/s: its cursor to ev/reborn: it stood at 10, the restored stream is not there',
    '__ds/subscriptions/s: 1 cursors that stood beyond the restored tails of their streams',
    '__ds/subscriptions/s: its wake stream wakes/s: its wakes wait until that is created again',
  ]);
});

it('writes very many cursors in pages, and each subscription once', async () => {
  const cursors = Array.from({ length: 20_000 }, (_, n) => ({ incarnation: token(n), acked: n }));
  const items = ['a', 'b'].flatMap((id) => [...subscriptionItems(id, sampleSubscription(), [], cursors)]);
  const restored = new RestoredSubscriptions({ store, lost: () => undefined });
  await restored.want(listed(items));
  for (let n = 0; n < 20_000; n++) restored.note('ev/all' as StreamKey, token(n));
  await stream('ev/all', token(99), 40_000);
  const writer = new RowWriter(store);
  expect(await restored.fill(listed(items), FLOOR, writer, async () => undefined)).toBe(2);
  await restored.finish(FLOOR, writer);
  const { pages } = subscriptionRow.decode((await store.get(subscriptionRow.key('b')))!);
  expect(pages).toBe(79);
  expect(subscriptionKeysRow.decode((await store.get(subscriptionKeysRow.key()))!).nextNumber).toBe(3);
});
