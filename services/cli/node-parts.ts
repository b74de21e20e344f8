/**
 * The parts of the node and of a worker that commands start in their own process, loaded when a command needs them: a client command starts without RocksDB, a worker too.
 *
 * Owns: what the command line expects of them.
 */
import type { Config } from '../../shared/config/index.js';
import type { Logger } from '../../shared/observability/index.js';
import type { Node } from '../api/node.js';
import type { OfflineOptions, RestoreProgress, RestoreReport, VerifyReport } from '../api/offline.js';
import { StoreTally } from '../../shared/storage/measured-store.js';
import type { RunningWorker, WorkerOptions } from '../worker/main.js';

export type { Node, NodeAddress } from '../api/node.js';
export type { RunningWorker, WorkerOptions } from '../worker/main.js';

export async function startNode(config: Config, logger: Logger): Promise<Node> {
  return (await import('../api/node.js')).startNode(config, { logger });
}

export async function restoreDirectory(config: Config, options: OfflineOptions & { readonly newIncarnations: boolean; readonly onProgress?: (done: RestoreProgress) => void }): Promise<RestoreReport> {
  return (await import('../api/offline.js')).restoreDirectory(config, options);
}

export async function verifyDirectory(config: Config, options: OfflineOptions & { readonly deep: boolean; readonly onProgress?: (streams: number, objects: number) => void }): Promise<VerifyReport> {
  return (await import('../api/offline.js')).verifyDirectory(config, options);
}

/** The store of a worker, and what it is asked. */
export async function openWorkerObjects(s3: NonNullable<Config['s3']>, logger: Logger): Promise<Pick<WorkerOptions, 'objects' | 'traffic'>> {
  const { openS3 } = await import('../../shared/storage/open-s3.js');
  const traffic = new StoreTally();
  return { objects: await openS3(s3, logger, traffic), traffic };
}

export async function startWorker(options: WorkerOptions, stop: AbortSignal): Promise<RunningWorker> {
  return (await import('../worker/main.js')).startWorker(options, stop);
}

export async function checkWorker(options: WorkerOptions, stop: AbortSignal): Promise<string> {
  return (await import('../worker/main.js')).checkWorker(options, stop);
}
