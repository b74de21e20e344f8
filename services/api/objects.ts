/** The object store that the settings name; null without a cold tier. */
import { join } from 'node:path';
import type { Config } from '../../shared/config/index.js';
import type { Logger, Metrics } from '../../shared/observability/index.js';
import { FsObjectStore } from '../../shared/storage/fs-store.js';
import { MeasuredStore } from '../../shared/storage/measured-store.js';
import type { ObjectStore } from '../../shared/storage/object-store.js';
import { openS3 } from '../../shared/storage/open-s3.js';

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
      if (config.s3 === null) throw new Error('FIRN_COLD is "s3", and no bucket is named');
      return openS3(config.s3, deps.logger, meter);
  }
}
