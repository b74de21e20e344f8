/**
 * Every element of a path with every kind of bad value, from a raw socket (R085, R149): the answer is the row's for each method, nothing is created, the connection goes on or is closed in good order.
 */
import { describe, expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { raw } from '../support/raw.js';
import { fresh, OCTETS, uniqueId } from '../support/stream.js';
import type { Stream } from '../support/stream.js';
import { badValues, expectOutcome, odd } from './odd.js';
import type { BadKind, Outcome } from './odd.js';

const node = useNode();
const METHODS = ['PUT', 'POST', 'GET', 'HEAD', 'DELETE'] as const;
type Method = (typeof METHODS)[number];

/** Kinds that no request target may hold as they are; with some of them the request line is not even one. */
const NOT_IN_A_TARGET: readonly BadKind[] = ['white space', 'inner space', 'two values', 'non-ASCII', 'invalid UTF-8', 'control character', 'delete character'];
const ESCAPED_BADLY = ['%', '%0', '%G1', 'a%5', '%zz', '%FF', '%E0%A4', '%C0%80', '%ED%A0%80', 'a%F5%80%80%80'];

async function send(method: Method, path: string): Promise<Awaited<ReturnType<typeof odd>>> {
  return odd(node.url, [`${method} ${path} HTTP/1.1`, ...(method === 'POST' ? [`Content-Type: ${OCTETS}`] : [])], method === 'POST' ? 'body' : '');
}

/** Sends every method to a path; `wanted` is the code, and for HEAD its status alone. */
async function expectRefused(path: string, wanted: Exclude<Outcome, number>, methods: readonly Method[] = METHODS): Promise<void> {
  for (const method of methods) {
    const answer = await send(method, path);
    const what = `${method} ${path.slice(0, 60)}`;
    if (method === 'HEAD') expect([what, answer.status]).toEqual([what, expect.toSatisfy((status: number) => status >= 400 && status < 500)]);
    else expectOutcome(what, answer, wanted);
  }
}

/** Bad values of a segment that may stand in a target, by kind. */
function valuesOf(good: string): [kind: string, value: string, wanted: 'segment' | 'target'][] {
  const kinds = Object.entries(badValues(good)).map(([kind, value]): [string, string, 'segment' | 'target'] => [kind, value, NOT_IN_A_TARGET.includes(kind as BadKind) || value.length > 8_000 ? 'target' : 'segment']);
  return [...kinds, ...ESCAPED_BADLY.map((value): [string, string, 'segment'] => [value, value, 'segment']), ['NUL', `${good}%00`, 'segment'], ['CR and LF', `${good}%0d%0aX:%20y`, 'segment'], ['escaped slash', `${good}%2F${good}`, 'segment'], ['escaped dots', '%2e%2e', 'segment'], ['dots', '..', 'segment']];
}

describe('bucket and stream ids', () => {
  it('R085 ID-12 BKT-02 a bad bucket id answers 400 for every method, on the bucket and below it', async () => {
    const fine = new Set(['leading zeros', 'minus sign', 'exponent', 'percent escapes', 'hexadecimal digits']);
    for (const [kind, value, where] of valuesOf('abcd')) {
      if (fine.has(kind)) continue;
      const wanted = where === 'target' ? 'INVALID_REQUEST' : 'INVALID_BUCKET_ID';
      await expectRefused(`/${value}`, kind === 'empty' ? 'NOT_FOUND' : wanted, ['PUT']);
      await expectRefused(`/${value}/s`, wanted);
    }
    for (const id of ['__ab', '__ds', '__firn', 'abc', 'a'.repeat(65), 'Abcd', 'ab.cd', 'ab~cd', 'V1', 'v1']) {
      await expectRefused(`/${id}`, 'INVALID_BUCKET_ID', ['PUT']);
      await expectRefused(`/${id}/s`, 'INVALID_BUCKET_ID');
    }
  });

  it('R085 R149 ID-04 ID-05 ID-06 ID-08 ID-12 ID-13 a bad stream id answers 400 for every method, and nothing is created', async () => {
    const bad = new Set(['NUL', 'escaped slash', 'escaped dots', 'dots', 'huge', ...ESCAPED_BADLY]);
    for (const [kind, value, where] of valuesOf(uniqueId())) {
      if (where === 'target') await expectRefused(`/demo/${value}`, 'INVALID_REQUEST');
      else if (kind === 'empty') await expectRefused('/demo/', 'NOT_FOUND');
      else if (bad.has(kind)) {
        await expectRefused(`/demo/${value}`, 'INVALID_STREAM_ID');
        await expectRefused(`/demo/${value}/bootstrap`, 'INVALID_STREAM_ID', ['GET']);
      } else {
        // Any other UTF-8 is a name (ID-10).
        expect([kind, (await send('PUT', `/demo/${value}`)).status]).toEqual([kind, 201]);
        expect([kind, (await send('DELETE', `/demo/${value}`)).status]).toEqual([kind, 204]);
      }
    }
    for (const id of ['$x', '%24x', 'streams', '%73treams', '.', '%2E', 'a..b', 'x'.repeat(118), '%E6%B0%B4'.repeat(40)]) await expectRefused(`/demo/${id}`, 'INVALID_STREAM_ID');
  });

  it('R085 ID-13 ID-17 ID-18 a bad base path answers 400 or 404 for every method, and nothing is created', async () => {
    for (const path of [...ESCAPED_BADLY, 'a%00', 'a%2Fb', '..', '%2e%2e', 'a/../b', 'a/%2E%2E/b', '.', 'a/./b', 'a//b', '/a', 'a/', 'a/b/', 'x'.repeat(123), '%E6%B0%B4'.repeat(41)]) {
      for (const method of METHODS) {
        const answer = await send(method, `/v1/stream/${path}`);
        expect([method, path.slice(0, 40), answer.status]).toEqual([method, path.slice(0, 40), expect.toSatisfy((status: number) => status === 400 || status === 404)]);
        if (method !== 'HEAD') expect([path.slice(0, 40), answer.code]).toEqual([path.slice(0, 40), expect.stringMatching(/^(INVALID_STREAM_ID|NOT_FOUND)$/)]);
      }
    }
    for (const path of ['/v1/stream/', '/v1/stream', '/V1/stream/x', '/v1/Stream/x', '/v1/streams/x', '/v1', '/v1/', '//v1/stream/x', '/v1//stream/x']) {
      for (const method of METHODS) expect([method, path, (await send(method, path)).status]).toEqual([method, path, expect.toSatisfy((status: number) => status >= 400 && status < 500)]);
    }
    expect((await send('GET', `/v1/stream/${'a/'.repeat(2_000)}a`)).status).toBe(400);
  });
});

describe('subresources', () => {
  const prepared = async (): Promise<{ s: Stream; token: string }> => {
    const s = fresh(node);
    const { incarnation } = await s.create({ type: OCTETS, body: 'abcdef' });
    return { s, token: incarnation };
  };
  const expectUntouched = async (s: Stream): Promise<void> => {
    const head = await s.head();
    expect([head.header('stream-snapshot-offset'), head.header('stream-retained-offset'), (await s.read()).text]).toEqual([undefined, '0'.repeat(20), 'abcdef']);
  };

  it('R085 SNAP-04 SNAP-33 RET-06 OFF-17 OFF-18 a bad offset of a snapshot or a boundary answers 400', async () => {
    const { s } = await prepared();
    const fine = new Set(['wrong case', 'leading zeros', 'percent escapes']);
    for (const [kind, value, where] of [...valuesOf('0'), ['sentinel', '-1', 'segment'], ['sentinel', 'now', 'segment'], ['64 bits and one', '18446744073709551616', 'segment']] as const) {
      if (fine.has(kind)) continue;
      const wanted = where === 'target' ? 'INVALID_REQUEST' : kind === 'empty' ? 'NOT_FOUND' : 'INVALID_OFFSET';
      await expectRefused(`${s.path}/snapshot/${value}`, wanted, ['PUT', 'GET']);
      await expectRefused(`${s.path}/retention/${value}`, wanted, ['PUT']);
    }
    await expectUntouched(s);
  });

  it('R085 CINC-05 a bad token or offset of an incarnation route answers 400', async () => {
    const { s, token } = await prepared();
    const zero = '0'.repeat(20);
    for (const kind of ['chunk', 'snapshot']) {
      for (const [what, value, where] of valuesOf(token)) {
        const wanted = where === 'target' ? 'INVALID_REQUEST' : 'INVALID_RESOURCE';
        // Digits have one case; a token is read as it stands there.
        if (what !== 'wrong case') await expectRefused(`${s.path}/incarnation/${value}/${kind}/${zero}`, wanted, ['GET']);
      }
      for (const [what, value, where] of valuesOf(zero)) {
        const wanted = where === 'target' ? 'INVALID_REQUEST' : what === 'empty' ? 'NOT_FOUND' : 'INVALID_RESOURCE';
        if (what !== 'wrong case' && what !== 'percent escapes') await expectRefused(`${s.path}/incarnation/${token}/${kind}/${value}`, wanted, ['GET']);
      }
      for (const query of ['?', '?a', '?offset=0', '?%zz']) await expectRefused(`${s.path}/incarnation/${token}/${kind}/${zero}${query}`, 'QUERY_NOT_ACCEPTED', ['GET']);
    }
    await expectUntouched(s);
  });

  it('R085 R149 PATH-02 PATH-07 any other name below a stream answers 404, also one that is nearly right', async () => {
    const { s, token } = await prepared();
    const names = [
      '', 'other', 'Bootstrap', 'BOOTSTRAP', '%62ootstrap', 'bootstrap%00', 'bootstrap/', 'bootstrap/x', 'snapshot', 'snapshot/', 'snapshot/3/', 'snapshot/3/x', 'Snapshot/3', '%73napshot/3', 'snapshot//3', 'retention', 'retention/', 'retention/0/', 'Retention/0',
      'incarnation', 'incarnation/', `incarnation/${token}`, `incarnation/${token}/`, `incarnation/${token}/chunk`, `incarnation/${token}/chunk/`, `incarnation/${token}/other/0`, `incarnation/${token}/Chunk/0`, `Incarnation/${token}/chunk/0`, `incarnation/${token}/chunk/0/0`, 'append-batch', 'attrs', '%2F', '%zz', 'a/b/c/d/e/f/g',
    ];
    for (const name of names) await expectRefused(`${s.path}/${name}`, 'NOT_FOUND');
    await expectUntouched(s);
  });
});

describe('request targets', () => {
  it('R085 absolute and odd request targets are answered, and no method but the known ones does anything', async () => {
    const s = fresh(node);
    await s.create({ type: OCTETS, body: 'abc' });
    const absolute = await raw(node.url, `GET ${node.url}${s.path}?offset=-1 HTTP/1.1`);
    expect([absolute.status, absolute.body.toString()]).toEqual([200, 'abc']);
    for (const method of ['PATCH', 'TRACE', 'PROPFIND', 'LOCK', 'QUERY']) {
      const answer = await odd(node.url, [`${method} ${s.path} HTTP/1.1`]);
      expect([method, answer.status]).toEqual([method, expect.toSatisfy((status: number) => status === 405 || status === 400)]);
    }
    for (const line of ['OPTIONS * HTTP/1.1', 'BREW /demo/x HTTP/1.1', 'get /demo/x HTTP/1.1', 'CONNECT a:1 HTTP/1.1', 'GET demo/x HTTP/1.1', 'GET http://[bad/x HTTP/1.1', 'GET * HTTP/1.1', 'GET /demo/x', 'GET  /demo/x HTTP/1.1', 'GET /demo/x HTTP/1.1 x', 'GET /demo/x HTTP/2.0', 'GET /demo/x FTP/1.1', `GET /${'x'.repeat(20_000)} HTTP/1.1`]) {
      const answer = await odd(node.url, [line]);
      expect([line.slice(0, 40), answer.status]).toEqual([line.slice(0, 40), expect.toSatisfy((status: number) => (status >= 400 && status < 500) || (line.startsWith('OPTIONS') && status === 204))]);
    }
    expect((await s.read()).text).toBe('abc');
  });
});
