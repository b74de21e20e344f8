/**
 * The S3 store under every fault of the proxy: what each operation comes to (I4, I9, I10, R033, R035, R037, R041).
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { clientOf } from '../../infra/services/s3-server.js';
import { ObjectMissing, StoreRefused, StoreUnavailable } from '../../shared/storage/object-store.js';
import { OPERATION_MS, SOCKETS_MAX } from '../../shared/storage/s3-store/limits.js';
import type { S3ObjectStore } from '../../shared/storage/s3-store/index.js';
import { CONFLICT, FaultProxy, INTERNAL_ERROR, PRECONDITION, SLOW_DOWN, type Fault } from '../support/fault-proxy.js';
import { BUCKET, storeOn, useS3 } from '../support/s3.js';

const server = await useS3();
const TOO_MANY: Fault = { kind: 'status', status: 429, code: 'TooManyRequests' };
const BODY = randomBytes(3_000_000);

let proxy: FaultProxy;
let prefix: string;
let store: S3ObjectStore;
let retried: string[];

beforeEach(async () => {
  proxy = await FaultProxy.before(server.endpoint);
  retried = [];
  prefix = `stores/${randomUUID()}`;
  store = await storeThrough(proxy, { prefix });
});
afterEach(async () => {
  await store.close();
  await proxy.close();
});

function storeThrough(through: FaultProxy, more: { readonly prefix?: string } = {}): Promise<S3ObjectStore> {
  return storeOn({ endpoint: through.endpoint, region: server.region }, more, { onRetry: (why) => retried.push(why) });
}

/** The first requests of a method meet these faults in turn. */
function first(method: string, ...faults: readonly Fault[]): void {
  const left = [...faults];
  proxy.faultOf = (request) => (request.method === method ? (left.shift() ?? null) : null);
}

async function* inPieces(body: Buffer, bytes = 1_000_000): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += bytes) yield body.subarray(at, at + bytes);
}

async function until(check: () => boolean, ms = 5_000): Promise<void> {
  const end = Date.now() + ms;
  while (!check() && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(check()).toBe(true);
}

async function rejection(work: Promise<unknown>): Promise<Error> {
  return work.then(() => Promise.reject(new Error('it succeeded')), (error: unknown) => error as Error);
}

describe('a create-once PUT', () => {
  it.each<[string, Fault]>([
    ['latency', { kind: 'latency', ms: 300 }], ['500', INTERNAL_ERROR], ['503 SlowDown', SLOW_DOWN], ['429', TOO_MANY], ['a reset while the body is sent', { kind: 'reset-upload' }],
    ['409 on the condition (R037)', CONFLICT], ['412 where nothing lies (R037)', PRECONDITION], ['a byte altered on the way', { kind: 'altered-upload' }],
  ])('is made again after %s, and creates the object once', async (_, fault) => {
    first('PUT', fault, fault);
    expect(await store.putOnce('a/b', [BODY.subarray(0, 1), BODY.subarray(1)])).toBe('created');
    expect((await store.get('a/b')).equals(BODY)).toBe(true);
    expect(retried).toHaveLength(fault.kind === 'latency' ? 0 : 2);
    expect(await store.putOnce('a/b', BODY.subarray(1))).toBe('exists-theirs');
  });

  it('whose answer was lost is recognised as ours (R037)', async () => {
    first('PUT', { kind: 'lost-answer' });
    expect(await store.putOnce('a/b', BODY)).toBe('exists-ours');
    first('PUT', INTERNAL_ERROR, { kind: 'lost-answer' }, SLOW_DOWN);
    expect(await store.putOnce('a/c', BODY)).toBe('exists-ours');
    for (const key of ['a/b', 'a/c']) expect((await store.get(key)).equals(BODY)).toBe(true);
  });

  it('that another writer wins meanwhile is theirs (R037)', async () => {
    const [slow, quick] = [await storeThrough(proxy, { prefix }), await storeOn(server, { prefix })];
    first('PUT', { kind: 'latency', ms: 500 });
    const late = slow.putOnce('x/y', Buffer.from('mine'));
    expect(await quick.putOnce('x/y', Buffer.from('theirs'))).toBe('created');
    expect(await late).toBe('exists-theirs');
    expect((await slow.get('x/y')).toString()).toBe('theirs');
    await Promise.all([slow.close(), quick.close()]);
  });

  it('is refused to a server that takes the condition and does not keep it', async () => {
    proxy.faultOf = ({ method, nth }) => (method === 'PUT' && nth === 1 ? { kind: 'odd', status: 200, body: '', headers: { etag: '"x"' } } : null);
    expect(await rejection(store.putOnce('a/b', Buffer.from('x')))).toMatchObject({ name: 'StoreRefused', message: expect.stringContaining('does not know create-if-absent') });
  });

  it('keeps one connection, also for keys that are not there', async () => {
    for (let n = 0; n < 20; n += 1) {
      await store.putOnce(`a/${n}`, Buffer.from('x'));
      expect(await store.size(`none/${n}`)).toBeNull();
      expect((await store.get(`a/${n}`)).toString()).toBe('x');
    }
    expect(proxy.accepted).toBeLessThanOrEqual(2);
  });
});

describe('a read', () => {
  beforeEach(async () => {
    await store.putOnce('a/b', BODY);
  });

  it.each<[string, readonly Fault[]]>([
    ['resets in mid-body', [{ kind: 'reset-body', at: 0.3 }, { kind: 'reset-body', at: 0.5 }, { kind: 'reset-body', at: 0.01 }]],
    ['bodies that end early with a good status', [{ kind: 'truncated', at: 0.3 }, { kind: 'truncated', at: 0.9 }, { kind: 'truncated', at: 0 }]],
    ['refusals that pass', [SLOW_DOWN, INTERNAL_ERROR, TOO_MANY]],
    ['latency', [{ kind: 'latency', ms: 300 }]],
  ])('I9 gives exactly its bytes through %s, going on where it broke off', async (_, faults) => {
    const range = { from: 1_000, length: 2_500_000 };
    first('GET', ...faults);
    expect((await store.get('a/b')).equals(BODY)).toBe(true);
    first('GET', ...faults);
    expect((await store.get('a/b', range)).equals(BODY.subarray(range.from, range.from + range.length))).toBe(true);
    const starts = proxy.seen.filter(({ method }) => method === 'GET').map(({ headers }) => Number(/^bytes=(\d+)-/.exec(String(headers.range))?.[1]));
    const broken = faults.filter((fault) => 'at' in fault && fault.at > 0).length;
    expect(new Set(starts.filter((start) => start > 1_000)).size).toBe(broken * 2);
  });

  it('R022 never calls an object missing that a proxy does not find', async () => {
    const notFound: Fault = { kind: 'status', status: 404, code: 'NotFound' };
    first('GET', notFound, notFound);
    expect(await store.size('a/b')).toBe(BODY.length);
    await expect(store.get('a/c')).rejects.toThrow(ObjectMissing);
  });

  it('I9 lists every key through cut pages, resets and refusals', async () => {
    const keys = Array.from({ length: 30 }, (_, n) => `list/${String(n).padStart(3, '0')}`);
    await Promise.all(keys.map((key) => store.putOnce(key, Buffer.from(key))));
    const listed = async (): Promise<string[]> => {
      const found: string[] = [];
      for await (const { key } of store.list('list/')) found.push(key);
      return found;
    };
    const faults: Fault[] = [0.99, 0.9, 0.6, 0.3, 0.05, 0].map((at) => ({ kind: 'truncated', at }));
    for (const fault of [...faults, SLOW_DOWN, INTERNAL_ERROR, { kind: 'reset-body', at: 0.5 } as const]) {
      first('GET', fault);
      expect(await listed()).toEqual(keys);
    }
    expect(retried.length).toBeGreaterThanOrEqual(9);
  });

  it('I11 that is given up leaves no connection and no place behind (500 of them)', { timeout: 60_000 }, async () => {
    const readOne = async (n: number): Promise<void> => {
      if (n % 2 === 0) {
        const abort = new AbortController();
        setTimeout(() => abort.abort(new Error('gone')), n % 23);
        await store.get('a/b', undefined, abort.signal).catch((error: Error) => expect(error.message).toBe('gone'));
        return;
      }
      for await (const piece of store.stream('a/b')) {
        expect(piece.length).toBeGreaterThan(0);
        break;
      }
    };
    for (let from = 0; from < 500; from += 100) await Promise.all(Array.from({ length: 100 }, (_, n) => readOne(from + n)));
    await Promise.all(Array.from({ length: 100 }, () => store.get('a/b', { from: 5, length: 5 })));
    await until(() => proxy.connections <= SOCKETS_MAX);
    expect(await store.putOnce('after', Buffer.from('x'))).toBe('created');
    await store.close();
    await until(() => proxy.connections === 0);
  });

  it('that rests gives its connection back and goes on later; readers that rest hold up neither readers nor writers', { timeout: 60_000 }, async () => {
    const big = randomBytes(12_000_000);
    await store.putOnce('big', big);
    const readers = Array.from({ length: 60 }, () => store.stream('big')[Symbol.asyncIterator]());
    const firsts: IteratorResult<Buffer>[] = [];
    const reading = readers.map(async (reader, n) => void (firsts[n] = await reader.next()));
    expect(await store.putOnce('meanwhile', BODY)).toBe('created');
    await Promise.all(reading);
    await until(() => proxy.connections < 20, 10_000);
    for (const [n, reader] of readers.entries()) {
      if (n >= 3) {
        await reader.return?.(undefined);
        continue;
      }
      const pieces = [firsts[n]?.value as Buffer];
      for (let next = await reader.next(); next.done !== true; next = await reader.next()) pieces.push(next.value);
      expect(Buffer.concat(pieces).equals(big)).toBe(true);
    }
  });
});

describe('a store that is away', () => {
  it('R121 is found again when it comes back while one waits', async () => {
    await store.putOnce('a/b', BODY);
    await proxy.down();
    const [got, put] = [store.get('a/b'), store.putOnce('a/c', BODY)];
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await proxy.up();
    expect((await got).equals(BODY)).toBe(true);
    expect(await put).toBe('created');
  });

  it('R033 ends in StoreUnavailable within the stated time, and names the server: down, mute, stalled in mid-body, refusing, in conflict; slow is no fault', { timeout: 90_000 }, async () => {
    const began = Date.now();
    const given = async (arrange: (through: FaultProxy) => unknown, work: (own: S3ObjectStore) => Promise<unknown>): Promise<string> => {
      const through = await FaultProxy.before(server.endpoint);
      const own = await storeThrough(through);
      await own.putOnce('a/b', BODY);
      await arrange(through);
      const failed = await rejection(work(own));
      expect([failed.constructor, failed.message.includes(through.endpoint), failed.message.includes(server.secretKey)]).toEqual([StoreUnavailable, true, false]);
      await own.close();
      await through.close();
      return failed.message;
    };
    const every = (fault: Fault) => (through: FaultProxy) => (through.faultOf = () => fault);
    const slowly = async (): Promise<void> => {
      const through = await FaultProxy.before(server.endpoint);
      through.bytesPerSecond = 1_000_000;
      const own = await storeThrough(through);
      const body = randomBytes(11_000_000);
      expect(await own.putOnce('slow', body)).toBe('created');
      expect((await own.get('slow')).equals(body)).toBe(true);
      await own.close();
      await through.close();
    };
    const stallsOnce = async (): Promise<void> => {
      const through = await FaultProxy.before(server.endpoint);
      const own = await storeThrough(through);
      await own.putOnce('a/b', BODY);
      through.faultOf = ({ method, nth, path }) => (nth > 0 || path.includes('a/c') ? null : method === 'GET' ? { kind: 'stalled', at: 0.5 } : { kind: 'black-hole' });
      const [got, put] = await Promise.all([own.get('a/b'), own.putOnce('a/d', BODY)]);
      expect([got.equals(BODY), put]).toEqual([true, 'created']);
      await own.close();
      await through.close();
    };
    const restsLong = async (): Promise<void> => {
      const own = await storeOn(server);
      const body = randomBytes(12_000_000);
      await own.putOnce('a/b', body);
      const pieces: Buffer[] = [];
      for await (const piece of own.stream('a/b')) {
        if (pieces.push(piece) === 2) await new Promise((resolve) => setTimeout(resolve, OPERATION_MS + 2_000));
      }
      expect(Buffer.concat(pieces).equals(body)).toBe(true);
      await own.close();
    };
    const [down, mute, stalled, refusing, conflict] = await Promise.all([
      given((through) => through.down(), (own) => own.get('a/b')),
      given(every({ kind: 'black-hole' }), (own) => own.putOnce('a/c', BODY)),
      given(every({ kind: 'stalled', at: 0 }), (own) => own.get('a/b')),
      given(every(SLOW_DOWN), (own) => own.size('a/b')),
      given(every(CONFLICT), (own) => own.putOnce('a/c', BODY)),
      slowly(),
      stallsOnce(),
      restsLong(),
    ]);
    expect([down, mute, stalled, refusing, conflict].map((message) => /ECONNREFUSED|no byte moved|no answer to a whole upload|SlowDown|ConditionalRequestConflict/.exec(message)?.[0])).toEqual(['ECONNREFUSED', 'no answer to a whole upload', 'no byte moved', 'SlowDown', 'ConditionalRequestConflict']);
    expect(Date.now() - began).toBeLessThan(45_000);
  });

  it('cannot be used any more once it is closed, what waits included', async () => {
    proxy.faultOf = () => ({ kind: 'black-hole' });
    const waiting = rejection(store.get('a/b'));
    await until(() => proxy.connections === 1);
    await store.close();
    expect(await waiting).toBeInstanceOf(StoreUnavailable);
    await until(() => proxy.connections === 0);
  });
});

describe('a store that refuses', () => {
  async function expectRefusal(own: S3ObjectStore, why: RegExp): Promise<void> {
    const listed = async (): Promise<void> => {
      for await (const _ of own.list(''));
    };
    const works = [() => own.get('a/b'), () => own.size('a/b'), () => own.putOnce('a/b', BODY), () => own.putUnique('a/b', inPieces(Buffer.alloc(17_000_000)), 17_000_000), listed, () => own.delete('a/b')];
    for (const work of works) {
      const failed = await rejection(work());
      expect([failed.constructor, failed.message]).toEqual([StoreRefused, expect.stringMatching(why)]);
      expect(failed.message).not.toContain(server.secretKey);
      expect(failed.cause).toBeUndefined();
    }
    await own.close();
  }

  it('says so at once: no such bucket is not a missing object (I9)', () => storeOn(server, { bucket: 'firn-none' }).then((own) => expectRefusal(own, /firn-none.*404 NoSuchBucket/)));

  it('says so at once: permission', async () => {
    proxy.faultOf = () => ({ kind: 'status', status: 403, code: 'AccessDenied' });
    await expectRefusal(store, /403 AccessDenied/);
  });

  it('says so at once: wrong credentials, and none', async () => {
    const before = { ...process.env };
    try {
      process.env['AWS_SECRET_ACCESS_KEY'] = 'hunter2hunter2';
      await expectRefusal(await storeOn(server), /403 SignatureDoesNotMatch/);
      delete process.env['AWS_SECRET_ACCESS_KEY'];
      Object.assign(process.env, { AWS_EC2_METADATA_DISABLED: 'true', AWS_CONFIG_FILE: '/none', AWS_SHARED_CREDENTIALS_FILE: '/none' });
      await expectRefusal(await storeOn(server), /no credentials/);
    } finally {
      process.env = before;
    }
  });

  it('wants a region of AWS, and none of a server of one\'s own', async () => {
    const before = { ...process.env };
    try {
      // Whoever runs this may have a region, or a profile that names one.
      for (const name of ['AWS_REGION', 'AWS_DEFAULT_REGION', 'AWS_PROFILE', 'AWS_DEFAULT_PROFILE']) delete process.env[name];
      Object.assign(process.env, { AWS_CONFIG_FILE: '/none', AWS_SHARED_CREDENTIALS_FILE: '/none' });
      await expect(storeOn({ endpoint: server.endpoint, region: '' }, { endpoint: null, region: null })).rejects.toThrow(/FIRN_S3_REGION/);
      const own = await storeOn(server, { region: null });
      expect(await own.size('a/b')).toBeNull();
      await own.close();
    } finally {
      process.env = before;
    }
  });
});

describe('a large body (R035, R039, R041)', () => {
  const LARGE = randomBytes(40_000_000);

  async function uploads(): Promise<number> {
    const client = clientOf(server);
    const { Uploads: found } = await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }));
    client.destroy();
    return (found ?? []).filter(({ Key: name = '' }) => name.startsWith(prefix)).length;
  }

  it('arrives whole through refusals, resets, altered bytes and lost answers', { timeout: 60_000 }, async () => {
    proxy.faultOf = ({ method, nth, path }) => {
      if (nth > 3) return null;
      if (method === 'PUT') return [SLOW_DOWN, { kind: 'reset-upload' } as const, { kind: 'altered-upload' } as const, { kind: 'lost-answer' } as const][nth] ?? null;
      // An upload that is begun twice leaves one behind: not what is looked at here.
      if (method === 'POST') return path.includes('uploads') ? (nth === 0 ? SLOW_DOWN : null) : ([INTERNAL_ERROR, { kind: 'lost-answer' } as const][nth] ?? null);
      return null;
    };
    await store.putUnique('large', inPieces(LARGE), LARGE.length);
    expect((await store.get('large')).equals(LARGE)).toBe(true);
    expect(proxy.count('POST', 'lost-answer')).toBe(1);
    expect(await uploads()).toBe(0);
  });

  it('leaves no part behind when a part or its end is refused, when it is cancelled, and when its source breaks off', { timeout: 60_000 }, async () => {
    const denied: Fault = { kind: 'status', status: 403, code: 'AccessDenied' };
    proxy.faultOf = ({ method, path }) => (method === 'PUT' && path.includes('partNumber=2') ? denied : null);
    await expect(store.putUnique('one', inPieces(LARGE), LARGE.length)).rejects.toThrow(StoreRefused);
    proxy.faultOf = ({ method, path }) => (method === 'POST' && path.includes('uploadId') ? denied : null);
    await expect(store.putUnique('two', inPieces(LARGE), LARGE.length)).rejects.toThrow(StoreRefused);
    proxy.faultOf = () => null;
    const abort = new AbortController();
    const cancelled = async function* (): AsyncGenerator<Buffer> {
      yield* inPieces(LARGE.subarray(0, 20_000_000));
      abort.abort(new Error('not wanted'));
      yield* inPieces(LARGE.subarray(20_000_000));
    };
    await expect(store.putUnique('three', cancelled(), LARGE.length, abort.signal)).rejects.toThrow('not wanted');
    const midPart = new AbortController();
    proxy.faultOf = ({ method, path }) => {
      if (method !== 'PUT' || !path.includes('partNumber=2')) return null;
      setTimeout(() => midPart.abort(new Error('not wanted')), 50);
      return { kind: 'black-hole' };
    };
    await expect(store.putUnique('four', inPieces(LARGE), LARGE.length, midPart.signal)).rejects.toThrow('not wanted');
    proxy.faultOf = () => null;
    await expect(store.putUnique('five', inPieces(LARGE.subarray(1)), LARGE.length)).rejects.toThrow('were declared');
    expect(await uploads()).toBe(0);
    for (const key of ['one', 'two', 'three', 'four', 'five']) expect(await store.size(key)).toBeNull();
  });
});

describe('encryption', () => {
  it.each([['AES256', null], ['aws:kms', 'alias/firn']] as const)('is asked for by every upload: %s', async (sse, key) => {
    const own = await storeOn({ endpoint: proxy.endpoint, region: server.region }, { sse, sseKmsKeyId: key });
    // What the server makes of it is its own affair (Ceph without a key server refuses).
    const came = await Promise.allSettled([own.putOnce('a/b', Buffer.from('x')), own.putUnique('a/c', inPieces(Buffer.alloc(17_000_000)), 17_000_000)]);
    for (const one of came) if (one.status === 'rejected') expect(one.reason).toBeInstanceOf(StoreRefused);
    const asked = proxy.seen.filter(({ method, path }) => (method === 'PUT' && !path.includes('partNumber')) || (method === 'POST' && path.includes('uploads')));
    expect(asked.length).toBeGreaterThanOrEqual(2);
    for (const { headers } of asked) expect([headers['x-amz-server-side-encryption'], headers['x-amz-server-side-encryption-aws-kms-key-id'] ?? null]).toEqual([sse, key]);
    await own.close();
  });
});
