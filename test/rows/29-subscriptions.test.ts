/** Section 29 of the requirements: subscriptions, their configuration and links. */
import { describe, expect, it } from 'vitest';
import { ownNode, useNode } from '../support/node.js';
import { BASE, BUCKETED, JSON_TYPE, Stream, TEXT, uniqueId } from '../support/stream.js';
import { ACCEPTED, JWKS, jwksOf, receivers, Sub, until } from '../support/webhooks.js';

const node = useNode();
const open = ownNode({ FIRN_WEBHOOK_ALLOW: 'none' });
const receiver = receivers();

/** A first segment that no other test uses, and streams below it. */
function place(): { readonly name: string; at(path: string): Stream } {
  const name = uniqueId();
  return { name, at: (path) => new Stream(node.http, `/v1/stream/${name}/${path}`) };
}

const HOOK = { url: 'https://worker.example/hook' };
const WEBHOOK = { type: 'webhook', pattern: 'none/*', webhook: HOOK };

describe('addressing', () => {
  it('SUB-01 control paths name no stream', async () => {
    for (const path of ['__ds', '__ds/', '__ds/x', '__ds/subscriptions', '__ds/subscriptions/', '__ds/subscriptions/a/other', '__ds/subscriptions/a/claim/x', '__ds/jwks', '__dsx/../__ds/x']) {
      const answer = await node.http.send('PUT', `/v1/stream/${path}`, { headers: { 'content-type': TEXT }, body: 'x' });
      expect([path, answer.status >= 400 && answer.status < 500]).toEqual([path, true]);
    }
    const listed = (await node.ask('GET', '/__firn/streams?prefix=__ds&limit=10')) as { streams: unknown[] };
    expect(listed.streams).toEqual([]);
    expect((await new Stream(node.http, `/v1/stream/__dsx/${uniqueId()}`).create()).status).toBe(201);
  });

  it('SUB-01 wrong methods answer 405 with those that are taken', async () => {
    const sub = new Sub(node);
    for (const [method, rest, allow] of [['POST', '', 'GET, HEAD, PUT, DELETE, OPTIONS'], ['GET', '/streams', 'POST, OPTIONS'], ['POST', '/streams/x', 'DELETE, OPTIONS'], ['PUT', '/claim', 'POST, OPTIONS'], ['GET', '/ack', 'POST, OPTIONS']] as const) {
      const answer = await sub.send(method, rest);
      expect([method, rest, answer.status, answer.header('allow')]).toEqual([method, rest, 405, allow]);
    }
    expect((await node.http.send('PUT', JWKS)).status).toBe(405);
    expect((await node.http.send('OPTIONS', sub.path)).status).toBe(204);
  });

  it('SUB-49 an unknown subscription is 404, its deletion 204', async () => {
    const sub = new Sub(node);
    expect([(await sub.send('GET')).status, (await sub.delete()).status]).toEqual([404, 204]);
    const ticket = { token: 'x.y', wake_id: 'w', generation: 1 };
    for (const answer of [await sub.link('a'), await sub.unlink('a'), await sub.claim(), await sub.tell('ack', ticket), await sub.tell('callback', ticket), await sub.tell('release', ticket)]) {
      expect([answer.status, answer.code]).toEqual([404, 'SUBSCRIPTION_NOT_FOUND']);
    }
    expect((await node.http.send('GET', `/v1/stream/__ds/subscriptions/${'x'.repeat(257)}`)).status).toBe(400);
    for (const raw of ['a%00b', '%FF', 'a%zz']) expect((await node.http.send('GET', `/v1/stream/__ds/subscriptions/${raw}`)).status).toBe(400);
  });
});

describe('configuration', () => {
  it('SUB-02 SUB-03 the same configuration is confirmed, another one refused', async () => {
    const sub = new Sub(node);
    const first = { ...WEBHOOK, streams: ['a/1', 'a/2'], lease_ttl_ms: 30_000 };
    expect((await sub.put(first)).status).toBe(201);
    const same = [
      first, { ...first, lease_ttl_ms: undefined }, { ...first, streams: ['a/2', 'a/1', 'a/2'] }, { ...first, streams: ['/a/1/', 'a/2'], pattern: '/none/*/' }, { ...first, description: null }, { ...first, other: 1 },
    ];
    for (const body of same) expect((await sub.put(body)).status).toBe(200);
    const others = [
      { ...first, pattern: 'none/**' }, { ...first, pattern: undefined }, { ...first, streams: ['a/1'] }, { ...first, streams: undefined }, { ...first, webhook: { url: `${HOOK.url}2` } }, { ...first, lease_ttl_ms: 30_001 },
      { ...first, description: 'x' },
    ];
    for (const body of others) {
      const answer = await sub.put(body);
      expect([answer.status, answer.code]).toEqual([409, 'SUBSCRIPTION_ALREADY_EXISTS']);
    }
    await node.http.send('PUT', `/v1/stream/${sub.wakeStream}`, { headers: { 'content-type': JSON_TYPE } });
    expect((await sub.put({ ...first, type: 'pull-wake', wake_stream: sub.wakeStream })).status).toBe(409);
    // Links that were added later are no part of it.
    await sub.link('a/3');
    expect((await sub.put(first)).status).toBe(200);
  });

  it('SUB-02 one of many creations at once wins', async () => {
    const sub = new Sub(node);
    const answers = await Promise.all(Array.from({ length: 8 }, () => sub.put(WEBHOOK)));
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 200, 200, 200, 200, 200, 200, 201]);
  });

  it('SUB-04 SUB-05 SUB-49 what a subscription needs', async () => {
    const bad: unknown[] = [
      {}, { pattern: 'a/*' }, { ...WEBHOOK, type: 'other' }, { ...WEBHOOK, type: 1 }, { ...WEBHOOK, webhook: undefined }, { ...WEBHOOK, webhook: {} }, { ...WEBHOOK, webhook: { url: '' } }, { ...WEBHOOK, webhook: { url: 7 } },
      { type: 'pull-wake', pattern: 'a/*' }, { type: 'pull-wake', pattern: 'a/*', wake_stream: '' }, { type: 'webhook', webhook: HOOK }, { type: 'webhook', webhook: HOOK, streams: [] }, { type: 'webhook', webhook: HOOK, pattern: '' },
      { ...WEBHOOK, pattern: 7 }, { ...WEBHOOK, pattern: 'a//b' }, { ...WEBHOOK, pattern: 'x'.repeat(600) }, { ...WEBHOOK, streams: 'a' }, { ...WEBHOOK, streams: [1] }, { ...WEBHOOK, streams: [''] }, { ...WEBHOOK, streams: ['a/../b'] },
      { ...WEBHOOK, streams: ['__ds/x'] }, { ...WEBHOOK, description: 1 }, '', '[]', '"x"', 'null', '{', 'nonsense', '{"type":"webhook"',
    ];
    for (const body of bad) {
      const answer = await new Sub(node).put(body);
      expect([body, answer.status]).toEqual([body, 400]);
      expect(typeof answer.code).toBe('string');
    }
    const large = await new Sub(node).put({ ...WEBHOOK, description: 'x'.repeat(1_100_000) });
    expect([large.status, large.code]).toEqual([413, 'REQUEST_TOO_LARGE']);
    const many = await new Sub(node).put({ ...WEBHOOK, streams: Array.from({ length: 5_001 }, (_, n) => `a/${n}`) });
    expect([many.status, many.code]).toEqual([429, 'SUBSCRIPTION_LIMIT']);
  });

  it('SUB-06 the lease is 1 s to 10 min, 30 s by default', async () => {
    for (const lease of [999, 600_001, 0, -1, 1.5, '30000', null]) expect([lease, (await new Sub(node).put({ ...WEBHOOK, lease_ttl_ms: lease })).status]).toEqual([lease, 400]);
    for (const lease of [1_000, 600_000]) expect((await new Sub(node).put({ ...WEBHOOK, lease_ttl_ms: lease })).status).toBe(201);
    const sub = new Sub(node);
    await sub.put(WEBHOOK);
    expect((await sub.shown()).lease_ttl_ms).toBe(30_000);
  });

  it('SUB-08 SUB-15 SUB-17 answers show the configuration and no secret', async () => {
    const sub = new Sub(node);
    const put = await sub.put({ ...WEBHOOK, description: 'über alles' });
    const shown = await sub.shown();
    expect(put.json()).toEqual(shown);
    expect(shown).toEqual({
      id: sub.id, subscription_id: sub.id, type: 'webhook', pattern: 'none/*', streams: [], webhook: { url: HOOK.url, signing: { alg: 'ed25519', kid: expect.stringMatching(/^ds_/), jwks_url: `${node.url}${JWKS}` } },
      wake_stream: null, lease_ttl_ms: 30_000, created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/), status: 'active', description: 'über alles',
    });
    expect((await jwksOf(node.http)).map(({ kid }) => kid)).toContain(shown.webhook!.signing.kid);
    const pull = new Sub(node);
    expect(await pull.pull('none/*')).toMatchObject({ type: 'pull-wake', webhook: null, wake_stream: pull.wakeStream, description: null, status: 'active' });
    const head = await sub.send('HEAD');
    expect([head.status, head.body.length, head.header('cache-control')]).toEqual([200, 0, 'no-store']);
  });

  it('SUB-09 SUB-10 SUB-11 webhooks go to public hosts, or on this machine by plain http', async () => {
    const refused = [
      'http://example.com/h', 'http://10.0.0.1/hook', 'https://192.168.0.1', 'https://[::1]', 'https://169.254.169.254', 'http://172.16.0.1', 'https://127.0.0.1', 'https://localhost', 'https://[::ffff:10.0.0.1]', 'https://2130706433',
      'http://0.0.0.0/', 'ftp://example.com', 'https://user:pw@example.com', 'nonsense',
    ];
    for (const url of refused) {
      const answer = await new Sub(node).put({ ...WEBHOOK, webhook: { url } });
      expect([url, answer.status, answer.code]).toEqual([url, 400, 'WEBHOOK_URL_REJECTED']);
    }
    for (const url of ['http://localhost:1/h', 'http://127.0.0.7:1/h', 'https://worker.example/h']) expect([url, (await new Sub(node).put({ ...WEBHOOK, webhook: { url } })).status]).toEqual([url, 201]);
    await open.start();
    for (const url of ['http://localhost:1/h', 'http://127.0.0.1:1/h']) expect([url, (await new Sub(open).put({ ...WEBHOOK, webhook: { url } })).status]).toEqual([url, 400]);
    expect((await new Sub(open).put(WEBHOOK)).status).toBe(201);
  });

  it('SUB-38 SUB-54 the wake stream is there, holds JSON, and is never linked by its own pattern', async () => {
    const { name, at } = place();
    const sub = new Sub(node);
    const body = { type: 'pull-wake', pattern: `${name}/*`, wake_stream: `${name}/wakes` };
    expect((await sub.put(body)).status).toBe(400);
    expect((await at('wakes').head()).status).toBe(404);
    await at('wakes').create({ type: TEXT });
    expect((await sub.put(body)).status).toBe(400);
    await at('wakes').delete();
    await at('wakes').create({ type: JSON_TYPE });
    expect((await sub.put({ ...body, streams: [`${name}/wakes`] })).status).toBe(400);
    expect((await sub.put(body)).status).toBe(201);
    expect((await sub.link(`${name}/wakes`)).status).toBe(400);
    await at('wakes').append('{"from":"elsewhere"}', { type: JSON_TYPE });
    await at('a').create({ type: TEXT, body: 'x' });
    await until(async () => ((await at('wakes').read()).json() as unknown[]).length === 2);
    expect((await sub.shown()).streams.map(({ path }) => path)).toEqual([`${name}/a`]);
    const claimed = await sub.claimed();
    expect((await sub.tell('ack', { ...claimed, acks: [{ stream: `${name}/wakes`, offset: '0'.repeat(20) }] })).status).toBe(400);
  });

  it('SUB-51 no credentials are asked for by default', async () => {
    const sub = new Sub(node);
    const { name, at } = place();
    await sub.pull(`${name}/*`);
    await at('a').create({ type: TEXT, body: 'x' });
    expect((await sub.claim()).status).toBe(200);
  });
});

describe('links', () => {
  it('SUB-07 patterns match by segments', async () => {
    const { name, at } = place();
    for (const path of ['a', 'a/b', 'a/b/c', 'x/b']) await at(path).create({ type: TEXT });
    const linked = async (pattern: string): Promise<string[]> => {
      const sub = new Sub(node);
      await sub.put({ ...WEBHOOK, pattern });
      return (await sub.shown()).streams.map(({ path }) => path.slice(name.length + 1)).sort();
    };
    expect(await linked(`${name}/*`)).toEqual(['a']);
    expect(await linked(`${name}/a/**`)).toEqual(['a', 'a/b', 'a/b/c']);
    expect(await linked(`${name}/**`)).toEqual(['a', 'a/b', 'a/b/c', 'x/b']);
    expect(await linked(`${name}/*/b`)).toEqual(['a/b', 'x/b']);
    expect(await linked(`**/${name}/**/c`)).toEqual(['a/b/c']);
    expect(await linked(`${name}/a`)).toEqual(['a']);
    expect(await linked(`${name}/a*`)).toEqual([]);
  });

  it('SUB-13 existing streams are linked at their tail, without a wake', async () => {
    const { name, at } = place();
    const { next } = await at('old').create({ type: TEXT, body: 'old data' });
    await at('empty').create({ type: TEXT });
    const hook = await receiver();
    const sub = new Sub(node);
    const shown = await sub.webhook(hook, `${name}/*`);
    expect([...shown.streams].sort((a, b) => a.path.localeCompare(b.path))).toEqual([
      { path: `${name}/empty`, link_type: 'glob', acked_offset: '0'.repeat(20) }, { path: `${name}/old`, link_type: 'glob', acked_offset: next },
    ]);
    expect(await hook.silence(300)).toBe(true);
    await at('old').append('new', { type: TEXT });
    const { body } = await hook.next();
    expect(body.streams.find(({ path }) => path === `${name}/old`)).toMatchObject({ acked_offset: next, has_pending: true });
    expect(body.streams.find(({ path }) => path === `${name}/empty`)).toMatchObject({ has_pending: false });
  });

  it('SUB-14 a stream that comes later is linked before its first append', async () => {
    const { name, at } = place();
    const hook = await receiver();
    await new Sub(node).webhook(hook, `${name}/*`);
    const { next } = await at('new').create({ type: TEXT, body: 'first' });
    expect((await hook.next()).body.streams).toEqual([{ path: `${name}/new`, link_type: 'glob', acked_offset: '-1', tail_offset: next, has_pending: true }]);
  });

  it('SUB-18 a link that is both is explicit; without the explicit one the pattern goes on', async () => {
    const { name, at } = place();
    const { next } = await at('both').create({ type: TEXT, body: 'abc' });
    const sub = new Sub(node);
    await sub.put({ ...WEBHOOK, pattern: `${name}/*`, streams: [`${name}/both`] });
    expect((await sub.shown()).streams).toEqual([{ path: `${name}/both`, link_type: 'explicit', acked_offset: next }]);
    expect((await sub.unlink(`${name}/both`)).status).toBe(204);
    expect((await sub.shown()).streams).toEqual([{ path: `${name}/both`, link_type: 'glob', acked_offset: next }]);
    await sub.link(`${name}/both`);
    expect((await sub.shown()).streams).toEqual([{ path: `${name}/both`, link_type: 'explicit', acked_offset: next }]);
  });

  it('SUB-18 the cursor of a link goes on when it changes its kind', async () => {
    const { name, at } = place();
    const sub = new Sub(node);
    await sub.pull(`${name}/*`);
    const { next } = await at('s').create({ type: TEXT, body: 'one' });
    await sub.link(`${name}/s`);
    expect(await sub.acked(`${name}/s`)).toBe('-1');
    const claimed = await sub.claimed();
    expect((await sub.tell('ack', { ...claimed, acks: [{ stream: `${name}/s`, offset: next }], done: true })).status).toBe(200);
    await sub.unlink(`${name}/s`);
    expect((await sub.shown()).streams).toEqual([{ path: `${name}/s`, link_type: 'glob', acked_offset: next }]);
  });

  it('SUB-21 SUB-22 explicit links are added at the tail and removed, both as often as one likes', async () => {
    const { name, at } = place();
    const { next } = await at('x').create({ type: TEXT, body: 'abc' });
    const sub = new Sub(node);
    await sub.put({ ...WEBHOOK, pattern: 'none/*' });
    for (let i = 0; i < 2; i++) expect((await sub.link(`${name}/x`, `${name}/y`)).status).toBe(204);
    expect((await sub.shown()).streams).toEqual([{ path: `${name}/x`, link_type: 'explicit', acked_offset: next }, { path: `${name}/y`, link_type: 'explicit', acked_offset: '-1' }]);
    expect((await sub.unlink(encodeURIComponent(`${name}/x`))).status).toBe(204);
    expect((await sub.unlink(`${name}/y`)).status).toBe(204);
    expect((await sub.unlink(`${name}/y`)).status).toBe(204);
    expect((await sub.shown()).streams).toEqual([]);
    for (const bad of [{}, { streams: 'x' }, { streams: [1] }, { streams: ['..'] }, 'x']) expect((await sub.send('POST', '/streams', bad)).status).toBe(400);
    expect((await sub.link()).status).toBe(204);
  });

  it('SUB-52 a stream that does not exist is linked at its beginning; a deleted one starts anew', async () => {
    const { name, at } = place();
    const hook = await receiver();
    const sub = new Sub(node);
    await sub.webhook(hook, null, { streams: [`${name}/later`] });
    expect(await sub.acked(`${name}/later`)).toBe('-1');
    const { next } = await at('later').create({ type: TEXT, body: 'abc' });
    expect((await hook.next()).body.streams[0]).toMatchObject({ path: `${name}/later`, acked_offset: '-1', tail_offset: next, has_pending: true });
    await until(async () => (await sub.acked(`${name}/later`)) === next);
    await at('later').delete();
    await until(async () => (await sub.acked(`${name}/later`)) === '-1');
    await at('later').create({ type: TEXT, body: 'ab' });
    expect((await hook.next()).body.streams[0]).toMatchObject({ acked_offset: '-1', has_pending: true });
  });

  it('SUB-52 a deleted stream loses its pattern link, and its successor starts anew', async () => {
    const { name, at } = place();
    const hook = await receiver();
    const sub = new Sub(node);
    await sub.webhook(hook, `${name}/*`);
    const { next } = await at('s').create({ type: TEXT, body: 'long text' });
    await hook.next();
    await until(async () => (await sub.acked(`${name}/s`)) === next);
    await at('s').delete();
    await until(async () => (await sub.shown()).streams.length === 0);
    await at('s').create({ type: TEXT, body: 'x' });
    expect((await hook.next()).body.streams).toMatchObject([{ path: `${name}/s`, acked_offset: '-1', has_pending: true }]);
  });

  it('SUB-55 streams of buckets are in the same namespace', async () => {
    const hook = await receiver();
    const id = uniqueId();
    await new Sub(node).webhook(hook, `rows/${id}`);
    const bucketed = new Stream(node.http, BUCKETED.path(id));
    await bucketed.create({ type: TEXT });
    await bucketed.append('one');
    expect((await hook.next()).body.streams).toMatchObject([{ path: `rows/${id}`, has_pending: true }]);
    await new Stream(node.http, BASE.path(id)).append('two', { type: TEXT });
    expect((await hook.next()).body.streams).toMatchObject([{ path: `rows/${id}`, has_pending: true }]);
  });
});

describe('deletion', () => {
  it('SUB-19 a deleted subscription is gone and delivers nothing', async () => {
    const { name, at } = place();
    const hook = await receiver();
    hook.reply = ACCEPTED;
    const sub = new Sub(node);
    await sub.webhook(hook, `${name}/*`, { lease_ttl_ms: 1_000 });
    await at('a').create({ type: TEXT, body: 'x' });
    await hook.next();
    expect((await sub.delete()).status).toBe(204);
    expect((await sub.send('GET')).status).toBe(404);
    await at('a').append('y', { type: TEXT });
    expect(await hook.silence(1_500)).toBe(true);
  });

  it('SUB-23 the set of keys is public and holds no private part', async () => {
    const answer = await node.http.send('GET', JWKS);
    expect([answer.status, answer.header('content-type'), answer.header('cache-control')]).toEqual([200, 'application/jwk-set+json', 'public, max-age=300']);
    const { keys } = answer.json() as { keys: Record<string, string>[] };
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) {
      expect(Object.keys(key).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x']);
      expect(key).toMatchObject({ kty: 'OKP', crv: 'Ed25519', use: 'sig', alg: 'EdDSA' });
      expect(Buffer.from(key['x']!, 'base64url')).toHaveLength(32);
    }
  });
});
