/** Section 1 of the requirements: bucket and stream ids. Paths are sent as written, no client tidies them. */
import { describe, expect, it } from 'vitest';
import { uniqueId } from '../support/stream.js';
import { useNode } from '../support/node.js';
import { raw, rawCode } from '../support/raw.js';

const node = useNode();
const send = (method: string, path: string) => node.http.send(method, path);
const unique = (length: number): string => uniqueId().padEnd(length, 'x');

describe('bucket ids', () => {
  it('ID-01 BKT-02 a bucket id has 4 to 64 characters of a-z 0-9 _ -', async () => {
    for (const bad of ['abc', 'Abcd', 'ab.cd', 'a'.repeat(65), 'UPPER', 'ab%20cd', 'abcé']) {
      const answer = await send('PUT', `/${encodeURI(decodeURI(bad))}`);
      expect([bad, answer.status, answer.code]).toEqual([bad, 400, 'INVALID_BUCKET_ID']);
    }
    for (const good of ['abcd', 'a'.repeat(64), 'a_-9', '0000']) expect((await send('PUT', `/${good}`)).status, good).toBe(201);
  });

  it('ID-11 equal stream ids in two buckets are different streams', async () => {
    const id = uniqueId();
    await send('PUT', `/aaaa/${id}`);
    await node.http.send('POST', `/aaaa/${id}`, { headers: { 'content-type': 'application/octet-stream' }, body: 'x' });
    expect((await send('HEAD', `/bbbb/${id}`)).status).toBe(404);
    expect((await send('PUT', `/bbbb/${id}`)).next).toBe('0'.repeat(20));
  });

  it('ID-16 a bucket id that starts with __ is refused on every route', async () => {
    for (const path of ['/__ds/x', '/__ursula/x', '/__ab', '/__ab/x', '/__firn/x']) {
      const answer = await send('PUT', path);
      expect([path, answer.status, answer.code]).toEqual([path, 400, 'INVALID_BUCKET_ID']);
    }
    expect((await send('GET', '/__ab/x')).status).toBe(400);
  });
});

describe('stream ids', () => {
  it('ID-02 a stream id has at most 122 bytes', async () => {
    expect((await send('PUT', `/demo/${unique(123)}`)).status).toBe(400);
  });

  it('ID-03 bucket, slash and stream id have at most 122 bytes together', async () => {
    expect((await send('PUT', `/demo/${unique(117)}`)).status).toBe(201);
    expect((await send('PUT', `/demo/${unique(118)}`)).code).toBe('INVALID_STREAM_ID');
    const wide = (count: number): string => encodeURIComponent('水'.repeat(count));
    expect((await send('PUT', `/demo/${wide(39)}`)).status).toBe(201);
    expect((await send('PUT', `/demo/${wide(40)}`)).code).toBe('INVALID_STREAM_ID');
  });

  it('ID-04 a stream id holds no slash', async () => {
    expect((await send('PUT', '/demo/a%2Fb')).status).toBe(400);
    expect((await send('GET', '/demo/a/b')).status).toBe(404);
  });

  it('ID-05 a stream id holds no NUL', async () => {
    expect((await send('PUT', '/demo/a%00b')).code).toBe('INVALID_STREAM_ID');
  });

  it('ID-06 a stream id contains no two dots in a row', async () => {
    for (const id of ['%2E%2E', 'a..b', 'a...b', '..', '%2e.', 'x..']) {
      const answer = await raw(node.url, `PUT /demo/${id} HTTP/1.1`);
      expect([id, answer.status]).toEqual([id, 400]);
    }
  });

  it('ID-07 the stream id streams is reserved', async () => {
    expect((await send('PUT', '/demo/streams')).code).toBe('INVALID_STREAM_ID');
    for (const id of ['streams2', 'Streams']) expect([200, 201]).toContain((await send('PUT', `/demo/${id}`)).status);
  });

  it('ID-08 a stream id does not start with a dollar sign', async () => {
    for (const id of ['$x', '%24x', '$transaction']) expect([id, (await send('PUT', `/demo/${id}`)).status]).toEqual([id, 400]);
    expect((await send('PUT', '/demo/a$b')).status).toBe(201);
  });

  it('ID-09 names of subresources are valid stream ids', async () => {
    for (const id of ['append-batch', 'attrs', 'bootstrap', 'retention', 'snapshot']) expect([id, (await send('PUT', `/names/${id}`)).status]).toEqual([id, 201]);
    const boot = await send('GET', '/names/bootstrap/bootstrap');
    expect(boot.status).toBe(200);
    expect(boot.header('content-type')).toMatch(/^multipart\/mixed/);
    expect((await send('HEAD', '/names/bootstrap')).status).toBe(200);
  });

  it('ID-10 every other UTF-8 string is a valid stream id', async () => {
    for (const id of ['a%20b', '%F0%9F%98%80', 'a%3Fb', '-', 'a%23b', 'a%25b', '%22', 'a+b', "a'b", '~', '%0A', 'a%5Cb', 'A.B']) {
      const path = `/wide/${id}`;
      expect([id, (await send('PUT', path)).status]).toEqual([id, 201]);
      await node.http.send('POST', path, { headers: { 'content-type': 'application/octet-stream' }, body: id });
      expect((await send('GET', `${path}?offset=-1`)).text).toBe(id);
    }
  });

  it('ID-12 a bad bucket or stream id answers 400 on every verb and creates nothing', async () => {
    for (const method of ['PUT', 'GET', 'POST', 'HEAD', 'DELETE']) {
      for (const [path, code] of [['/demo/$x', 'INVALID_STREAM_ID'], ['/abc/s', 'INVALID_BUCKET_ID']] as const) {
        const answer = await node.http.send(method, path, method === 'POST' ? { headers: { 'content-type': 'text/plain' }, body: 'x' } : {});
        expect([method, path, answer.status]).toEqual([method, path, 400]);
        if (method !== 'HEAD') expect(answer.code).toBe(code);
      }
    }
  });

  it('ID-13 escapes that are broken or decode to invalid UTF-8 answer 400', async () => {
    for (const id of ['%FF', '%zz', '%', '%E0%A4', 'a%2', '%C0%80', '%ED%A0%80']) {
      for (const base of ['/demo', '/v1/stream']) {
        const answer = await raw(node.url, `PUT ${base}/${id} HTTP/1.1`);
        expect([base, id, answer.status]).toEqual([base, id, 400]);
        expect(rawCode(answer)).not.toBe('');
      }
    }
  });

  it('ID-14 ids are equal when their decoded bytes are', async () => {
    for (const root of ['/demo', '/v1/stream', '/v1/stream/Folder/x']) {
      const id = uniqueId();
      expect((await send('PUT', `${root}/A${id}`)).status).toBe(201);
      expect((await send('PUT', `${root}/a${id}`)).status).toBe(201);
      expect((await send('HEAD', `${root}/%61${id}`)).incarnation).toBe((await send('HEAD', `${root}/a${id}`)).incarnation);
      expect((await send('PUT', `${root}/e%CC%81${id}`)).status).toBe(201);
      expect((await send('HEAD', `${root}/%C3%A9${id}`)).status).toBe(404);
      expect((await send('HEAD', `${root}/%2561${id}`)).status).toBe(404);
    }
  });

  it('ID-15 an empty stream id answers 404, a dot 400', async () => {
    expect((await send('PUT', '/demo/')).status).toBe(404);
    expect((await raw(node.url, 'PUT /demo/%2E HTTP/1.1')).status).toBe(400);
    expect((await raw(node.url, 'PUT /demo/. HTTP/1.1')).status).toBe(400);
  });
});

describe('base paths', () => {
  it('ID-17 a base path of bucket and stream id is that stream', async () => {
    const id = uniqueId();
    await send('PUT', `/demo/${id}`);
    await node.http.send('POST', `/demo/${id}`, { headers: { 'content-type': 'application/octet-stream' }, body: 'abc' });
    const one = await send('HEAD', `/demo/${id}`);
    const other = await send('HEAD', `/v1/stream/demo/${id}`);
    expect(other.status).toBe(200);
    expect([other.incarnation, other.next]).toEqual([one.incarnation, one.next]);
  });

  it('ID-17 any other base path exists on the base surface only; an encoded slash is refused', async () => {
    const id = uniqueId();
    for (const path of [`/v1/stream/${id}`, `/v1/stream/demo/a/b/${id}`, `/v1/stream/UPPER/${id}`]) {
      expect([path, (await send('PUT', path)).status]).toEqual([path, 201]);
      expect((await send('HEAD', path)).status).toBe(200);
    }
    expect((await send('PUT', `/v1/stream/demo%2F${id}`)).status).toBe(400);
    expect((await send('HEAD', `/demo/${id}`)).status).toBe(404);
  });

  it('ID-18 a base path has at most 122 bytes, no NUL, no two dots, and does not begin with __ds', async () => {
    expect((await send('PUT', `/v1/stream/${unique(122)}`)).status).toBe(201);
    expect((await send('PUT', `/v1/stream/${unique(123)}`)).status).toBe(400);
    for (const path of ['a%00b', 'a..b', 'x/%2E%2E/y']) expect([path, (await raw(node.url, `PUT /v1/stream/${path} HTTP/1.1`)).status]).toEqual([path, 400]);
    const control = await send('PUT', '/v1/stream/__ds/x');
    expect(control.status).toBeGreaterThanOrEqual(400);
    expect(control.status).toBeLessThan(500);
  });
});
