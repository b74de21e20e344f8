/** Section 29 of the requirements: deliveries to webhooks and their callbacks. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { sleep, Stream, TEXT, uniqueId } from '../support/stream.js';
import { ACCEPTED, checkSignature, DONE, jwksOf, receivers, reply, Sub, until, type Receiver, type WakeBody } from '../support/webhooks.js';

const node = useNode();
const receiver = receivers();

interface Scene {
  readonly hook: Receiver;
  readonly sub: Sub;
  readonly path: string;
  readonly stream: Stream;
  append(text: string): Promise<string>;
}

/** A stream below a segment of its own, and a webhook subscribed to that. */
async function scene(more: object = {}): Promise<Scene> {
  const name = uniqueId();
  const hook = await receiver();
  const sub = new Sub(node);
  await sub.webhook(hook, `${name}/*`, more);
  const path = `${name}/s`;
  const stream = new Stream(node.http, `/v1/stream/${path}`);
  await stream.create({ type: TEXT });
  const append = async (text: string): Promise<string> => (await stream.append(text)).next;
  return { hook, sub, path, stream, append };
}

function ticket(body: WakeBody): { token: string; wake_id: string; generation: number } {
  return { token: body.callback_token, wake_id: body.wake_id, generation: body.generation };
}

it('SUB-28 SUB-29 a delivery says what is pending, signed', async () => {
  const { hook, sub, path, append } = await scene();
  const tail = await append('abc');
  const received = await hook.next();
  expect(received.type).toBe('application/json');
  expect(received.body).toEqual({
    subscription_id: sub.id, wake_id: expect.stringMatching(/^w_/), generation: 1, streams: [{ path, link_type: 'glob', acked_offset: '-1', tail_offset: tail, has_pending: true }],
    callback_url: `${node.url}${sub.path}/callback`, callback_token: expect.any(String),
  });
  const keys = await jwksOf(node.http);
  const { valid, atS } = checkSignature(received, keys);
  expect(valid).toBe(true);
  expect(Math.abs(Date.now() / 1_000 - atS)).toBeLessThan(10);
  expect(checkSignature({ ...received, raw: `${received.raw} ` }, keys).valid).toBe(false);
});

it('SUB-30 SUB-27 {"done":true} acknowledges the tails of the wake', async () => {
  const { hook, sub, path, append } = await scene();
  const tail = await append('abc');
  expect((await hook.next()).body.streams[0]?.tail_offset).toBe(tail);
  await until(async () => (await sub.acked(path)) === tail);
  expect(await hook.silence(300)).toBe(true);
});

it('SUB-25 SUB-26 SUB-31 what comes meanwhile causes one more wake, with a new id and a higher generation', async () => {
  const { hook, sub, path, append } = await scene();
  let finish: (() => void) | null = null;
  hook.reply = (res) => {
    finish = () => res.end('{"done":true}');
  };
  await append('a');
  const first = (await hook.next()).body;
  await append('b');
  const tail = await append('c');
  expect(await hook.silence(200)).toBe(true);
  hook.reply = DONE;
  finish!();
  const second = (await hook.next()).body;
  expect(second.generation).toBeGreaterThan(first.generation);
  expect(second.wake_id).not.toBe(first.wake_id);
  expect(second.streams).toMatchObject([{ acked_offset: first.streams[0]!.tail_offset, tail_offset: tail, has_pending: true }]);
  await until(async () => (await sub.acked(path)) === tail);
  expect(await hook.silence(300)).toBe(true);
});

it('SUB-25 quick appends make one wake while it is not finished', async () => {
  const { hook, append } = await scene();
  hook.reply = ACCEPTED;
  await append('a');
  await append('b');
  await hook.next();
  await append('c');
  expect(await hook.silence(500)).toBe(true);
});

it('SUB-32 SUB-34 a callback finishes the wake once', async () => {
  const { hook, sub, path, append } = await scene();
  hook.reply = ACCEPTED;
  const tail = await append('abc');
  const { body } = await hook.next();
  const done = { ...ticket(body), acks: [{ stream: path, offset: tail }], done: true };
  const answer = await sub.tell('callback', done);
  expect([answer.status, answer.json()]).toEqual([200, { ok: true, next_wake: false }]);
  expect(await sub.acked(path)).toBe(tail);
  const again = await sub.tell('callback', done);
  expect([again.status, again.code]).toEqual([409, 'FENCED']);
});

it('SUB-32 a callback that leaves something pending says that another wake follows', async () => {
  const { hook, sub, append } = await scene();
  hook.reply = ACCEPTED;
  await append('abc');
  const { body } = await hook.next();
  const answer = await sub.tell('callback', { ...ticket(body), done: true });
  expect(answer.json()).toEqual({ ok: true, next_wake: true });
  expect((await hook.next()).body.generation).toBe(body.generation + 1);
});

it('SUB-31 SUB-32 a callback counts while the delivery is still being answered', async () => {
  const { hook, sub, path, append } = await scene();
  let answer: (() => void) | null = null;
  hook.reply = (res) => {
    answer = () => res.end('{}');
  };
  const tail = await append('a');
  const { body } = await hook.next();
  await append('b');
  expect((await sub.tell('callback', { ...ticket(body), acks: [{ stream: path, offset: tail }], done: true })).json()).toEqual({ ok: true, next_wake: true });
  hook.reply = DONE;
  const next = (await hook.next()).body;
  expect(next.generation).toBeGreaterThan(body.generation);
  answer!();
  await until(async () => (await sub.acked(path)) === next.streams[0]!.tail_offset);
});

it('SUB-33 SUB-34 SUB-35 SUB-48 nothing but the whole and current ticket is taken', async () => {
  const { hook, sub, path, append } = await scene();
  const other = await scene();
  hook.reply = ACCEPTED;
  other.hook.reply = ACCEPTED;
  const tail = await append('abc');
  await other.append('abc');
  const { body } = await hook.next();
  const foreign = (await other.hook.next()).body;
  const good = { ...ticket(body), acks: [{ stream: path, offset: tail }], done: true };
  const altered = `${good.token.slice(0, -2)}${good.token.endsWith('A') ? 'BB' : 'AA'}`;
  const refused = [
    [{ ...good, token: null }, 401, 'TOKEN_INVALID'], [{ ...good, token: altered }, 401, 'TOKEN_INVALID'], [{ ...good, token: 'x' }, 401, 'TOKEN_INVALID'], [{ ...good, token: foreign.callback_token }, 401, 'TOKEN_INVALID'],
    [{ ...good, generation: 2 }, 409, 'FENCED'], [{ ...good, generation: 0 }, 409, 'FENCED'], [{ ...good, wake_id: 'w_other' }, 409, 'FENCED'], [{ ...good, wake_id: foreign.wake_id }, 409, 'FENCED'],
    [{ ...good, generation: undefined }, 400, 'INVALID_REQUEST'], [{ ...good, wake_id: undefined }, 400, 'INVALID_REQUEST'], [{ ...good, generation: '1' }, 400, 'INVALID_REQUEST'], [{ ...good, acks: 'x' }, 400, 'INVALID_REQUEST'],
    [{ ...good, done: 'yes' }, 400, 'INVALID_REQUEST'],
  ] as const;
  for (const [broken, status, code] of refused) {
    const answer = await sub.tell('callback', broken);
    expect([broken, answer.status, answer.code]).toEqual([broken, status, code]);
  }
  for (const headers of [{ authorization: good.token }, { authorization: `Basic ${good.token}` }]) {
    const { token: _token, ...rest } = good;
    expect((await sub.send('POST', '/callback', rest, headers)).status).toBe(401);
  }
  expect((await sub.send('POST', `/callback?token=${good.token}`, good)).status).toBe(401);
  expect((await sub.tell('callback', { ...good, token: null })).header('www-authenticate')).toBe('Bearer');
  // The token of a callback is good for nothing else.
  expect((await sub.tell('ack', good)).status).toBe(400);
  expect((await sub.claim()).status).toBe(400);
  expect(await sub.acked(path)).toBe('-1');
  expect((await sub.tell('callback', good)).status).toBe(200);
  const late = await append('d');
  const { body: second } = await hook.next();
  for (const broken of [good, { ...ticket(second), token: good.token, acks: [{ stream: path, offset: late }] }, { ...ticket(second), generation: good.generation }]) expect((await sub.tell('callback', broken)).status).toBe(409);
  expect(await sub.acked(path)).toBe(tail);
});

it('SUB-53 acks go forward within the stream, all or none', async () => {
  const { hook, sub, path, stream, append } = await scene();
  hook.reply = ACCEPTED;
  const half = await append('abc');
  const tail = await append('def');
  const { body } = await hook.next();
  const tell = (...acks: readonly (readonly [string, string])[]) => sub.tell('callback', { ...ticket(body), acks: acks.map(([at, offset]) => ({ stream: at, offset })) });
  const beyond = String(Number(tail) + 1).padStart(20, '0');
  for (const bad of [[[path, tail], [path, beyond]], [[path, tail], ['nowhere/x', half]], [[path, tail], [path, 'x']], [[path, tail], ['..', half]]] as const) {
    expect((await tell(...bad)).status).toBe(400);
    expect(await sub.acked(path)).toBe('-1');
  }
  expect((await tell([path, half])).status).toBe(200);
  for (const lower of ['-1', '0'.repeat(20), half]) expect((await tell([path, lower])).status).toBe(200);
  expect(await sub.acked(path)).toBe(half);
  expect((await stream.head()).next).toBe(tail);
});

it('SUB-16 SUB-36 failed deliveries are repeated after 1 s and 2 s, and show as failed', async () => {
  const { hook, sub, append } = await scene();
  hook.reply = reply(500);
  await append('abc');
  const first = await hook.next();
  await until(async () => (await sub.shown()).status === 'failed');
  const second = await hook.next();
  const third = await hook.next();
  expect(second.atMs - first.atMs).toBeGreaterThan(750);
  expect(second.atMs - first.atMs).toBeLessThan(1_800);
  expect(third.atMs - second.atMs).toBeGreaterThan(1_550);
  expect(third.atMs - second.atMs).toBeLessThan(3_200);
  // The same wake, told again.
  expect([second.body.wake_id, second.body.generation]).toEqual([first.body.wake_id, first.body.generation]);
  hook.reply = DONE;
  await hook.next();
  await until(async () => (await sub.shown()).status === 'active');
});

it('SUB-36 SUB-47 a wake whose lease ran out during the back-off is replaced', async () => {
  const { hook, sub, append } = await scene({ lease_ttl_ms: 1_000 });
  hook.reply = reply(503);
  await append('abc');
  const first = (await hook.next()).body;
  await hook.next();
  hook.reply = ACCEPTED;
  const third = (await hook.next()).body;
  expect(third.generation).toBeGreaterThan(first.generation);
  expect((await sub.tell('callback', { ...ticket(first), done: true })).status).toBe(409);
  expect((await sub.tell('callback', { ...ticket(third) })).status).toBe(200);
});

it('SUB-46 SUB-47 the lease starts with the wake, callbacks extend it, its end makes another wake', async () => {
  const { hook, sub, append } = await scene({ lease_ttl_ms: 1_000 });
  hook.reply = ACCEPTED;
  await append('abc');
  const first = await hook.next();
  for (let i = 0; i < 3; i++) {
    await sleep(600);
    expect((await sub.tell('callback', ticket(first.body))).status).toBe(200);
  }
  const extendedAtMs = Date.now();
  const second = await hook.next();
  expect(second.atMs - extendedAtMs).toBeGreaterThan(800);
  expect(second.body.generation).toBe(first.body.generation + 1);
  const late = await sub.tell('callback', ticket(first.body));
  expect([late.status, late.code]).toEqual([409, 'FENCED']);
});

it('SUB-56 redirects are failures and are not followed', async () => {
  let reached = 0;
  const target = createServer((_req, res) => {
    reached++;
    res.end('{"done":true}');
  });
  await new Promise<void>((resolve) => target.listen(0, '127.0.0.1', resolve));
  try {
    const { hook, sub, path, append } = await scene();
    for (const status of [301, 302, 303, 307, 308]) {
      hook.reply = reply(status, '', { location: `http://127.0.0.1:${(target.address() as AddressInfo).port}/` });
      if (status === 301) await append('abc');
      if (status === 301 || status === 302) await hook.next();
    }
    await until(async () => (await sub.shown()).status === 'failed');
    expect(await sub.acked(path)).toBe('-1');
    expect(reached).toBe(0);
    await sub.delete();
  } finally {
    await new Promise((resolve) => target.close(resolve));
  }
});

it('SUB-56 a receiver that does not answer in time has failed', async () => {
  const { hook, sub, append } = await scene({ lease_ttl_ms: 1_000 });
  hook.reply = () => undefined;
  await append('abc');
  await hook.next();
  await until(async () => (await sub.shown()).status === 'failed', 5_000);
  hook.reply = (res) => {
    res.writeHead(200);
    res.write('{"done":');
  };
  await hook.next();
  await sleep(1_500);
  expect((await sub.shown()).status).toBe('failed');
});

it('SUB-30 an answer that is not exactly done leaves the wake to a callback', async () => {
  for (const text of ['', '{}', '{"done":false}', '{"done":"true"}', '[true]', 'null', 'not json', `{"pad":"${'x'.repeat(200_000)}","done":true}`]) {
    const { hook, sub, path, append } = await scene();
    hook.reply = reply(200, text, { 'content-type': 'application/json' });
    await append('abc');
    const { body } = await hook.next();
    await until(async () => (await sub.tell('callback', ticket(body))).status === 200);
    expect([text.slice(0, 20), await sub.acked(path), (await sub.shown()).status]).toEqual([text.slice(0, 20), '-1', 'active']);
  }
});

it('SUB-16 a receiver that is not there is tried again', async () => {
  const { hook, sub, append } = await scene();
  await hook.close();
  await append('abc');
  await until(async () => (await sub.shown()).status === 'failed');
  const logged = node.output;
  expect(logged).toContain('delivery-failed');
  expect(logged).not.toContain('callback_token');
});
