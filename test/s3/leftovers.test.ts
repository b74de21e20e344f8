/**
 * Multipart uploads that killed processes left behind: found and aborted once they are old, and nothing else is (R041).
 */
import { randomUUID } from 'node:crypto';
import { CreateMultipartUploadCommand, ListMultipartUploadsCommand, UploadPartCommand } from '@aws-sdk/client-s3';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { clientOf } from '../../infra/services/s3-server.js';
import { UploadSweeps } from '../../services/api/upload-sweeps.js';
import { createLogger } from '../../shared/observability/index.js';
import { StoreRefused } from '../../shared/storage/object-store.js';
import type { S3ObjectStore } from '../../shared/storage/s3-store/index.js';
import { FaultProxy } from '../support/fault-proxy.js';
import { BUCKET, storeOn, useS3 } from '../support/s3.js';

const server = await useS3();
const client = clientOf(server);
afterAll(() => client.destroy());
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const HOUR_MS = 3_600_000;
/** One more than a page. */
const MANY = 1_001;
const SNAPSHOT = 'partitions/0000/snapshots/0000-000001-0000000007-0001-00000';

async function storeUnder(prefix: string, endpoint = server.endpoint): Promise<S3ObjectStore> {
  const store = await storeOn({ endpoint, region: server.region }, { prefix });
  ends.push(() => store.close());
  return store;
}

/** Begins an upload, as a process does that is killed before its end. */
async function leave(name: string, parts = 0): Promise<void> {
  const at = { Bucket: BUCKET, Key: name };
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(at));
  for (let n = 1; n <= parts; n++) await client.send(new UploadPartCommand({ ...at, UploadId, PartNumber: n, Body: Buffer.alloc(5_242_880, n) }));
}

/** Until what was begun just now is older than nothing: the clock in the answers of a server counts in seconds. */
const grow = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1_100));

/** Names of unfinished uploads that begin with a prefix; no other test of the run leaves a page of them. */
async function left(prefix: string): Promise<string[]> {
  const { Uploads: uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }));
  return uploads.map(({ Key: name = '' }) => name).filter((name) => name.startsWith(prefix)).toSorted();
}

describe('a sweep of uploads', () => {
  it('aborts those that are old enough, under the prefix of its store, with names of its own', async () => {
    const prefix = `leftovers/${randomUUID()}`;
    const store = await storeUnder(prefix);
    const own = `${prefix}/a/own`;
    await leave(own, 2);
    await leave(own);
    const others = [`${prefix}-2/a/own`, `${prefix}/a/foreign`];
    for (const name of others) await leave(name, 1);
    const sweep = { isOwn: (key: string) => key.endsWith('own'), olderThanMs: HOUR_MS };
    expect(await store.sweepUploads(sweep)).toBe(0);
    expect(await left(prefix)).toHaveLength(4);
    await grow();
    expect(await store.sweepUploads({ ...sweep, olderThanMs: 0 })).toBe(2);
    expect(await left(prefix)).toEqual(others.toSorted());
    expect(await store.sweepUploads({ ...sweep, isOwn: () => true, olderThanMs: 0 })).toBe(1);
    expect(await left(prefix)).toEqual([others[0]]);
  });

  it('goes through all pages', { timeout: 120_000 }, async () => {
    const prefix = `leftovers/${randomUUID()}`;
    for (let from = 0; from < MANY; from += 50) await Promise.all(Array.from({ length: Math.min(50, MANY - from) }, (_, n) => leave(`${prefix}/many/${String(from + n).padStart(5, '0')}`)));
    await grow();
    expect(await (await storeUnder(prefix)).sweepUploads({ isOwn: () => true, olderThanMs: 0 })).toBe(MANY);
    expect(await left(prefix)).toEqual([]);
  });

  it('that is not allowed is refused, like any other operation', async () => {
    const proxy = await FaultProxy.before(server.endpoint);
    ends.push(() => proxy.close());
    proxy.faultOf = ({ path }) => (path.includes('uploads') ? { kind: 'status', status: 403, code: 'AccessDenied' } : null);
    const store = await storeUnder(`leftovers/${randomUUID()}`, proxy.endpoint);
    await expect(store.sweepUploads({ isOwn: () => true, olderThanMs: 0 })).rejects.toThrow(StoreRefused);
  });
});

describe('the regular sweep of a node', () => {
  it('removes what was begun for a data object long ago, and leaves younger uploads and other names alone', async () => {
    const prefix = `leftovers/${randomUUID()}`;
    const store = await storeUnder(prefix);
    for (const name of [SNAPSHOT, 'partitions/0000/snapshots/theirs', 'backup']) await leave(`${prefix}/${name}`);
    const lines: string[] = [];
    const logger = createLogger('info', { write: (line: string) => void lines.push(line) });
    const patient = new UploadSweeps({ objects: store, logger, firstMs: 1 });
    await grow();
    await patient.end();
    expect([await left(prefix), lines]).toEqual([[`${prefix}/backup`, `${prefix}/${SNAPSHOT}`, `${prefix}/partitions/0000/snapshots/theirs`], []]);
    const sweeps = new UploadSweeps({ objects: store, logger, firstMs: 1, graceMs: 0 });
    await expect.poll(() => lines.join('')).toContain('"event":"uploads-swept","count":1');
    await sweeps.end();
    expect(await left(prefix)).toEqual([`${prefix}/backup`, `${prefix}/partitions/0000/snapshots/theirs`]);
  });

  it('says what the store refuses, and ends at once when the node does', async () => {
    const proxy = await FaultProxy.before(server.endpoint);
    ends.push(() => proxy.close());
    proxy.faultOf = () => ({ kind: 'status', status: 403, code: 'AccessDenied' });
    const store = await storeUnder(`leftovers/${randomUUID()}`, proxy.endpoint);
    const lines: string[] = [];
    const logger = createLogger('info', { write: (line: string) => void lines.push(line) });
    const refused = new UploadSweeps({ objects: store, logger, firstMs: 1 });
    await expect.poll(() => lines.join('')).toContain('"event":"uploads-not-swept"');
    await refused.end();
    proxy.faultOf = () => ({ kind: 'black-hole' });
    const waiting = new UploadSweeps({ objects: store, logger, firstMs: 1 });
    await expect.poll(() => proxy.count('GET', 'black-hole')).toBe(1);
    const began = performance.now();
    await waiting.end();
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(lines).toHaveLength(1);
  });
});
