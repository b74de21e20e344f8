/** Section 29 of the requirements: subscriptions over restarts and crashes. */
import { expect, it } from 'vitest';
import { ownNode } from '../support/node.js';
import { Stream, TEXT, uniqueId } from '../support/stream.js';
import { ACCEPTED, checkSignature, DONE, jwksOf, receivers, reply, Sub, until } from '../support/webhooks.js';

const node = ownNode();
const receiver = receivers();

async function started(): Promise<void> {
  if (node.pid === 0) await node.start();
}

function streamOf(path: string): Stream {
  return new Stream(node.http, `/v1/stream/${path}`);
}

it('SUB-24 SUB-15 keys, subscriptions and cursors are there after a restart', async () => {
  await started();
  const name = uniqueId();
  const hook = await receiver();
  const sub = new Sub(node);
  for (let n = 0; n < 30; n++) await streamOf(`${name}/${n}`).create({ type: TEXT, body: 'x'.repeat(n) });
  await sub.webhook(hook, `${name}/*`, { streams: [`${name}/5`, `${name}/none`], description: 'kept' });
  const { next } = await streamOf(`${name}/7`).append('more', { type: TEXT });
  await hook.next();
  await until(async () => (await sub.acked(`${name}/7`)) === next);
  const keys = await jwksOf(node.http);
  const sorted = async () => {
    const shown = await sub.shown();
    return { ...shown, streams: [...shown.streams].sort((a, b) => a.path.localeCompare(b.path)) };
  };
  const before = await sorted();
  expect(before.streams).toHaveLength(31);
  await node.restart();
  expect(await jwksOf(node.http)).toEqual(keys);
  expect(await sorted()).toEqual(before);
  expect(await hook.silence(300)).toBe(true);
  await node.kill();
  await node.start();
  expect(await sorted()).toEqual(before);
  await streamOf(`${name}/8`).append('more', { type: TEXT });
  expect(checkSignature(await hook.next(), keys).valid).toBe(true);
});

it('SUB-24 SUB-29 a key that was replaced stays in the set, the new one signs, over a restart too', async () => {
  await started();
  const name = uniqueId();
  const hook = await receiver();
  await new Sub(node).webhook(hook, `${name}/*`);
  const before = await jwksOf(node.http);
  const { kid } = (await node.ask('POST', '/__firn/webhook-keys/rotate')) as { kid: string };
  const after = await jwksOf(node.http);
  expect(after.map((key) => key.kid)).toEqual([kid, ...before.map((key) => key.kid)]);
  await node.restart();
  expect(await jwksOf(node.http)).toEqual(after);
  await streamOf(`${name}/s`).create({ type: TEXT, body: 'x' });
  const received = await hook.next();
  expect(received.signature).toContain(`kid=${kid},`);
  expect(checkSignature(received, after).valid).toBe(true);
});

it('SUB-37 SUB-36 the back-off of a failed delivery goes on after a restart', async () => {
  await started();
  const name = uniqueId();
  const hook = await receiver();
  const sub = new Sub(node);
  hook.reply = reply(500);
  await sub.webhook(hook, `${name}/*`);
  await streamOf(`${name}/s`).create({ type: TEXT, body: 'x' });
  await hook.next();
  await hook.next();
  const third = await hook.next();
  await until(async () => (await sub.shown()).status === 'failed');
  await node.kill();
  await node.start();
  expect((await sub.shown()).status).toBe('failed');
  hook.reply = DONE;
  const fourth = await hook.next();
  expect(fourth.atMs - third.atMs).toBeGreaterThan(3_100);
  expect(fourth.body.generation).toBe(third.body.generation);
  await until(async () => (await sub.shown()).status === 'active');
});

it('SUB-26 SUB-46 SUB-47 wakes and leases go on after a crash', async () => {
  await started();
  const name = uniqueId();
  const hook = await receiver();
  hook.reply = ACCEPTED;
  const sub = new Sub(node);
  await sub.webhook(hook, `${name}/*`, { lease_ttl_ms: 4_000 });
  await streamOf(`${name}/s`).create({ type: TEXT, body: 'x' });
  const first = await hook.next();
  const ticket = { token: first.body.callback_token, wake_id: first.body.wake_id, generation: first.body.generation };
  await until(async () => (await sub.tell('callback', ticket)).status === 200);
  await node.kill();
  await node.start();
  expect((await sub.tell('callback', ticket)).status).toBe(200);
  const second = await hook.next();
  expect(second.atMs - first.atMs).toBeGreaterThan(3_500);
  expect(second.body.generation).toBe(first.body.generation + 1);
});

it('SUB-25 SUB-45 a wake that a crash cut short is told again, and claims stay claims', async () => {
  await started();
  const name = uniqueId();
  const hook = await receiver();
  hook.reply = () => undefined;
  const sub = new Sub(node);
  const pull = new Sub(node);
  await sub.webhook(hook, `${name}/*`);
  await pull.pull(`${name}/*`);
  await streamOf(`${name}/s`).create({ type: TEXT, body: 'x' });
  const cut = await hook.next();
  const claimed = await pull.claimed('before');
  await node.kill();
  await node.start();
  hook.reply = DONE;
  const again = await hook.next();
  expect([again.body.wake_id, again.body.generation]).toEqual([cut.body.wake_id, cut.body.generation]);
  const busy = await pull.claim('after');
  expect(busy.json()).toMatchObject({ error: { code: 'ALREADY_CLAIMED', current_holder: 'before' } });
  const tail = claimed.streams[0]!.tail_offset;
  expect((await pull.tell('ack', { ...claimed, acks: [{ stream: `${name}/s`, offset: tail }], done: true })).status).toBe(200);
  await node.kill();
  await node.start();
  expect(await pull.acked(`${name}/s`)).toBe(tail);
});

it('SUB-19 SUB-20 SUB-57 a deleted subscription stays deleted, and its id goes on counting', async () => {
  await started();
  const name = uniqueId();
  const sub = new Sub(node);
  await sub.pull(`${name}/*`);
  await streamOf(`${name}/s`).create({ type: TEXT, body: 'x' });
  const claimed = await sub.claimed();
  await sub.delete();
  await node.kill();
  await node.start();
  expect((await sub.send('GET')).status).toBe(404);
  expect((await sub.put({ type: 'pull-wake', pattern: `${name}/*`, wake_stream: sub.wakeStream })).status).toBe(201);
  await streamOf(`${name}/s`).append('y', { type: TEXT });
  expect((await sub.claimed()).generation).toBeGreaterThan(claimed.generation);
  expect((await sub.tell('ack', { ...claimed })).status).toBe(409);
});

it('SUB-56 SUB-10 where a delivery goes is judged each time, not only when the webhook was named', async () => {
  await started();
  const name = uniqueId();
  const hook = await receiver();
  const sub = new Sub(node);
  await sub.webhook(hook, `${name}/*`);
  const local = new Sub(node);
  await local.put({ type: 'webhook', pattern: `${name}/*`, webhook: { url: hook.url.replace('127.0.0.1', 'localhost') } });
  await node.restart({ FIRN_WEBHOOK_ALLOW: 'none' });
  await streamOf(`${name}/s`).create({ type: TEXT, body: 'x' });
  for (const each of [sub, local]) await until(async () => (await each.shown()).status === 'failed');
  expect(hook.received).toEqual([]);
  await node.restart();
  await hook.next();
  await hook.next();
  for (const each of [sub, local]) await until(async () => (await each.shown()).status === 'active');
});

it('SUB-17 SUB-28 links lead to where the operator says the node is', async () => {
  await started();
  const name = uniqueId();
  const hook = await receiver();
  const sub = new Sub(node, `${name}/ü ?`);
  expect((await sub.webhook(hook, `${name}/*`)).webhook!.signing.jwks_url).toBe(`${node.url}/v1/stream/__ds/jwks.json`);
  await node.restart({ FIRN_PUBLIC_URL: 'https://logs.example.com/' });
  await streamOf(`${name}/s`).create({ type: TEXT, body: 'x' });
  expect((await hook.next()).body.callback_url).toBe(`https://logs.example.com/v1/stream/__ds/subscriptions/${encodeURIComponent(`${name}/ü ?`)}/callback`);
  expect((await sub.shown()).webhook!.signing.jwks_url).toBe('https://logs.example.com/v1/stream/__ds/jwks.json');
});

it('SUB-12 only domains that the operator lists are taken, and told', async () => {
  await started();
  const name = uniqueId();
  const hook = await receiver();
  await node.restart({ FIRN_WEBHOOK_DOMAINS: '*.team.example, 127.0.0.1' });
  const of = (url: string): object => ({ type: 'webhook', pattern: `${name}/*`, webhook: { url } });
  for (const url of ['https://worker.example/h', 'https://team.example/h', hook.url.replace('127.0.0.1', 'localhost')]) {
    const answer = await new Sub(node).put(of(url));
    expect([url, answer.status, answer.code]).toEqual([url, 400, 'WEBHOOK_URL_REJECTED']);
  }
  expect((await new Sub(node).put(of('https://a.team.example/h'))).status).toBe(201);
  const sub = new Sub(node);
  await sub.webhook(hook, `${name}/*`);
  await streamOf(`${name}/s`).create({ type: TEXT, body: 'x' });
  await hook.next();
  // A list that is shorter later holds for subscriptions that are there.
  await node.restart({ FIRN_WEBHOOK_DOMAINS: '*.team.example' });
  await streamOf(`${name}/s`).append('more', { type: TEXT });
  await until(async () => (await sub.shown()).status === 'failed');
  expect(await hook.silence(100)).toBe(true);
  await node.restart();
  await hook.next();
});
