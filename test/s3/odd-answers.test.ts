/**
 * Answers that have nothing to do with what was asked, of each method of the store: what it comes to is always one of the errors of the seam, and never a success that is none (I4, I9, I10, R041).
 */
import { afterEach, describe, expect, it } from 'vitest';
import { StoreUnavailable } from '../../shared/storage/object-store.js';
import type { S3ObjectStore } from '../../shared/storage/s3-store/index.js';
import { errorBody, FaultProxy, type Fault } from '../support/fault-proxy.js';
import { storeOn, useS3 } from '../support/s3.js';

const server = await useS3();
const BODY = Buffer.from('hello');
/** Two parts, the second one small: how long an upload may take follows its bytes. */
const LARGE_BYTES = 17_000_000;

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const odd = (status: number, body: string): Fault => ({ kind: 'odd', status, body });
const ODD: Readonly<Record<string, Fault>> = {
  '412': odd(412, errorBody('PreconditionFailed')),
  '412 without a word': odd(412, ''),
  '416': odd(416, errorBody('InvalidRange')),
  '416 without a word': odd(416, ''),
  '404 NoSuchKey': odd(404, errorBody('NoSuchKey')),
  '404 NoSuchUpload': odd(404, errorBody('NoSuchUpload')),
  '404 of a proxy': odd(404, '<html><body>no<br></body></html>'),
  '502 of a proxy': odd(502, '<html><body>no<br></body></html>'),
  '200 with nothing': odd(200, ''),
  '200 with a page': odd(200, '<html><body>sign in<br></body></html>'),
  '200 with JSON': odd(200, '{"ok":true}'),
  '200 with an error': odd(200, errorBody('InternalError')),
  '200 with an error and a line end': odd(200, `${errorBody('InternalError')}\n`),
  '200 with other XML': odd(200, '<?xml version="1.0"?><Other><Thing>1</Thing></Other>'),
  '200 with XML that was cut': odd(200, '<?xml version="1.0"?><Result><IsTruncated>false</IsTruncated><Contents><Key>a'),
  '206 with nothing': odd(206, ''),
};

interface Operation {
  readonly work: (store: S3ObjectStore) => Promise<unknown>;
  /** Which requests of it meet the answer. */
  readonly hit: (method: string, path: string) => boolean;
  /** What it comes to when the answers are right again. */
  readonly right: unknown;
  /** Answers that are right for it. */
  readonly known?: readonly string[];
}

async function* large(): AsyncGenerator<Buffer> {
  for (let at = 0; at < LARGE_BYTES; at += 1_000_000) yield Buffer.alloc(1_000_000, at % 251);
}

async function listed(store: S3ObjectStore): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list('a/')) keys.push(key);
  return keys;
}

async function putLarge(store: S3ObjectStore): Promise<number | null> {
  await store.putUnique('large', large(), LARGE_BYTES);
  return store.size('large');
}

const sweep = (store: S3ObjectStore): Promise<number> => store.sweepUploads({ isOwn: () => true, olderThanMs: 0 });
const get = (method: string): boolean => method === 'GET';

const OPERATIONS: Readonly<Record<string, Operation>> = {
  get: { work: (store) => store.get('a/b'), hit: get, right: BODY, known: ['404 NoSuchKey', '416'] },
  size: { work: (store) => store.size('a/b'), hit: get, right: BODY.length, known: ['404 NoSuchKey', '416'] },
  list: { work: listed, hit: get, right: ['a/b'] },
  delete: { work: async (store) => [await store.delete('a/b'), await store.size('a/b')], hit: (method) => method === 'DELETE', right: [undefined, null], known: ['404 NoSuchKey'] },
  putOnce: { work: async (store) => [await store.putOnce('a/c', BODY), await store.get('a/c')], hit: (method, path) => method === 'PUT' && path.includes('/a/c'), right: ['created', BODY] },
  'the begin of an upload': { work: putLarge, hit: (method, path) => method === 'POST' && path.includes('uploads'), right: LARGE_BYTES },
  'a part of an upload': { work: putLarge, hit: (method, path) => method === 'PUT' && path.includes('partNumber=2'), right: LARGE_BYTES, known: ['404 NoSuchUpload'] },
  'the end of an upload': { work: putLarge, hit: (method, path) => method === 'POST' && path.includes('uploadId'), right: LARGE_BYTES, known: ['404 NoSuchUpload'] },
  sweepUploads: { work: sweep, hit: get, right: 0 },
};

/** A store whose requests of an operation meet the answer: the first two of them, or all. */
async function meeting({ hit }: Operation, fault: Fault, times: number): Promise<S3ObjectStore> {
  const proxy = await FaultProxy.before(server.endpoint);
  const store = await storeOn({ endpoint: proxy.endpoint, region: server.region });
  ends.push(() => proxy.close(), () => store.close());
  await store.putOnce('a/b', BODY);
  let left = times;
  proxy.faultOf = ({ method, path }) => (hit(method, path) && left-- > 0 ? fault : null);
  return store;
}

describe.each(Object.entries(OPERATIONS))('%s', (_, operation) => {
  const { work, right, known = [] } = operation;

  it.each(Object.entries(ODD).filter(([name]) => !known.includes(name)))('after %s, twice, comes to what is right', async (_name, fault) => {
    expect(await work(await meeting(operation, fault, 2))).toEqual(right);
  });
});

it('what never ends is StoreUnavailable, for every operation and in time', { timeout: 60_000 }, async () => {
  const came = await Promise.all(Object.entries(OPERATIONS).flatMap(([name, operation]) => ['412 without a word', '200 with an error and a line end'].map(async (answer) => {
    const store = await meeting(operation, ODD[answer]!, Infinity);
    return [name, answer, await operation.work(store).then(() => 'done', (error: Error) => error.constructor)];
  })));
  for (const one of came) expect(one).toEqual([one[0], one[1], StoreUnavailable]);
});

it.each(['a part of an upload', 'the end of an upload'])('an upload that somebody aborted is over at once: %s', async (name) => {
  const operation = OPERATIONS[name]!;
  const store = await meeting(operation, ODD['404 NoSuchUpload']!, Infinity);
  const began = performance.now();
  const failed: unknown = await operation.work(store).catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(StoreUnavailable);
  expect(String(failed)).toContain('the upload of large is gone');
  expect(performance.now() - began).toBeLessThan(5_000);
});
