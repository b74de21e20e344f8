/** Section 1 of the requirements: bucket routes, subresource routes, purge. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ownNode, useNode } from '../support/node.js';
import { raw } from '../support/raw.js';
import { fresh, OCTETS, Stream, uniqueId } from '../support/stream.js';

const node = useNode();
const send = (method: string, path: string) => node.http.send(method, path);

describe('buckets', () => {
  it('BKT-01 PUT of a bucket answers 201 each time', async () => {
    for (let i = 0; i < 3; i += 1) expect((await send('PUT', '/demo')).status).toBe(201);
  });

  it('BKT-03 PUT of a bucket changes no state', async () => {
    const stream = fresh(node);
    await stream.create({ body: 'abc', type: OCTETS });
    const before = await stream.head();
    await send('PUT', '/rows');
    const after = await stream.head();
    expect([after.incarnation, after.next]).toEqual([before.incarnation, before.next]);
  });

  it('BKT-04 a stream needs no bucket create before it', async () => {
    expect((await send('PUT', `/b${uniqueId()}/s`)).status).toBe(201);
  });

  it('BKT-05 BKT-06 a bucket has no other verb: 405 with Allow: PUT, and its streams stay', async () => {
    const stream = fresh(node);
    await stream.create();
    for (const method of ['GET', 'POST', 'DELETE', 'HEAD']) {
      const answer = await send(method, '/rows');
      expect([method, answer.status, answer.header('allow')]).toEqual([method, 405, 'PUT']);
      if (method !== 'HEAD') expect(answer.code).toBe('METHOD_NOT_ALLOWED');
    }
    expect((await stream.head()).status).toBe(200);
  });
});

describe('subresource paths', () => {
  it('PATH-01 a segment after the stream names a subresource, never a stream', async () => {
    const stream = fresh(node);
    await stream.create();
    expect((await send('PUT', `${stream.path}/x`)).status).toBe(404);
    expect((await send('HEAD', `${stream.path}%2Fx`)).status).not.toBe(200);
  });

  it('PATH-02 PATH-04 PATH-07 any other path below a stream answers 404 for every method', async () => {
    const stream = fresh(node);
    await stream.create();
    for (const method of ['GET', 'PUT', 'POST', 'DELETE']) {
      for (const rest of ['/other', '/append-batch', '/attrs', '/b/c/d', '/snapshot', '/', '/bootstrap/x', '/retention', '/incarnation']) {
        const answer = await send(method, stream.path + rest);
        expect([method, rest, answer.status, answer.header('location')]).toEqual([method, rest, 404, undefined]);
      }
    }
  });

  it('PATH-03 PATH-08 the subresources are served', async () => {
    const stream = fresh(node);
    const { next, incarnation } = await stream.create({ type: OCTETS, body: 'abc' });
    expect((await stream.publish(next, 'snap')).status).toBe(204);
    expect((await stream.bootstrap()).status).toBe(200);
    expect((await stream.sub('GET', `snapshot/${next}`)).status).toBe(200);
    expect((await stream.sub('GET', `incarnation/${incarnation}/chunk/${'0'.repeat(20)}`)).status).toBe(200);
    expect((await stream.sub('GET', `incarnation/${incarnation}/snapshot/${next}`)).status).toBe(200);
    expect((await stream.retain(next)).status).toBe(204);
  });

  it('PATH-05 ERR-10 a path under /__ursula/ creates no stream, and no route of operators is on this listener', async () => {
    for (const root of ['/__ursula', '/__firn']) {
      for (const method of ['PUT', 'GET', 'POST', 'DELETE']) {
        const answer = await send(method, `${root}/s`);
        expect([root, method, answer.status, answer.code]).toEqual([root, method, 400, 'INVALID_BUCKET_ID']);
      }
    }
    // Where they are, their answers are their own: text, JSON of other shapes.
    expect((await node.admin.send('GET', '/__firn/metrics')).header('content-type')).toMatch(/^text\/plain/);
    expect((await node.admin.send('GET', '/__firn/healthz')).text).not.toContain('"error"');
  });

  it('PATH-06 a wrong method on a subresource answers 405 with Allow, and nothing changes', async () => {
    const stream = fresh(node);
    const { next, incarnation } = await stream.create({ type: OCTETS, body: 'abc' });
    await stream.publish(next, 'snap');
    const zero = '0'.repeat(20);
    const wrong: [string, string, RegExp][] = [
      ['POST', 'bootstrap', /GET/],
      ['PUT', 'bootstrap', /GET/],
      ['DELETE', `snapshot/${next}`, /PUT/],
      ['POST', `snapshot/${next}`, /GET/],
      ['GET', `retention/${next}`, /PUT/],
      ['DELETE', `retention/${next}`, /PUT/],
      ['PUT', `incarnation/${incarnation}/chunk/${zero}`, /GET/],
      ['POST', `incarnation/${incarnation}/snapshot/${next}`, /GET/],
    ];
    for (const [method, resource, allow] of wrong) {
      const answer = await stream.sub(method, resource);
      expect([method, resource, answer.status, answer.code]).toEqual([method, resource, 405, 'METHOD_NOT_ALLOWED']);
      expect(answer.header('allow')).toMatch(allow);
    }
    expect((await stream.sub('GET', `snapshot/${next}`)).text).toBe('snap');
    for (const resource of ['bootstrap', `snapshot/${next}`, `incarnation/${incarnation}/chunk/${zero}`]) {
      const head = await stream.sub('HEAD', resource);
      expect([resource, head.status, head.body.length]).toEqual([resource, 200, 0]);
    }
  });

  it('PATH-09 no path leaves the data directory', async () => {
    for (const path of ['/v1/stream/%2E%2E/%2E%2E/x', '/v1/stream/../../x', '/demo/..%2F..%2Fx', '/demo/../../x', '/v1/stream/a/../../../x', '//x', '/v1/stream//x']) {
      const answer = await raw(node.url, `PUT ${path} HTTP/1.1`);
      expect(answer.status, path).toBeGreaterThanOrEqual(400);
      expect(answer.status, path).toBeLessThan(500);
    }
    if (node.dataDir !== '') expect(existsSync(join(node.dataDir, '..', 'x'))).toBe(false);
  });
});

describe('purge', () => {
  const purged = ownNode();

  it('BKT-07 BKT-08 BKT-09 BKT-10 INC-21 a purged bucket is empty and fenced for good, also after a restart', async () => {
    await purged.start();
    const stream = new Stream(purged.http, '/gone/s');
    const { next } = await stream.create({ type: OCTETS, body: 'abc' });
    await stream.publish(next, 'snap');
    const kept = new Stream(purged.http, '/kept/s');
    await kept.create({ type: OCTETS, body: 'stays' });
    for (const path of ['/__firn/buckets/gone', '/gone', '/gone/', '/v1/stream/gone', '/v1/stream/gone/', '/v1/stream/__firn/buckets/gone', '/__ursula/buckets/gone']) {
      expect([path, (await purged.http.send('DELETE', path)).status]).toEqual([path, expect.toSatisfy((status: number) => status >= 400 && status < 500)]);
    }
    expect((await stream.head()).status).toBe(200);
    await purged.ask('DELETE', '/__firn/buckets/gone');
    for (let run = 0; run < 2; run += 1) {
      expect((await stream.read()).status).toBe(404);
      const put = await stream.put();
      expect([put.status, put.code]).toEqual([404, 'BUCKET_ERASED']);
      expect((await stream.put({ headers: { 'stream-incarnation': '4503599627370497' } })).status).toBe(404);
      expect((await purged.http.send('PUT', '/v1/stream/gone/s')).status).toBe(404);
      expect((await purged.http.send('PUT', '/v1/stream/gone/other')).status).toBe(404);
      expect((await purged.http.send('PUT', '/gone')).status).toBe(201);
      expect((await stream.sub('GET', `snapshot/${next}`)).status).toBe(404);
      expect((await kept.read()).text).toBe('stays');
      if (run === 0) await purged.restart();
    }
  });
});
