/**
 * A node whose cold tier is a real S3 server, for what is measured against that server itself.
 *
 * Owns: server, bucket and node of one work. Promises: all of them are gone when it is over.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { call } from '../demo/client.js';
import { FirnProcess, type Settings } from '../lib/firn-process.js';
import { parseSamples, type Samples } from '../lib/metrics.js';
import { namedS3, startS3 } from '../services/s3.js';
import { ensureBucket, storeSettings, type S3Server } from '../services/s3-server.js';
import { ending } from './started.js';

export const BUCKET = 'firn-bench';
/** Sealed only when asked for, and then out of the hot tier at once. */
export const SEALED_WHEN_ASKED: Settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', FIRN_SEAL_BYTES: '1073741824' };

/** Starts a server with a bucket (or takes the one that is named), and ends it after the work. */
export async function withS3<T>(work: (s3: S3Server) => Promise<T>): Promise<T> {
  const s3 = namedS3(process.env) ?? (await startS3(process.env));
  return ending(() => s3.stop(), async () => {
    process.stderr.write(`bench: ${s3.name}\n`);
    await ensureBucket(s3, BUCKET);
    return work(s3);
  });
}

/** Starts a node with a store of its own on the server, and ends it after the work. */
export async function withColdNode<T>(s3: S3Server, settings: Settings, work: (node: FirnProcess) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'firn-bench-'));
  const node = await FirnProcess.on(folder, { ...storeSettings(s3, BUCKET, `nodes/${folder.slice(-6)}`), ...settings });
  const end = async (): Promise<void> => {
    await node.kill();
    await rm(folder, { recursive: true, force: true });
  };
  return ending(end, async () => {
    await node.start();
    return work(node);
  });
}

export async function metricsOf(node: FirnProcess): Promise<Samples> {
  return parseSamples((await call(`${node.adminUrl}/__firn/metrics`, { expect: [200] })).body.toString('utf8'));
}
