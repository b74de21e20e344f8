/**
 * Work on a data directory that no node holds: restore and verification.
 *
 * Owns: opening what is needed for it and closing it again. Promises: `HotStoreLocked` when a node holds the directory.
 */
import { randomBytes } from 'node:crypto';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../shared/config/index.js';
import { createMetrics, type Logger } from '../../shared/observability/index.js';
import { coldMetrics } from './cold/cold-metrics.js';
import { restore, type RestoreProgress, type RestoreReport } from './cold/restore.js';
import { StartRefused } from './cold/start-refused.js';
import { verifyStore, type VerifyReport } from './cold/verify.js';
import { openDurableStore } from './hot/durable-store.js';
import { StagingFiles } from './log/staging-files.js';
import { processClock } from './node.js';
import { openObjects } from './objects.js';

export type { RestoreProgress, RestoreReport, VerifyReport };

export interface OfflineOptions {
  readonly logger: Logger;
}

/** Fills a directory without `hot/` from its object store. Throws `StartRefused`. */
export async function restoreDirectory(config: Config, options: OfflineOptions & { readonly newIncarnations: boolean; readonly onProgress?: (done: RestoreProgress) => void }): Promise<RestoreReport> {
  const metrics = createMetrics();
  const objects = await openObjects(config, { logger: options.logger, metrics });
  if (objects === null) throw new StartRefused('FIRN_COLD is "none": there is no object store to restore from');
  try {
    return await restore({
      config,
      objects,
      newIncarnations: options.newIncarnations,
      progress: options.onProgress,
      logger: options.logger,
      metrics: coldMetrics(metrics),
      now: processClock,
      nonce: () => randomBytes(16).toString('hex'),
      signal: new AbortController().signal,
    });
  } finally {
    await objects.close();
  }
}

/** Checks a directory and its object store. */
export async function verifyDirectory(config: Config, options: OfflineOptions & { readonly deep: boolean; readonly onProgress?: (streams: number, objects: number) => void }): Promise<VerifyReport> {
  const dir = join(config.dataDir, 'hot');
  await access(dir).catch(() => {
    throw new StartRefused(`${dir} is not there: nothing to verify`);
  });
  const store = await openDurableStore({ dir, ackedFile: join(config.dataDir, 'acked'), logger: options.logger });
  const objects = await openObjects(config, { logger: options.logger, metrics: createMetrics() });
  try {
    const staging = await StagingFiles.open(join(config.dataDir, 'staging'));
    return await verifyStore({
      store,
      objects,
      deep: options.deep,
      stagedBytes: (file) => staging.bytes(file),
      progress: (done) => options.onProgress?.(done.streams, done.objects),
      signal: new AbortController().signal,
    });
  } finally {
    await objects?.close();
    await store.close();
  }
}
