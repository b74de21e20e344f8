/** Section 17 of the requirements: security headers on every answer; also the headers that errors keep (R079). */
import { describe, expect, it } from 'vitest';
import type { Answer } from '../support/http.js';
import { ownNode, useNode } from '../support/node.js';
import { fresh, JSON_TYPE, OCTETS, onBoth, Stream, TEXT, twin } from '../support/stream.js';
import type { Surface } from '../support/stream.js';

const node = useNode();

/** One answer of every kind that a client can provoke. */
async function everyAnswer(on: Surface, headers: Record<string, string> = {}): Promise<Map<string, Answer>> {
  const s = fresh(node, on);
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
  out.set('404', await fresh(node, on).read('', headers));
  out.set('404 route', await node.http.send('GET', `${b.path}/nothing`, { headers }));
  out.set('405', await s.http.send('PATCH', s.path, { headers }));
  out.set('409 type', await s.append('{}', { type: JSON_TYPE, headers }));
  out.set('412', await s.read({ offset: '2' }, { 'stream-incarnation': '4503599627370497', ...headers }));
  out.set('416', await s.read({ offset: '999' }, headers));
  await s.append('y', { producer: ['p', 1, 0] });
  out.set('403', await s.append('x', { producer: ['p', 0, 1], headers }));
  await s.close();
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
      const wanted = kind === 'GET 200' || kind === 'GET 304' ? /max-age=60/ : kind === 'LP 200' ? /./ : /^no-store$/;
      expect([kind, value]).toEqual([kind, expect.stringMatching(wanted)]);
    }
  });
});

describe('cross-origin', () => {
  const open = ownNode({ FIRN_CORS_ORIGINS: 'https://app.example,https://other.example' });

  it('SEC-08 R079 a configured origin gets the header on success and on errors, with every protocol header exposed', async () => {
    await open.start();
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
    const preflight = await open.http.send('OPTIONS', s.path, { headers: { ...origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type,producer-id' } });
    expect(preflight.status).toBeLessThan(300);
    expect(preflight.need('access-control-allow-methods')).toContain('POST');
    expect(preflight.need('access-control-allow-headers').toLowerCase()).toContain('producer-id');
  });
});
