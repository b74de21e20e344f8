/** Section 17 of the requirements: security headers on every answer; also the headers that errors keep (R079). */
import { networkInterfaces } from 'node:os';
import { describe, expect, it } from 'vitest';
import { firn, settingsFor } from '../support/cli.js';
import { Answer } from '../support/http.js';
import { FirnNode, ownNode, useNode } from '../support/node.js';
import { raw, RawConnection } from '../support/raw.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, Stream, TEXT, twin } from '../support/stream.js';
import type { Surface } from '../support/stream.js';

const node = useNode();

/** One answer of every kind that a client can provoke. */
async function everyAnswer(on: Surface, headers: Record<string, string> = {}, from: FirnNode = node): Promise<Map<string, Answer>> {
  const s = fresh(from, on);
  const b = on.name === 'bucketed' ? s : twin(s);
  const out = new Map<string, Answer>();
  out.set('PUT 201', await s.create({ type: TEXT, body: 'abc', headers }));
  out.set('PUT 200', await s.create({ type: TEXT, headers }));
  out.set('POST 204', await s.append('def', { headers }));
  out.set('POST 200', await s.append('x', { producer: ['p', 0, 0], headers }));
  const read = await s.read({ offset: '-1' }, headers);
  out.set('GET 200', read);
  out.set('GET 304', await s.read({ offset: '-1' }, { 'if-none-match': read.need('etag'), ...headers }));
  out.set('GET now', await s.read({ offset: 'now' }, headers));
  out.set('LP 200', await s.poll('-1', {}, headers));
  out.set('LP 204', await s.poll('now', { timeout_ms: 1 }, headers));
  out.set('HEAD 200', await s.head(headers));
  out.set('publish 204', await b.publish('3', 'snap', OCTETS, headers));
  out.set('snapshot 200', await b.sub('GET', 'snapshot/3', headers));
  out.set('retention 204', await b.retain('1', headers));
  out.set('bootstrap 200', await b.bootstrap('', headers));
  out.set('410', await s.read({ offset: '-1' }, headers));
  out.set('400', await s.read({ offset: 'x' }, headers));
  out.set('404', await fresh(from, on).read('', headers));
  out.set('404 route', await from.http.send('GET', `${b.path}/nothing`, { headers }));
  out.set('404 snapshot', await b.sub('GET', 'snapshot/2', headers));
  out.set('405', await s.http.send('PATCH', s.path, { headers }));
  out.set('400 producer', await s.append('x', { headers: { 'producer-id': 'p', ...headers } }));
  out.set('409 gap', await s.append('x', { producer: ['p', 0, 7], headers }));
  out.set('409 seq', (await s.append('x', { seq: '5' }), await s.append('x', { seq: '4', headers })));
  out.set('409 create', await s.put({ type: JSON_TYPE, headers }));
  out.set('409 snapshot', await b.publish('99', 'x', OCTETS, headers));
  out.set('413', await s.append(Buffer.alloc(33_554_433), { headers }));
  out.set('417', await raw(from.url, [`GET ${s.path} HTTP/1.1`, 'Expect: the-unexpected', ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)]).then((answer) => new Answer(answer.status, answer.headers, answer.body)));
  out.set('409 type', await s.append('{}', { type: JSON_TYPE, headers }));
  out.set('412', await s.read({ offset: '2' }, { 'stream-incarnation': '4503599627370497', ...headers }));
  out.set('416', await s.read({ offset: '999' }, headers));
  out.set('416 range', await b.sub('GET', 'snapshot/3', { range: 'bytes=99-', ...headers }));
  out.set('snapshot 206', await b.sub('GET', 'snapshot/3', { range: 'bytes=1-2', ...headers }));
  const token = await s.token();
  out.set('chunk 200', await b.sub('GET', `incarnation/${token}/chunk/${'3'.padStart(20, '0')}`, headers));
  out.set('kept snapshot 200', await b.sub('GET', `incarnation/${token}/snapshot/${'3'.padStart(20, '0')}`, headers));
  out.set('POST 200 claim', await s.append('y', { producer: ['p', 1, 0], headers }));
  out.set('POST 204 repeat', await s.append('y', { producer: ['p', 1, 0], headers }));
  out.set('403', await s.append('x', { producer: ['p', 0, 1], headers }));
  out.set('close 204', await s.close({ headers }));
  out.set('409 closed', await s.append('x', { headers }));
  out.set('DELETE 204', await s.delete(headers));
  return out;
}

onBoth('security', (on) => {
  it('SEC-01 SEC-02 SEC-03 SEC-08 the headers are on every answer; no CORS by default', async () => {
    for (const [kind, answer] of await everyAnswer(on)) {
      expect([kind, answer.header('x-content-type-options')]).toEqual([kind, 'nosniff']);
      expect([kind, answer.need('cross-origin-resource-policy')]).toEqual([kind, expect.stringMatching(/^(cross-origin|same-site|same-origin)$/)]);
      expect([kind, answer.header('access-control-allow-origin')]).toEqual([kind, undefined]);
      expect([undefined, 'attachment']).toContain(answer.header('content-disposition'));
      const status = Number(/\d{3}/.exec(kind)?.[0] ?? answer.status);
      expect([kind, answer.status]).toEqual([kind, status]);
    }
    const s = fresh(node, on);
    await s.create({ type: TEXT });
    const sse = await s.sse('-1');
    expect(sse.answer.header('x-content-type-options')).toBe('nosniff');
    sse.close();
  });

  it('R137 ERR-13 what may be stored, and what may not', async () => {
    for (const [kind, answer] of await everyAnswer(on)) {
      const value = answer.header('cache-control');
      const wanted = kind === 'GET 200' || kind === 'GET 304' ? /max-age=60/ : kind === 'LP 200' ? /./ : kind === 'kept snapshot 200' ? /immutable/ : /^no-store$/;
      expect([kind, value]).toEqual([kind, expect.stringMatching(wanted)]);
    }
  });
});

/** Headers that a script sees without being told, and those that are for browsers, caches and connections alone. */
const NOT_EXPOSED = new Set([
  'cache-control', 'content-type', 'content-length', 'date', 'vary', 'connection', 'keep-alive', 'transfer-encoding', 'content-encoding', 'x-content-type-options', 'cross-origin-resource-policy', 'access-control-allow-origin',
  'access-control-expose-headers', 'x-accel-buffering',
]);

it('SEC-04 as long as the operator says nothing, whoever may change streams is on the same machine; how others are let in is for the deployment', async () => {
  const own = new FirnNode();
  try {
    await own.start();
    const elsewhere = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []).find(({ internal, family }) => !internal && family === 'IPv4');
    if (elsewhere !== undefined) await expect(RawConnection.open(own.url.replace('127.0.0.1', elsewhere.address))).rejects.toThrow('ECONNREFUSED');
    const opened = await firn(['serve'], { ...settingsFor(own), FIRN_HOST: '0.0.0.0' });
    expect([opened.code === 0, opened.stdout + opened.stderr]).toEqual([false, expect.stringMatching(/FIRN_HOST[\s\S]*FIRN_ALLOW_OPEN=1/)]);
  } finally {
    await own.dispose();
  }
});

describe('cross-origin', () => {
  const open = ownNode({ FIRN_CORS_ORIGINS: 'https://app.example,https://other.example' });

  onBoth('every answer', (on) => {
    it('SEC-08 R079 R070 a configured origin sees every header of ours, on success and on errors', async () => {
      if (open.pid === 0) await open.start();
      const origin = 'https://app.example';
      const answers = await everyAnswer(on, { origin }, open);
      const s = fresh(open, on);
      await s.create({ type: OCTETS, body: 'x' });
      const sse = await s.sse('-1', {}, { origin });
      const seen = new Set<string>();
      for (const [kind, answer] of [...answers, ['SSE 200', sse.answer] as const]) {
        expect([kind, answer.header('access-control-allow-origin')]).toEqual([kind, origin]);
        const exposed = new Set(answer.need('access-control-expose-headers').toLowerCase().split(', '));
        for (const name of answer.names) if (!NOT_EXPOSED.has(name)) expect([kind, name, exposed.has(name)]).toEqual([kind, name, true]);
        for (const name of answer.names) seen.add(name);
        expect([kind, answer.need('vary').toLowerCase()]).toEqual([kind, expect.stringContaining('origin')]);
      }
      sse.close();
      for (const name of ['producer-expected-seq', 'producer-received-seq', 'producer-closed-seq', 'stream-last-seq', 'content-range', 'ursula-max-request-bytes', 'ursula-protocol', 'stream-sse-data-encoding', 'allow', 'location']) expect([name, seen.has(name)]).toEqual([name, true]);
    });
  });

  it('SEC-08 R079 a configured origin gets the header on success and on errors, with every protocol header exposed', async () => {
    if (open.pid === 0) await open.start();
    const s = new Stream(open.http, '/rows/cors');
    await s.create({ type: TEXT, body: 'abc' });
    await s.close();
    const origin = { origin: 'https://app.example' };
    for (const answer of [await s.read({ offset: '-1' }, origin), await s.append('x', { headers: origin }), await s.read({ offset: 'x' }, origin), await s.read({ offset: '999' }, origin)]) {
      expect(answer.header('access-control-allow-origin')).toBe('https://app.example');
      const exposed = answer.need('access-control-expose-headers').toLowerCase();
      for (const name of ['stream-next-offset', 'stream-up-to-date', 'stream-closed', 'stream-cursor', 'stream-incarnation', 'producer-epoch', 'producer-expected-seq', 'producer-outcome', 'etag', 'retry-after', 'stream-snapshot-offset']) expect(exposed).toContain(name);
      expect(answer.need('vary').toLowerCase()).toContain('origin');
    }
    expect((await s.read({ offset: '-1' }, { origin: 'https://evil.example' })).header('access-control-allow-origin')).toBeUndefined();
    for (const path of [s.path, `/v1/stream${s.path}`, `${s.path}/snapshot/3`, `${s.path}/bootstrap`]) {
      const preflight = await open.http.send('OPTIONS', path, { headers: { ...origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type,producer-id' } });
      expect([path, preflight.status, preflight.header('access-control-allow-origin')]).toEqual([path, 204, origin.origin]);
      const methods = preflight.need('access-control-allow-methods').split(', ');
      expect(methods).toEqual(expect.arrayContaining(['GET', 'HEAD', 'PUT', 'POST', 'DELETE']));
      const allowed = preflight.need('access-control-allow-headers').toLowerCase().split(', ');
      const used = ['content-type', 'authorization', 'if-none-match', 'if-range', 'range', 'stream-closed', 'stream-seq', 'stream-ttl', 'stream-expires-at', 'stream-incarnation', 'producer-id', 'producer-epoch', 'producer-seq', 'producer-digest'];
      expect(allowed).toEqual(expect.arrayContaining(used));
    }
    const stranger = await open.http.send('OPTIONS', s.path, { headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' } });
    expect(stranger.header('access-control-allow-origin')).toBeUndefined();
  });
});
