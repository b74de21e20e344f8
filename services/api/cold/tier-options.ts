/** What a cold tier is made of (`tier`). */
import type { Config } from '../../../shared/config/index.js';
import type { Logger } from '../../../shared/observability/logger.js';
import type { Metrics } from '../../../shared/observability/metrics.js';
import type { JobHandlers, JobRunner } from '../../../shared/queue/index.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import type { DeliverySide } from '../../worker/node-port.js';
import type { WebhookTargets } from '../../worker/webhooks/targets.js';
import type { LogCore } from '../log/core.js';
import type { FrameDisk } from './frame-disk.js';
import type { Steps } from './steps.js';

export interface ColdTierOptions {
  readonly config: Pick<Config, 'cold' | 'partitions' | 'dataDir' | 'sealBytes' | 'sealAgeMs' | 'hotKeepMs' | 'hotBytesMax' | 'diskFreeMin'>;
  readonly core: LogCore;
  readonly objects: ObjectStore;
  readonly staging: {
    read(file: string, from: number, length: number, signal?: AbortSignal): AsyncIterable<Buffer>;
    remove(file: string): Promise<void>;
  };
  /** Free bytes of the disk that holds the data directory, as seen last. */
  readonly freeBytes: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly now: () => number;
  /** 128 random bits in hex. */
  readonly nonce: () => string;
  /** Makes the runner of this node's jobs over the handlers, for the store whose id is known once there is one; in the process itself when left out. */
  readonly runner?: (handlers: JobHandlers, storeId: Promise<string>) => JobRunner;
  /** Deliveries of webhooks, whose jobs run with the others, and where they may go; none when left out. */
  readonly deliveries?: { readonly side: DeliverySide; readonly targets: WebhookTargets };
  readonly steps?: Steps;
  readonly frameCacheBytes?: number;
  readonly frameDisk?: FrameDisk | null;
  /** For tests: another grace of collections, ms. */
  readonly collectGraceMs?: number;
}
