/**
 * What the client listener is given.
 */
import type { Config } from '../../../shared/config/index.js';
import type { Logger, Metrics } from '../../../shared/observability/index.js';
import type { StreamLog } from '../log/types.js';
import type { SubscriptionsApi } from '../subscriptions/types.js';

export type HttpConfig = Pick<Config, 'publicUrl' | 'cold' | 'requestBytesMax' | 'snapshotBytesMax' | 'corsOrigins'>;
export type HttpMetrics = Pick<Metrics, 'requests' | 'liveReaders' | 'liveReadersCut'>;

export interface HttpDeps {
  readonly log: StreamLog;
  readonly subscriptions: SubscriptionsApi;
  readonly config: HttpConfig;
  readonly logger: Logger;
  readonly metrics: HttpMetrics;
  /** Wall clock, ms. */
  readonly now: () => number;
  /** 0 <= value < 1, for jitter. */
  readonly random: () => number;
}
