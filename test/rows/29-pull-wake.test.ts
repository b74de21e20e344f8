/** Section 29 of the requirements: pull-wake subscriptions, their claims and acks. */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { sleep, Stream, TEXT, uniqueId } from '../support/stream.js';
import { receivers, Sub, until } from '../support/webhooks.js';

const node = useNode();
const receiver = receivers();

interface Scene {
  readonly sub: Sub;
  readonly path: string;
  readonly stream: Stream;
  append(text: string): Promise<string>;
}

async function scene(more: object = {}): Promise<Scene> {
  const name = uniqueId();
  const sub = new Sub(node);
  await sub.pull(`${name}/*`, more);
  const path = `${name}/s`;
  const stream = new Stream(node.http, `/v1/stream/${path}`);
  await stream.create({ type: TEXT });
  return { sub, path, stream, append: async (text) => (await stream.append(text)).next };
}

async function events(sub: Sub, count: number): Promise<readonly Record<string, unknown>[]> {
  await until(async () => (await sub.events()).length >= count);
  return sub.events();
}

it('SUB-39 a wake event names subscription, stream and generation', async () => {
  const { sub, path, append } = await scene();
  const before = Date.now();
  await append('abc');
  const [event] = await events(sub, 1);
  expect(event).toEqual({ type: 'wake', subscription_id: sub.id, stream: path, generation: 1, ts: expect.any(Number) });
  expect(Number(event!['ts'])).toBeGreaterThanOrEqual(before - 1_000);
  await append('def');
  await sleep(300);
  expect(await sub.events()).toHaveLength(1);
});

it('SUB-40 SUB-41 SUB-50 one worker claims, others are told who', async () => {
  const { sub, path, append } = await scene({ lease_ttl_ms: 60_000 });
  const idle = await sub.claim();
  expect([idle.status, idle.code]).toEqual([409, 'NO_PENDING_WORK']);
  const tail = await append('abc');
  const [event] = await events(sub, 1);
  const claimed = await sub.claimed('worker-1');
  expect(claimed).toEqual({
    wake_id: expect.stringMatching(/^w_/), generation: event!['generation'], token: expect.any(String), streams: [{ path, link_type: 'glob', acked_offset: '-1', tail_offset: tail, has_pending: true }], lease_ttl_ms: 60_000,
  });
  for (const worker of ['worker-2', 'worker-1']) {
    const busy = await sub.claim(worker);
    expect([busy.status, busy.json()]).toEqual([409, { error: { code: 'ALREADY_CLAIMED', message: expect.any(String), current_holder: 'worker-1', generation: claimed.generation } }]);
  }
  for (const bad of [{}, { worker: '' }, { worker: 1 }, 'x', { worker: 'x'.repeat(300) }]) expect((await sub.send('POST', '/claim', bad)).status).toBe(400);
});

it('SUB-40 of many workers one claims', async () => {
  const { sub, append } = await scene();
  await append('abc');
  const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => sub.claim(`w${n}`)));
  expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array.from({ length: 9 }, () => 409)]);
});

it('SUB-27 SUB-43 an ack with done releases the lease and says what is left', async () => {
  const { sub, path, append } = await scene();
  const half = await append('abc');
  const tail = await append('def');
  const first = await sub.claimed();
  const some = await sub.tell('ack', { ...first, acks: [{ stream: path, offset: half }], done: true });
  expect([some.status, some.json()]).toEqual([200, { ok: true, next_wake: true }]);
  expect(await sub.acked(path)).toBe(half);
  const second = await sub.claimed();
  expect(second.generation).toBeGreaterThan(first.generation);
  expect(second.wake_id).not.toBe(first.wake_id);
  expect(second.streams[0]).toMatchObject({ acked_offset: half, has_pending: true });
  const all = await sub.tell('ack', { ...second, acks: [{ path, offset: tail }], done: true });
  expect(all.json()).toEqual({ ok: true, next_wake: false });
  expect((await sub.claim()).code).toBe('NO_PENDING_WORK');
});

it('SUB-42 SUB-46 an ack extends the lease, which starts with the claim', async () => {
  const { sub, append } = await scene({ lease_ttl_ms: 1_000 });
  await append('abc');
  await events(sub, 1);
  await sleep(1_300);
  // No lease ran before the claim: it is the same wake.
  const claimed = await sub.claimed();
  expect(claimed.generation).toBe(1);
  for (let i = 0; i < 4; i++) {
    await sleep(500);
    expect((await sub.tell('ack', claimed)).json()).toEqual({ ok: true, next_wake: false });
  }
  expect((await sub.claim('w2')).code).toBe('ALREADY_CLAIMED');
});

it('SUB-44 SUB-45 a release acknowledges nothing, and another wake follows', async () => {
  const { sub, path, append } = await scene();
  await append('abc');
  await events(sub, 1);
  const claimed = await sub.claimed();
  const released = await sub.tell('release', claimed);
  expect([released.status, released.body.length]).toEqual([204, 0]);
  expect(await sub.acked(path)).toBe('-1');
  const seen = await events(sub, 2);
  expect(Number(seen[1]!['generation'])).toBeGreaterThan(claimed.generation);
  expect((await sub.claim('w2')).status).toBe(200);
});

it('SUB-34 SUB-35 stale acks and releases are fenced', async () => {
  const { sub, path, append } = await scene();
  const tail = await append('abc');
  const first = await sub.claimed();
  await sub.tell('release', first);
  const second = await sub.claimed('w2');
  const acks = [{ stream: path, offset: tail }];
  for (const broken of [first, { ...second, token: first.token }, { ...second, generation: first.generation }, { ...second, wake_id: first.wake_id }]) {
    for (const action of ['ack', 'release'] as const) {
      const answer = await sub.tell(action, { ...broken, acks });
      expect([answer.status, answer.code]).toEqual([409, 'FENCED']);
    }
  }
  expect((await sub.tell('ack', { ...second, token: null, acks })).status).toBe(401);
  expect((await sub.tell('callback', { ...second, acks })).status).toBe(400);
  expect(await sub.acked(path)).toBe('-1');
  expect((await sub.tell('ack', { ...second, acks })).status).toBe(200);
});

it('SUB-47 a lease that runs out fences its worker, and another wake follows', async () => {
  const { sub, append } = await scene({ lease_ttl_ms: 1_000 });
  await append('abc');
  await events(sub, 1);
  const claimed = await sub.claimed();
  const seen = await events(sub, 2);
  expect(Number(seen[1]!['generation'])).toBeGreaterThan(claimed.generation);
  for (const action of ['ack', 'release'] as const) expect((await sub.tell(action, { ...claimed })).code).toBe('FENCED');
  expect((await sub.claimed('w2')).generation).toBe(seen[1]!['generation']);
});

it('SUB-20 SUB-57 a deleted subscription takes no ack; one of the same id goes on counting', async () => {
  const { sub, path, append } = await scene();
  const tail = await append('abc');
  const claimed = await sub.claimed();
  expect((await sub.delete()).status).toBe(204);
  const acks = [{ stream: path, offset: tail }];
  for (const action of ['ack', 'release', 'callback'] as const) expect((await sub.tell(action, { ...claimed, acks })).status).toBe(404);
  expect((await sub.put({ type: 'pull-wake', streams: [path], wake_stream: sub.wakeStream })).status).toBe(201);
  expect(await sub.acked(path)).toBe(tail);
  await append('def');
  const again = await sub.claimed();
  expect(again.generation).toBeGreaterThan(claimed.generation);
  for (const action of ['ack', 'release'] as const) {
    expect((await sub.tell(action, { ...claimed })).status).toBe(409);
    expect((await sub.tell(action, { ...again, token: claimed.token })).status).toBe(409);
  }
  expect(await sub.acked(path)).toBe(tail);
});

it('SUB-38 SUB-39 events wait for a wake stream that was deleted meanwhile', async () => {
  const { sub, append } = await scene();
  const wakes = new Stream(node.http, `/v1/stream/${sub.wakeStream}`);
  await wakes.delete();
  await append('abc');
  await sleep(300);
  expect((await wakes.head()).status).toBe(404);
  expect((await sub.shown()).status).toBe('active');
  await wakes.create({ type: 'application/json' });
  expect((await events(sub, 1))[0]).toMatchObject({ subscription_id: sub.id });
});

it('SUB-33 tokens of callbacks claim nothing', async () => {
  const hook = await receiver();
  const name = uniqueId();
  const other = new Sub(node);
  await other.webhook(hook, `${name}/*`);
  await new Stream(node.http, `/v1/stream/${name}/s`).create({ type: TEXT, body: 'x' });
  const { body } = await hook.next();
  const { sub, append } = await scene();
  await append('abc');
  const claimed = await sub.claimed();
  expect((await sub.tell('ack', { ...claimed, token: body.callback_token })).status).toBe(401);
  expect((await sub.tell('release', { ...claimed, token: body.callback_token })).status).toBe(401);
});
