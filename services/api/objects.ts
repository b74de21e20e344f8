/** The object store that the settings name; null without a cold tier. */
import { join } from 'node:path';
import type { Config } from '../../shared/config/index.js';
import type { Logger, Metrics } from '../../shared/observability/index.js';
import { FsObjectStore } from '../../shared/storage/fs-store.js';
import { MeasuredStore, type StoreMeter } from '../../shared/storage/measured-store.js';
import type { ObjectStore } from '../../shared/storage/object-store.js';

export interface ObjectsDeps {
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'store'>;
}

/** Asks an S3 server nothing yet. Throws Error when the settings cannot lead to a store. */
export async function openObjects(config: Pick<Config, 'cold' | 's3' | 'dataDir'>, deps: ObjectsDeps): Promise<ObjectStore | null> {
  const meter = deps.metrics.store;
  switch (config.cold) {
    case 'none':
      return null;
    case 'fs':
      return new MeasuredStore(await FsObjectStore.open(join(config.dataDir, 'objects')), meter);
    case 's3':
      return new MeasuredStore(await openS3(config.s3, deps.logger, meter), meter);
  }
}

/** The SDK is loaded here and not before: a node without S3 starts faster and stays smaller. */
async function openS3(s3: Config['s3'], logger: Logger, meter: StoreMeter): Promise<ObjectStore> {
  if (s3 === null) throw new Error('FIRN_COLD is "s3", and no bucket is named');
  const { S3ObjectStore } = await import('../../shared/storage/s3-store/index.js');
  const onRetry = (why: string): void => {
    meter.retry();
    logger.debug({ event: 'store-retry', why }, 'a request to the object store is made again');
  };
  return S3ObjectStore.open(s3, { onRetry });
}
