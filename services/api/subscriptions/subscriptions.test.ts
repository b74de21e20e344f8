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
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { BatchFault } from '../hot/batch-fault.contract.js';
import type { DurableStore } from '../hot/durable.js';
import { openDurableStore } from '../hot/durable-store.js';
import { subscriptionBaseRow, subscriptionCursorRow, subscriptionEndRow, subscriptionLinkRow, subscriptionRow } from '../hot/keys/index.js';
import { Core } from '../log/log-core.js';
import { Deliveries } from './deliveries.js';
import { END_KEPT_MS, RETIRED_KEY_MS, SIGNING_KEYS_MAX } from './limits.js';
import { Subscriptions } from './subscriptions.js';
import type { CreateSubscription } from './types.js';

const logger = pino({ level: 'silent' });
const INC = (2 ** 52 + 5) as Incarnation;
const KEY = 'ev/a' as StreamKey;

let fault: BatchFault;
let dir: string;
let store: DurableStore;
let core: Core;
let subscriptions: Subscriptions;
let receiver: Server;
let url: string;
/** Generations that the receiver was told. */
let told: number[];
let nowMs: number;

async function open(): Promise<void> {
  store = await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger, openStore: fault.open });
  const metrics = createMetrics();
  core = new Core({ store, partitions: 1, logged: false, logger, metrics, now: () => nowMs });
  const log = { append: () => Promise.reject(new FirnError('STREAM_NOT_FOUND')), head: () => Promise.reject(new FirnError('STREAM_NOT_FOUND')) };
  subscriptions = new Subscriptions({ core, log, cold: null, publicUrl: null, deliveries: new Deliveries({ webhooks: { allow: ['127.0.0.0/8'] } }), logger, metrics, now: () => nowMs, random: () => 0.5 });
  await subscriptions.start();
}

async function close(): Promise<void> {
  await subscriptions.stop();
  await core.close();
  await store.close();
}

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'firn-subscriptions-'));
  nowMs = Date.now();
  fault = new BatchFault();
  told = [];
  receiver = createServer((req, res) => {
    let text = '';
    req.setEncoding('utf8').on('data', (piece: string) => (text += piece));
    req.on('end', () => {
      told.push((JSON.parse(text) as { generation: number }).generation);
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

function request(over: Partial<CreateSubscription> = {}): CreateSubscription {
  return { id: 's', type: 'webhook', pattern: 'ev/*', streams: [], webhookUrl: url, wakeStream: null, leaseTtlMs: 30_000, description: null, origin: 'http://node', ...over };
}

function state(tail: number, incarnation = INC): StreamRecord {
  return {
    incarnation, contentType: 'text/plain', createdAtMs: 1, tail: tail as Offset, retained: 0 as Offset, sealed: 0 as Offset, hotStart: 0 as Offset, closed: false, closedBy: null, ttl: null, expiresAtMs: null,
    touchedAtMs: 1, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false,
  };
}

function write(key: StreamKey, next: StreamRecord | null, bytes = 0): Promise<void> {
  return core.using(key, (slot) => core.stage({ slot, next, ...(bytes > 0 ? { append: { payload: Buffer.alloc(bytes), atMs: 1 } } : {}) }));
}

async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  expect.fail('not within 10 s');
}

async function acked(): Promise<number[]> {
  try {
    return [...(await subscriptions.get('s')).links()].map((link) => link.acked);
  } catch (error) {
    if (error instanceof FirnError && error.status === 503) return [];
    throw error;
  }
}

async function rowsOf(range: { readonly from: Buffer; readonly to: Buffer }): Promise<number> {
  let count = 0;
  for await (const page of core.store.scan(range)) count += page.length;
  return count;
}

it('I2 a batch that fails while a subscription is made: unknown to the client, and there in the end', async () => {
  await write(KEY, state(3), 3);
  await subscriptions.jwks();
  fault.next = 'before';
  await expect(subscriptions.create(request())).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
  await until(async () => (await acked()).length === 1);
  expect((await subscriptions.create(request())).created).toBe(false);
  await close();
  await open();
  expect(await acked()).toEqual([3]);
});

it('I5 an append whose batch was there although it failed is found, and wakes', async () => {
  await write(KEY, state(3), 3);
  await subscriptions.create(request());
  fault.next = 'after';
  await expect(write(KEY, state(5), 2)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
  await until(() => told.length === 1);
  await until(async () => (await acked())[0] === 5);
});

it('I2 SUB-20 a deletion whose batch failed is done in the end', async () => {
  await subscriptions.create(request());
  fault.next = 'before';
  await expect(subscriptions.delete('s')).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' });
  await expect(subscriptions.get('s')).rejects.toMatchObject({ code: 'SUBSCRIPTION_NOT_FOUND' });
  await until(async () => !core.healing && (await rowsOf(subscriptionRow.range())) === 0);
});

it('SUB-37 I5 what was appended while nobody looked is found at the start', async () => {
  await write(KEY, state(3), 3);
  await subscriptions.create(request());
  await subscriptions.stop();
  await write(KEY, state(5), 2);
  await close();
  await open();
  await until(() => told.length === 1);
});

it('SUB-52 a stream that was replaced while nobody looked starts anew', async () => {
  await write(KEY, state(3), 3);
  await subscriptions.create(request({ streams: ['ev/named' as StreamKey] }));
  await write('ev/named' as StreamKey, state(2, (INC + 1) as Incarnation), 2);
  await until(async () => (await acked()).join() === '2,3');
  await subscriptions.stop();
  for (const [key, incarnation] of [[KEY, INC + 2], ['ev/named', INC + 3]] as const) {
    await write(key as StreamKey, null);
    await write(key as StreamKey, state(0, incarnation as Incarnation));
  }
  await close();
  await open();
  await until(async () => (await acked()).join() === '-1,-1');
});

it('SUB-57 what a deleted subscription leaves goes: links at once, its generation after a time', async () => {
  await write(KEY, state(3), 3);
  await subscriptions.create(request({ streams: ['ev/named' as StreamKey] }));
  await write(KEY, state(5), 2);
  await until(async () => (await acked())[1] === 5);
  const number = 1;
  const left = async (): Promise<number> => (await rowsOf(subscriptionBaseRow.range(number))) + (await rowsOf(subscriptionCursorRow.range(number))) + (await rowsOf(subscriptionLinkRow.range(number)));
  expect(await left()).toBe(3);
  await subscriptions.delete('s');
  await until(async () => (await left()) === 0);
  expect(await rowsOf(subscriptionEndRow.range())).toBe(1);
  await close();
  nowMs += END_KEPT_MS;
  await open();
  await until(async () => (await rowsOf(subscriptionEndRow.range())) === 0);
});

it('SUB-24 keys are rotated within bounds, and retired ones go after their time', async () => {
  const [first] = await subscriptions.jwks();
  const rotations = await Promise.all([subscriptions.rotateSigningKey(), subscriptions.rotateSigningKey()]);
  expect(rotations[0]).toBe(rotations[1]);
  expect((await subscriptions.jwks()).map(({ kid }) => kid)).toEqual([rotations[0], first!.kid]);
  for (let n = 2; n < SIGNING_KEYS_MAX; n++) await subscriptions.rotateSigningKey();
  await expect(subscriptions.rotateSigningKey()).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  const all = await subscriptions.jwks();
  expect(new Set(all.map(({ kid }) => kid)).size).toBe(SIGNING_KEYS_MAX);
  await close();
  await open();
  expect(await subscriptions.jwks()).toEqual(all);
  nowMs += RETIRED_KEY_MS;
  expect(await subscriptions.jwks()).toEqual([all[0]]);
});

it('nothing is followed, and no row written, before there is a subscription', async () => {
  await write(KEY, state(3), 3);
  expect(subscriptions.counts).toEqual({ subscriptions: 0, links: 0, delivering: 0, waiting: 0 });
  let kinds = 0;
  for await (const page of core.store.scan({ from: Buffer.from([subscriptionRow.kind]), to: Buffer.from([0x40]) })) kinds += page.length;
  expect(kinds).toBe(0);
});
