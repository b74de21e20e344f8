import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createMetrics } from '../../../shared/observability/index.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { LogDelta, StreamRecord } from '../../../shared/storage/records/types.js';
import type { SubscriptionBatch, UnloggedSubscriptions } from '../cold/types.js';
import { BatchFault } from '../hot/batch-fault.contract.js';
import type { DurableStore } from '../hot/durable.js';
import { openDurableStore } from '../hot/durable-store.js';
import { subscriptionLoggedRow } from '../hot/keys/index.js';
import { Core } from '../log/log-core.js';
import { Deliveries } from './deliveries.js';
import { Subscriptions } from './subscriptions.js';
import type { CreateSubscription } from './types.js';
import { UnloggedMarks } from './unlogged.js';

const logger = pino({ level: 'silent' });
const KEYS = ['ev/a', 'ev/b', 'ev/c'] as StreamKey[];
const token = (n: number): Incarnation => (2 ** 52 + n) as Incarnation;

let dir: string;
let store: DurableStore;
let core: Core;
let subscriptions: Subscriptions;
let unlogged: UnloggedSubscriptions;
let refusal: Error | null;
let receiver: Server;
let url: string;
let told = 0;
const fault = new BatchFault();

async function open(): Promise<void> {
  store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger, openStore: fault.open });
  const metrics = createMetrics();
  core = new Core({ store, partitions: 1, logged: false, logger, metrics, now: Date.now });
  const log = { append: () => Promise.reject(new FirnError('STREAM_NOT_FOUND')), head: () => Promise.reject(new FirnError('STREAM_NOT_FOUND')) };
  const cold = { followSubscriptions: (followed: UnloggedSubscriptions) => void (unlogged = followed), refusal: () => refusal };
  subscriptions = new Subscriptions({ core, log, cold, publicUrl: null, deliveries: new Deliveries({ webhooks: { allow: ['127.0.0.0/8'] } }), logger, metrics, now: Date.now, random: () => 0.5 });
  await subscriptions.start();
  await until(() => subscriptions.get('none').then(() => false, (error: FirnError) => error.code === 'SUBSCRIPTION_NOT_FOUND'));
}

async function close(): Promise<void> {
  await subscriptions.stop();
  await core.close();
  await store.close();
}

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-cold-log-'));
  [told, refusal] = [0, null];
  receiver = createServer((req, res) => {
    req.resume().on('end', () => {
      told++;
      res.end('{"done":true}');
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  await open();
});

afterEach(async () => {
  await close();
  receiver.closeAllConnections();
  await new Promise((resolve) => receiver.close(resolve));
  await rm(dir, { recursive: true, force: true });
});

async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('not within 10 s');
}

function request(over: Partial<CreateSubscription> = {}): CreateSubscription {
  return { id: 's', type: 'webhook', pattern: 'ev/*', streams: [], webhookUrl: url, wakeStream: null, leaseTtlMs: 30_000, description: null, origin: 'http://node', ...over };
}

function state(tail: number, incarnation: Incarnation): StreamRecord {
  return {
    incarnation, contentType: 'text/plain', createdAtMs: 1, tail: tail as Offset, retained: 0 as Offset, sealed: 0 as Offset, hotStart: 0 as Offset, closed: false, closedBy: null, ttl: null, expiresAtMs: null,
    touchedAtMs: 1, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false,
  };
}

async function write(n: number, tail: number, bytes: number): Promise<void> {
  const key = KEYS[n]!;
  await core.using(key, (slot) => core.stage({ slot, next: state(tail, token(n)), ...(bytes > 0 ? { append: { payload: Buffer.alloc(bytes), atMs: 1 } } : {}) }));
}

async function acked(key: StreamKey): Promise<number | undefined> {
  for (const link of (await subscriptions.get('s')).links()) if (link.path === key) return link.acked;
  return undefined;
}

type SubscriptionDelta = Extract<LogDelta, { kind: 'subscription' }>;

async function take(): Promise<SubscriptionBatch & { readonly only: SubscriptionDelta }> {
  const batch = await unlogged.take(0);
  return { ...batch, only: batch.deltas[0] as SubscriptionDelta };
}

function isRowThere(id = 's'): Promise<boolean> {
  return core.store.get(subscriptionLoggedRow.key(id)).then((value) => value !== undefined);
}

it('a seal takes a new subscription whole, then what moved; what the log did not take comes whole', async () => {
  for (const n of [0, 1, 2]) await write(n, 10, 10);
  await subscriptions.create(request({ streams: [KEYS[2]!, 'ev/none' as StreamKey] }));
  expect(unlogged.sinceMs(0)).not.toBeNull();
  const first = await take();
  expect(first.only).toMatchObject({
    id: 's', whole: true, config: { webhookUrl: url, pattern: 'ev/*' }, links: [{ key: 'ev/c', incarnation: token(2), acked: 10 }, { key: 'ev/none', incarnation: 0, acked: -1 }],
    cursors: expect.arrayContaining([0, 1, 2].map((n) => ({ incarnation: token(n), acked: 10 }))),
  });
  expect([unlogged.sinceMs(0), (await take()).deltas]).toEqual([null, []]);
  first.settle(true);
  await until(() => isRowThere());

  await write(1, 15, 5);
  await until(async () => (await acked(KEYS[1]!)) === 15);
  expect(await isRowThere()).toBe(false);
  await subscriptions.link('s', [KEYS[0]!]);
  await subscriptions.unlink('s', 'ev/none' as StreamKey);
  const second = await take();
  expect(second.only).toMatchObject({ whole: false, links: [{ key: 'ev/a', incarnation: token(0), acked: 10 }], unlinked: ['ev/none'], cursors: [{ incarnation: token(1), acked: 15 }] });
  // It moves on while the record is on its way, which is lost.
  await write(0, 20, 10);
  await until(async () => (await acked(KEYS[0]!)) === 20);
  second.settle(false);
  const third = await take();
  expect(third.only).toMatchObject({ whole: true, links: [{ key: 'ev/c', acked: 10 }, { key: 'ev/a', acked: 20 }] });
  expect(third.only.cursors).toContainEqual({ incarnation: token(1), acked: 15 });
  // What moves before the log has it waits for the next one, and the row stays away.
  await write(1, 16, 1);
  await until(async () => (await acked(KEYS[1]!)) === 16);
  third.settle(true);
  const fourth = await take();
  expect(fourth.only).toMatchObject({ whole: false, links: [], cursors: [{ incarnation: token(1), acked: 16 }] });
  expect(await isRowThere()).toBe(false);
});

it('wakes alone leave nothing to be logged', async () => {
  await write(0, 10, 10);
  await subscriptions.create(request());
  (await take()).settle(true);
  await until(() => isRowThere());
  receiver.removeAllListeners('request');
  receiver.on('request', (req, res) => {
    told++;
    req.resume();
    res.end();
  });
  await write(0, 11, 1);
  await until(() => told > 0);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect([unlogged.sinceMs(0), await isRowThere()]).toEqual([null, true]);
});

it('a restart writes whole what had no row, nothing of the others until they change', async () => {
  await write(0, 10, 10);
  await subscriptions.create(request());
  (await take()).settle(true);
  await until(() => isRowThere());
  await subscriptions.create(request({ id: 't', pattern: 'ev/a' }));
  await close();
  await open();
  const batch = await take();
  expect(batch.deltas).toMatchObject([{ kind: 'subscription', id: 't', whole: true, cursors: [{ incarnation: token(0), acked: 10 }] }]);
  batch.settle(true);
  await write(0, 12, 2);
  await until(async () => (await acked(KEYS[0]!)) === 12);
  await until(async () => unlogged.sinceMs(0) !== null);
  const { deltas } = await take();
  expect(deltas.find((delta) => delta.kind === 'subscription' && delta.id === 's')).toMatchObject({ whole: true, cursors: [{ incarnation: token(0), acked: 12 }] });
});

it('SUB-57 an end is logged, over a restart too, and one that is taken back at once is the later subscription', async () => {
  await subscriptions.create(request());
  (await take()).settle(true);
  await until(() => isRowThere());
  await subscriptions.delete('s');
  expect(await isRowThere()).toBe(false);
  await close();
  await open();
  const ended = await take();
  expect(ended.deltas).toEqual([{ kind: 'unsubscribe', id: 's' }]);
  ended.settle(true);
  await until(() => isRowThere());
  await close();
  await open();
  expect((await take()).deltas).toEqual([]);
  await subscriptions.create(request({ description: 'another' }));
  expect(await isRowThere()).toBe(false);
  expect((await take()).only).toMatchObject({ kind: 'subscription', whole: true, config: { description: 'another' } });
});

it('a batch that failed leaves no row behind that says too much', async () => {
  await write(0, 10, 10);
  await subscriptions.create(request());
  (await take()).settle(true);
  await until(() => isRowThere());
  fault.next = 'before';
  await subscriptions.link('s', [KEYS[0]!]).catch(() => undefined);
  await until(async () => !(await isRowThere()));
  expect((await take()).only).toMatchObject({ links: [{ key: 'ev/a', acked: 10 }] });
});

it('a node that lost its partition takes nothing more and tells nobody', async () => {
  await write(0, 10, 10);
  await subscriptions.create(request());
  refusal = new FirnError('APPLY_STOPPED');
  for (const work of [subscriptions.create(request({ id: 'u' })), subscriptions.link('s', [KEYS[1]!]), subscriptions.unlink('s', KEYS[0]!), subscriptions.delete('s'), subscriptions.claim('s', 'w')]) await expect(work).rejects.toThrow(refusal);
  await write(0, 11, 1);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(told).toBe(0);
  expect((await subscriptions.get('s')).id).toBe('s');
});

it('marks tell the places that moved, and after many streams went everything', () => {
  const marks = new UnloggedMarks();
  expect(marks.take()).toMatchObject({ whole: true, places: [] });
  for (const place of [9, 0, 70_000, 9]) marks.place(place);
  marks.link('a' as StreamKey);
  expect([marks.dirty, marks.take()]).toEqual([true, { whole: false, places: [0, 9, 70_000], links: new Set(['a']) }]);
  expect(marks.dirty).toBe(false);
  for (let n = 0; n < 1_023; n++) marks.gone(10);
  marks.place(1);
  expect(marks.take().whole).toBe(false);
  marks.gone(10);
  // Nothing waits for that alone.
  expect(marks.dirty).toBe(false);
  marks.place(1);
  expect(marks.take().whole).toBe(true);
});
