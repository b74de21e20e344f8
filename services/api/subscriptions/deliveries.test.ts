import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import pino from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { EmbeddedRunner, type JobHandler } from '../../../shared/queue/index.js';
import { perKind } from '../../../shared/queue/types.js';
import { deliverHandler } from '../../worker/handlers/deliver.js';
import { WebhookTargets } from '../../worker/webhooks/targets.js';
import { Deliveries, type DeliveryRequest } from './deliveries.js';
import { HERE_MS, TAKE_MS } from './limits.js';

const logger = pino({ level: 'silent' });
const webhooks = { allow: ['127.0.0.0/8'] };
const targets = new WebhookTargets(webhooks);
let receiver: Server;
let url: string;
let bodies: string[];
let answer: string | null;

beforeEach(async () => {
  bodies = [];
  answer = '{"done":true}';
  receiver = createServer((req, res) => {
    let text = '';
    req.setEncoding('utf8').on('data', (piece: string) => (text += piece));
    req.on('end', () => {
      bodies.push(text);
      if (answer !== null) res.end(answer);
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
});

afterEach(async () => {
  receiver.closeAllConnections();
  await new Promise((resolve) => receiver.close(resolve));
});

function request(body: string, deadlineMs = 5_000): DeliveryRequest {
  return { url, body: Buffer.from(body), sign: () => 't=1,kid=k,ed25519=s', deadlineMs };
}

/** A runner whose `deliver` jobs do as they are told. */
function runnerOf(handler: JobHandler): EmbeddedRunner {
  return new EmbeddedRunner({ handlers: { ...perKind(() => async () => undefined), deliver: handler }, logger, now: Date.now });
}

const never = new AbortController().signal;

it('delivers by a runner, and without one in this process', async () => {
  const deliveries = new Deliveries({ webhooks });
  expect(await deliveries.send(request('a'), never)).toEqual({ kind: 'done' });
  const ran: string[] = [];
  const handler = deliverHandler(deliveries, targets);
  deliveries.use(runnerOf((id, stop) => {
    ran.push(id);
    return handler(id, stop);
  }));
  answer = '';
  expect(await deliveries.send(request('b'), never)).toEqual({ kind: 'accepted' });
  expect(ran).toHaveLength(1);
  expect(bodies).toEqual(['a', 'b']);
  // The job comes once more, and late: there is nothing to do.
  await handler(ran[0]!, never);
  expect(bodies).toHaveLength(2);
});

it('I5 makes a delivery itself when its job is lost, and asks the queue again only after a while', async () => {
  let clock = 0;
  const deliveries = new Deliveries({ webhooks, clock: () => clock });
  const lost: string[] = [];
  const handler = deliverHandler(deliveries, targets);
  deliveries.use(runnerOf(async (id) => void lost.push(id)));
  const began = performance.now();
  expect(await deliveries.send(request('a'), never)).toEqual({ kind: 'done' });
  expect(performance.now() - began).toBeGreaterThanOrEqual(TAKE_MS - 50);
  // The queue found the job again.
  await handler(lost[0]!, never);
  expect(bodies).toEqual(['a']);
  const second = performance.now();
  expect(await deliveries.send(request('b'), never)).toEqual({ kind: 'done' });
  expect(performance.now() - second).toBeLessThan(TAKE_MS / 2);
  expect(lost).toHaveLength(1);
  clock += HERE_MS + 1;
  expect(await deliveries.send(request('c'), never)).toEqual({ kind: 'done' });
  expect(lost).toHaveLength(2);
});

it('makes a delivery at once when the queue does not take it', async () => {
  const deliveries = new Deliveries({ webhooks });
  const runner = runnerOf(async () => undefined);
  await runner.stop(0);
  deliveries.use(runner);
  const began = performance.now();
  expect(await deliveries.send(request('a'), never)).toEqual({ kind: 'done' });
  expect(performance.now() - began).toBeLessThan(TAKE_MS / 2);
});

it('I6 takes the outcome of the run that it gave last, once', async () => {
  const deliveries = new Deliveries({ webhooks });
  let job = '';
  deliveries.use(runnerOf(async (id) => void (job = id)));
  const outcome = deliveries.send(request('a'), never);
  await pause(20);
  const first = await deliveries.delivery(job);
  const second = await deliveries.delivery(job);
  expect([first?.run, second?.run, first?.body.toString()]).toEqual([1, 2, 'a']);
  expect(second!.deadlineMs).toBeLessThanOrEqual(first!.deadlineMs);
  await deliveries.delivered(job, 1, { kind: 'failed', why: 'woke up late' });
  await deliveries.delivered(job, 2, { kind: 'accepted' });
  await deliveries.delivered(job, 2, { kind: 'done' });
  expect(await outcome).toEqual({ kind: 'accepted' });
  expect(await deliveries.delivery(job)).toBeNull();
});

it('gives a run up that does not tell of its outcome, and one whose receiver does not answer', async () => {
  const deliveries = new Deliveries({ webhooks });
  deliveries.use(runnerOf(async (id) => void (await deliveries.delivery(id))));
  const began = performance.now();
  expect(await deliveries.send(request('a', 200), never)).toEqual({ kind: 'failed', why: 'no outcome in time' });
  expect(performance.now() - began).toBeLessThan(5_000);
  const here = new Deliveries({ webhooks });
  answer = null;
  expect(await here.send(request('b', 300), never)).toMatchObject({ kind: 'failed' });
});

it('ends with the signal, and the request in this process with it', async () => {
  const deliveries = new Deliveries({ webhooks });
  answer = null;
  const stop = new AbortController();
  const sent = deliveries.send(request('a'), stop.signal);
  for (let tries = 0; bodies.length === 0 && tries < 200; tries++) await pause(10);
  stop.abort(new Error('the node stops'));
  await expect(sent).rejects.toThrow('the node stops');
  await expect(deliveries.send(request('b'), stop.signal)).rejects.toThrow('the node stops');
  for (let tries = 0; (await connections(receiver)) > 0 && tries < 200; tries++) await pause(10);
  expect(await connections(receiver)).toBe(0);
});

function connections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))));
}
