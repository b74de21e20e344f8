/**
 * The S3 server of a test file, stores on it, and what a node needs to use it.
 *
 * `npm test` starts one server for all files and names it in the environment; a file that is run alone starts its own. Each store and node gets a prefix of its own.
 */
import { randomUUID } from 'node:crypto';
import { afterAll } from 'vitest';
import { namedS3, startS3 } from '../../infra/services/s3.js';
import { credentialsOf, ensureBucket, type S3Server } from '../../infra/services/s3-server.js';
import { S3ObjectStore, type S3StoreDeps, type S3StoreOptions } from '../../shared/storage/s3-store/index.js';
import type { Env } from './node.js';

export const BUCKET = 'firn-test';

/** Makes a server usable by this file: its bucket, and credentials where the SDK looks for them. Stopped after the file's last test. */
export async function prepared(server: S3Server): Promise<S3Server> {
  afterAll(() => server.stop(), 60_000);
  Object.assign(process.env, credentialsOf(server));
  await ensureBucket(server, BUCKET);
  process.stdout.write(`S3: ${server.name} at ${server.endpoint}\n`);
  return server;
}

/** To be awaited at the top of a test file. */
export async function useS3(): Promise<S3Server> {
  return prepared(namedS3(process.env) ?? (await startS3(process.env)));
}

/** A store under a prefix that nobody else uses. */
export function storeOn(server: Pick<S3Server, 'endpoint' | 'region'>, more: Partial<S3StoreOptions> = {}, deps: S3StoreDeps = {}): Promise<S3ObjectStore> {
  const { endpoint, region } = server;
  return S3ObjectStore.open({ bucket: BUCKET, prefix: `stores/${randomUUID()}`, endpoint, region, forcePathStyle: true, sse: null, sseKmsKeyId: null, ...more }, deps);
}

/** Settings of a node whose cold tier is on the server. `endpoint`: a proxy before it. */
export function s3Settings(server: S3Server, endpoint = server.endpoint): Env {
  return {
    FIRN_S3_BUCKET: BUCKET,
    FIRN_S3_PREFIX: `nodes/${randomUUID()}`,
    FIRN_S3_ENDPOINT: endpoint,
    FIRN_S3_REGION: server.region,
    FIRN_S3_FORCE_PATH_STYLE: '1',
    ...credentialsOf(server),
  };
}
