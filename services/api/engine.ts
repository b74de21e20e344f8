/**
 * The storage engine of a node: hot store, log and cold tier of one data directory, without any listener.
 *
 * Owns: the order in which the parts are opened and closed. Promises: when it is open, everything that the object store's log holds is applied and every
 * acknowledged write is visible; closing lets what is in flight become durable first.
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../shared/config/index.js';
import type { Logger, Metrics } from '../../shared/observability/index.js';
import { coldMetrics } from './cold/cold-metrics.js';
import type { Collected } from './cold/collect/collector.js';
import { readIdentity } from './cold/directory.js';
import { FrameDisk } from './cold/frame-disk.js';
import { DISK_FREE_FACTOR } from './cold/limits.js';
import { openNoCold } from './cold/none.js';
import { StartRefused } from './cold/start-refused.js';
import { openColdTier } from './cold/tier.js';
import type { ColdTierOptions } from './cold/tier-options.js';
import type { ColdTier } from './cold/types.js';
import { verifyStore, type VerifyReport } from './cold/verify.js';
import { HotStoreDamaged, type DurableStore } from './hot/durable.js';
import { openDurableStore } from './hot/durable-store.js';
import { createHotReader, type HotReader } from './hot/hot-reader.js';
import { BucketFences } from './log/bucket-fences.js';
import { FoldLoop } from './log/fold-loop.js';
import { Core } from './log/log-core.js';
import { Log } from './log/log.js';
import { Pressure } from './log/pressure.js';
import { StagingFiles } from './log/staging-files.js';
import { openObjects } from './objects.js';
import { UploadSweeps } from './upload-sweeps.js';

/** Longest wait for running seals at close, ms. */
const COLD_STOP_MS = 10_000;

export interface EngineDeps {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly now: () => number;
  /** How jobs of the cold tier run; in the process itself when left out. */
  readonly runner?: ColdTierOptions['runner'];
  readonly deliveries?: ColdTierOptions['deliveries'];
}

export interface Engine {
  readonly partitions: number;
  /** Table files of the hot store in which a checksum failed when it was opened. */
  readonly damagedFiles: () => readonly string[];
  readonly core: Core;
  readonly hot: HotReader;
  readonly cold: ColdTier;
  readonly log: Log;
  readonly pressure: Pressure;
  readonly frameDisk: FrameDisk | null;
  /** Checks everything stored while the node runs; `deep` reads every byte. */
  verify(deep: boolean, signal: AbortSignal): Promise<VerifyReport>;
  /** Deletes what nothing needs any more, unfinished uploads of killed processes included. */
  collect(signal: AbortSignal): Promise<Collected & { readonly uploads: number }>;
  close(): Promise<void>;
}

export async function openEngine(config: Config, deps: EngineDeps): Promise<Engine> {
  await mkdir(config.dataDir, { recursive: true });
  const dir = join(config.dataDir, 'hot');
  const ackedFile = join(config.dataDir, 'acked');
  const fresh = !existsSync(dir);
  const store = await openStore(dir, ackedFile, fresh, deps.logger);
  try {
    return await build(config, deps, store);
  } catch (error) {
    await store.close();
    // The `firn restore` that the refusal names wants a directory without a hot tier: an empty one made just now goes again.
    if (fresh && error instanceof StartRefused) for (const path of [dir, ackedFile]) await rm(path, { recursive: true, force: true });
    throw error;
  }
}

/** A hot tier that is gone while `acked` says that it held something is not made anew: that would hide the loss. */
async function openStore(dir: string, ackedFile: string, fresh: boolean, logger: Logger): Promise<DurableStore> {
  try {
    return await openDurableStore({ dir, ackedFile, logger });
  } catch (error) {
    if (!fresh || !(error instanceof HotStoreDamaged)) throw error;
    await rm(dir, { recursive: true, force: true });
    throw new StartRefused(`${dir} is not there, but ${ackedFile} says that writes were acknowledged in it: put it back, or rebuild it from the object store with \`firn restore\``);
  }
}

async function build(config: Config, deps: EngineDeps, store: DurableStore): Promise<Engine> {
  const { logger, metrics, now } = deps;
  const logged = config.cold !== 'none';
  // What the directory was made with counts, not what is set now.
  const partitions = (await readIdentity(store))?.partitions ?? config.partitions;
  const core = new Core({ store, partitions, logged, logger, metrics, now });
  await core.start();
  // The log itself knows what the journal holds.
  const hot = createHotReader(store);
  const staging = await StagingFiles.open(join(config.dataDir, 'staging'));
  const fences = await BucketFences.load(core.store);
  const pressure = new Pressure({ dir: config.dataDir, diskFreeMin: config.diskFreeMin, unsealedBytesMax: logged ? config.hotBytesMax : Infinity, unsealedBytes: () => unsealed(core, partitions), logger });
  await pressure.start();
  const objects = await openObjects(config, { logger, metrics });
  const frameDisk = await openFrameDisk(config, deps, pressure);
  const cold = objects === null
    ? await openNoCold({ core, partitions, staging, logger, metrics: coldMetrics(metrics), now })
    : await openColdTier({ config, core, objects, staging, frameDisk, freeBytes: () => pressure.freeBytes, logger, metrics, now, nonce: () => randomBytes(16).toString('hex'), runner: deps.runner, deliveries: deps.deliveries });
  const log = new Log({ core, hot, cold, fences, pressure, staging, snapshotBytesMax: config.snapshotBytesMax, logged, logger, metrics, now }, partitions);
  const folds = new FoldLoop(core, cold, now, logger);
  core.connect({
    onPartitionChanged: (partition) => cold.noteChange(partition),
    onAppended: (slot, incarnation, from, bytes) => folds.note(slot.key, incarnation, from, bytes),
  });
  await log.start();
  folds.start();
  const sweeps = objects === null ? null : new UploadSweeps({ objects, logger });
  const close = async (): Promise<void> => {
    pressure.stop();
    await folds.stop();
    await log.stop();
    await cold.stop(COLD_STOP_MS);
    await frameDisk?.close();
    await sweeps?.end();
    await core.close();
    await store.close();
    await objects?.close();
  };
  const verify = (deep: boolean, signal: AbortSignal): Promise<VerifyReport> => verifyStore({ store: core.store, objects, deep, signal, stagedBytes: (file) => staging.bytes(file) });
  const collect = async (signal: AbortSignal): Promise<Collected & { readonly uploads: number }> => ({ ...(await cold.collectNow(signal)), uploads: (await sweeps?.now()) ?? 0 });
  return { partitions, damagedFiles: () => store.damagedFiles, core, hot, cold, log, pressure, frameDisk, verify, collect, close };
}

/** Objects that lie on a disk of this machine are not copied to it again. */
function openFrameDisk({ cold, dataDir, cacheBytesMax, diskFreeMin }: Config, { logger, metrics, now }: EngineDeps, pressure: Pressure): Promise<FrameDisk | null> {
  return FrameDisk.open({
    dir: join(dataDir, 'cache'),
    bytesMax: cold === 's3' ? cacheBytesMax : 0,
    isShort: () => pressure.freeBytes < diskFreeMin * DISK_FREE_FACTOR,
    metrics: coldMetrics(metrics),
    logger,
    now,
  });
}

function unsealed(core: Core, partitions: number): number {
  let bytes = 0;
  for (let partition = 0; partition < partitions; partition++) bytes += core.unsealedBytes(partition);
  return bytes;
}
