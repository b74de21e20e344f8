/**
 * Paths, bodies and tokens of subscriptions with every kind of bad value, from a raw socket (R085): the answer is a 4xx that names the fault and never the value, nothing is created, linked or acknowledged.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { Stream, TEXT, uniqueId } from '../support/stream.js';
import { Sub, type Claimed } from '../support/webhooks.js';
import { badValues, expectOutcome, odd, type BadKind, type Odd } from './odd.js';

const node = useNode();
const ROOT = '/v1/stream/__ds/subscriptions';
const NOT_IN_A_TARGET: readonly BadKind[] = ['white space', 'inner space', 'two values', 'non-ASCII', 'invalid UTF-8', 'control character', 'delete character', 'too long'];
const HOOK = { type: 'webhook', pattern: 'bad/**', webhook: { url: 'https://worker.example/h' } };

const send = (method: string, path: string, body: unknown = undefined, lines: readonly string[] = []): Promise<Odd> =>
  odd(node.url, [`${method} ${path} HTTP/1.1`, 'Content-Type: application/json', ...lines, ...(body === undefined ? ['Content-Length: 0'] : [])], body === undefined ? '' : typeof body === 'string' ? body : Buffer.from(JSON.stringify(body)).toString('latin1'));

const isRefusal = (status: number): boolean => status >= 400 && status < 500;

async function expectRefused(what: string, answer: Odd, code: RegExp = /^INVALID_/): Promise<void> {
  expect([what, isRefusal(answer.status), answer.code], what).toEqual([what, true, expect.stringMatching(code)]);
}

let stream: Stream;
let pulled: Sub;
beforeAll(async () => {
  stream = new Stream(node.http, '/v1/stream/bad/s');
  await stream.create({ type: TEXT, body: 'abcdef' });
  pulled = new Sub(node, 'pulled');
  await pulled.pull('bad/**');
});

describe('paths', () => {
  it('R085 SUB-01 ids with bad values', async () => {
    for (const [kind, value] of Object.entries(badValues('some-id')) as [BadKind, string][]) {
      const id = uniqueId();
      const path = `${ROOT}/${kind === 'empty' ? '' : `${value}${NOT_IN_A_TARGET.includes(kind) || kind === 'huge' ? '' : id}`}`;
      const answer = await send('PUT', path, HOOK);
      if (kind === 'empty') expectOutcome(kind, answer, 'NOT_FOUND');
      else if (NOT_IN_A_TARGET.includes(kind) || kind === 'huge') expectOutcome(kind, answer, 'INVALID_REQUEST');
      else {
        // Anything else is a name.
        expect([kind, answer.status]).toEqual([kind, 201]);
        expect([kind, (await send('DELETE', path)).status]).toEqual([kind, 204]);
      }
    }
    for (const id of ['%', '%0', '%zz', '%FF', '%C0%80', '%ED%A0%80', 'a%00', '%0d%0aX:%20y', '%01', '%7f', 'x'.repeat(257), '%E6%B0%B4'.repeat(86)]) {
      for (const method of ['PUT', 'GET', 'DELETE']) expectOutcome(`${method} ${id.slice(0, 20)}`, await send(method, `${ROOT}/${id}`, method === 'PUT' ? HOOK : undefined), 'INVALID_REQUEST');
      expectOutcome(`POST ${id.slice(0, 20)}`, await send('POST', `${ROOT}/${id}/claim`, { worker: 'w' }), 'INVALID_REQUEST');
    }
    expect((await send('PUT', `${ROOT}/${'x'.repeat(256)}`, HOOK)).status).toBe(201);
    expect((await send('DELETE', `${ROOT}/${'x'.repeat(256)}`)).status).toBe(204);
  });

  it('R085 SUB-01 names that are nearly right', async () => {
    const paths = [
      '/v1/stream/__ds', '/v1/stream/__ds/', '/v1/stream/__ds/x', '/v1/stream/__ds/Subscriptions/a', '/v1/stream/__ds/subscriptions', `${ROOT}/`, `${ROOT}//claim`, `${ROOT}/a/`, `${ROOT}/a/Claim`, `${ROOT}/a/claim/`, `${ROOT}/a/claim/x`,
      `${ROOT}/a/%63laim`, `${ROOT}/a/other`, '/v1/stream/__ds/jwks', '/v1/stream/__ds/JWKS.json', '/v1/stream/__ds/jwks.json/', '/v1/stream/__ds/jwks%2ejson',
    ];
    for (const path of paths) for (const method of ['GET', 'PUT', 'POST', 'DELETE']) {
      const answer = await send(method, path, method === 'GET' || method === 'DELETE' ? undefined : HOOK);
      expect([method, path, answer.status]).toEqual([method, path, 404]);
    }
    for (const path of ['/v1/stream/%5f%5fds/x', '/v1/stream/__ds%2fx', '/v1/stream/./__ds/x', '/v1/stream//__ds/x']) expect([path, isRefusal((await send('PUT', path)).status)]).toEqual([path, true]);
  });

  it('R085 SUB-22 paths of linked streams', async () => {
    for (const rest of ['%zz', '%FF', '%00', 'a%00', '..', 'a/../b', 'a//b', '%2e%2e', 'x'.repeat(3_000), '__ds/x', '']) {
      const answer = await send('DELETE', `${pulled.path}/streams/${rest}`);
      expect([rest.slice(0, 20), isRefusal(answer.status), answer.code]).toEqual([rest.slice(0, 20), true, expect.stringMatching(/^(INVALID_STREAM_ID|NOT_FOUND)$/)]);
    }
  });

  it('R085 methods and queries', async () => {
    for (const method of ['POST', 'PATCH', 'TRACE']) expect([method, (await send(method, pulled.path)).status]).toEqual([method, 405]);
    for (const action of ['claim', 'ack', 'release', 'callback', 'streams']) for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) expect([action, method, (await send(method, `${pulled.path}/${action}`)).status]).toEqual([action, method, expect.toSatisfy((status: number) => status === 405 || status === 404)]);
    for (const query of ['?', '?x=%zz', '?live=sse&live=sse', '?%00']) expect([query, (await send('GET', `${pulled.path}${query}`)).status]).toEqual([query, 200]);
  });
});

/** JSON values of the wrong kind, by name. */
const WRONG: readonly (readonly [string, unknown])[] = [
  ['number', 5], ['negative', -1], ['fraction', 1.5], ['huge number', 1e300], ['truth', true], ['array', []], ['array of numbers', [1]], ['array of null', [null]], ['object', {}], ['object in an array', [{}]],
];

describe('bodies', () => {
  const create = (body: unknown): Promise<Odd> => send('PUT', `${ROOT}/never`, body);

  it('R085 SUB-49 what is no JSON object', async () => {
    const texts = ['', ' ', '{', '}', '[]', 'null', '5', '"x"', 'true', '{}', '{"type":}', "{'type':'webhook'}", '{"type":"webhook",}', '\xef\xbb\xbf{}', '{"type":"webhook"}\0', '\xff\xfe', '{"a":"\xff"}', '{"type":"webh\nook"}', '['.repeat(5_000), '{"a":'.repeat(5_000)];
    for (const text of texts) {
      for (const [method, path] of [['PUT', `${ROOT}/never`], ['POST', `${pulled.path}/streams`], ['POST', `${pulled.path}/claim`], ['POST', `${pulled.path}/ack`], ['POST', `${pulled.path}/release`], ['POST', `${pulled.path}/callback`]] as const) {
        expectOutcome(`${path} ${JSON.stringify(text).slice(0, 30)}`, await send(method, path, text === '' ? undefined : text), 'INVALID_REQUEST');
      }
    }
    expectOutcome('too large', await odd(node.url, [`PUT ${ROOT}/never HTTP/1.1`, 'Content-Length: 1048577']), 'REQUEST_TOO_LARGE');
    expect((await new Sub(node, 'never').send('GET')).status).toBe(404);
  });

  it('R085 SUB-04 SUB-05 SUB-06 members of a subscription', async () => {
    for (const name of ['type', 'pattern', 'streams', 'webhook', 'lease_ttl_ms', 'description']) {
      for (const [kind, value] of WRONG) {
        if ((name === 'lease_ttl_ms' && kind === 'number') || (name === 'streams' && kind === 'array')) continue;
        await expectRefused(`${name}: ${kind}`, await create({ ...HOOK, [name]: value }), /^(INVALID_REQUEST|WEBHOOK_URL_REJECTED)$/);
      }
    }
    for (const [kind, value] of WRONG) await expectRefused(`webhook.url: ${kind}`, await create({ ...HOOK, webhook: { url: value } }), /^(INVALID_REQUEST|WEBHOOK_URL_REJECTED)$/);
    for (const lease of [999, 600_001, '30000', 30_000.5, -30_000, 0, null, 1e21, '']) await expectRefused(`lease ${String(lease)}`, await create({ ...HOOK, lease_ttl_ms: lease }), /^INVALID_REQUEST$/);
    for (const [kind, value] of Object.entries(badValues('webhook'))) await expectRefused(`type: ${kind}`, await create({ ...HOOK, type: value }), /^INVALID_REQUEST$/);
    for (const description of ['x'.repeat(2_049), '\ud800']) await expectRefused('description', await create(JSON.stringify({ ...HOOK, description })), /^INVALID_REQUEST$/);
    expect((await new Sub(node, 'never').send('GET')).status).toBe(404);
  });

  it('R085 SUB-07 SUB-54 patterns, streams and wake streams', async () => {
    // Slashes at the ends do not count.
    const paths = ['/', 'a//b', '..', 'a/../b', './a', '\0', 'a\0b', '\ud800', 'x'.repeat(3_000), '__ds/x'];
    for (const path of paths) {
      const what = JSON.stringify(path).slice(0, 30);
      await expectRefused(`streams ${what}`, await create(JSON.stringify({ ...HOOK, streams: [path] })));
      await expectRefused(`wake_stream ${what}`, await create(JSON.stringify({ type: 'pull-wake', pattern: 'a/*', wake_stream: path })));
      await expectRefused(`link ${what}`, await send('POST', `${pulled.path}/streams`, JSON.stringify({ streams: [path] })));
    }
    for (const pattern of ['x'.repeat(513), 'a/'.repeat(65) + 'a', 'a//b', '*//*', '\ud800']) await expectRefused(`pattern ${JSON.stringify(pattern).slice(0, 20)}`, await create(JSON.stringify({ ...HOOK, pattern })));
    expect((await pulled.shown()).streams.map(({ path }) => path)).toEqual(['bad/s']);
    expect((await new Sub(node, 'never').send('GET')).status).toBe(404);
  });

  it('R085 SUB-09 SUB-11 URLs of webhooks', async () => {
    const urls = [
      ...Object.values(badValues('worker.example')), 'https://', 'https://:443/h', 'https://a b/h', 'https://[::1', 'https://worker.example:99999/', 'javascript:alert(1)', 'file:///etc/passwd', 'data:,x', 'HTTP://WORKER.EXAMPLE',
      'https://user@worker.example/', 'https://:secret@worker.example/', 'https://\0', 'https://worker.example\0.evil', 'https://10.0.0.1', 'https://0', 'https://%31%30.0.0.1', `https://worker.example/${'x'.repeat(2_048)}`, '\ud800',
    ];
    for (const url of urls) await expectRefused(JSON.stringify(url).slice(0, 40), await create(JSON.stringify({ ...HOOK, webhook: { url } })), /^(WEBHOOK_URL_REJECTED|INVALID_REQUEST)$/);
  });
});

describe('tokens and tickets', () => {
  let claimed: Claimed;
  beforeAll(async () => {
    await stream.append('more', { type: TEXT });
    claimed = await pulled.claimed();
  });

  const ack = (body: object, lines = [`Authorization: Bearer ${claimed.token}`]): Promise<Odd> => send('POST', `${pulled.path}/ack`, { wake_id: claimed.wake_id, generation: claimed.generation, ...body }, lines);

  it('R085 SUB-35 SUB-48 the token, with every kind of bad value', async () => {
    const acks = { acks: [{ stream: 'bad/s', offset: '00000000000000000010' }] };
    for (const [kind, value] of Object.entries(badValues(claimed.token)) as [BadKind, string][]) {
      const wanted = kind === 'control character' || kind === 'delete character' ? 'INVALID_REQUEST' : 'TOKEN_INVALID';
      expectOutcome(`token: ${kind}`, await ack(acks, [`Authorization: Bearer ${value}`]), wanted);
    }
    for (const line of ['Authorization:', 'Authorization: Bearer', `Authorization: ${claimed.token}`, `Authorization: Basic ${claimed.token}`, `Authorization: Bearer\t\t${claimed.token}x`, `Proxy-Authorization: Bearer ${claimed.token}`, 'X: y']) {
      expectOutcome(line.slice(0, 30), await ack(acks, [line]), 'TOKEN_INVALID');
    }
    const [said, sum] = claimed.token.split('.') as [string, string];
    for (const token of [`${said}.`, `.${sum}`, `${said}.${sum}=`, `${said}.${sum.slice(0, -1)}`, `${said}..${sum}`, `${said}.${sum}.${sum}`, `${Buffer.from('{}').toString('base64url')}.${sum}`]) expectOutcome(token.slice(-20), await ack(acks, [`Authorization: Bearer ${token}`]), 'TOKEN_INVALID');
    expect(isRefusal((await ack(acks, [`Authorization: Bearer ${claimed.token}`, `Authorization: Bearer ${claimed.token}`])).status)).toBe(true);
    expect(await pulled.acked('bad/s')).toBe('00000000000000000006');
  });

  it('R085 SUB-34 SUB-53 members of a ticket', async () => {
    for (const [kind, value] of WRONG) {
      await expectRefused(`wake_id: ${kind}`, await ack({ wake_id: value }), /^INVALID_REQUEST$/);
      if (!['number', 'negative'].includes(kind)) await expectRefused(`generation: ${kind}`, await ack({ generation: value }), /^INVALID_REQUEST$/);
      if (kind !== 'truth') await expectRefused(`done: ${kind}`, await ack({ done: value }), /^INVALID_REQUEST$/);
      if (kind !== 'array') await expectRefused(`acks: ${kind}`, await ack({ acks: value }), /^INVALID_REQUEST$/);
      await expectRefused(`offset: ${kind}`, await ack({ acks: [{ stream: 'bad/s', offset: value }] }), /^INVALID_REQUEST$/);
      await expectRefused(`stream: ${kind}`, await ack({ acks: [{ stream: value, offset: '00000000000000000010' }] }), /^INVALID_REQUEST$/);
      await expectRefused(`worker: ${kind}`, await send('POST', `${pulled.path}/claim`, { worker: value }), /^INVALID_REQUEST$/);
    }
    for (const worker of ['', 'x'.repeat(257), '\ud800']) await expectRefused('worker', await send('POST', `${pulled.path}/claim`, JSON.stringify({ worker })), /^INVALID_REQUEST$/);
    for (const [kind, value] of Object.entries(badValues('5'))) {
      if (kind === 'wrong case' || kind === 'leading zeros' || kind === 'two values') continue;
      await expectRefused(`offset: ${kind}`, await ack({ acks: [{ stream: 'bad/s', offset: value }] }), /^INVALID_(OFFSET|REQUEST)$/);
    }
    for (const [kind, value] of Object.entries(badValues(claimed.wake_id))) if (kind !== 'wrong case' || value !== claimed.wake_id) expectOutcome(`wake_id: ${kind}`, await ack({ wake_id: value, acks: [] }), 'FENCED');
    await expectRefused('beyond the tail', await ack({ acks: [{ stream: 'bad/s', offset: '00000000000000000011' }] }), /^INVALID_OFFSET$/);
    expect(await pulled.acked('bad/s')).toBe('00000000000000000006');
    expect((await ack({ acks: [{ stream: 'bad/s', offset: '00000000000000000010' }], done: true })).status).toBe(200);
  });
});
