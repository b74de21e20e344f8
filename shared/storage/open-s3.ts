/**
 * An S3 store whose calls are counted, as nodes and workers use it.
 *
 * Owns: what becomes of a repeated request: a count, and a line for who looks closely. The SDK is loaded at the call and not before: a process without S3 starts faster and stays smaller.
 */
import type { Logger } from '../observability/logger.js';
import { MeasuredStore, type StoreMeter } from './measured-store.js';
import type { S3StoreOptions } from './s3-store/index.js';

/** Asks the server nothing yet. Throws Error when the settings cannot lead to a store. */
export async function openS3(s3: S3StoreOptions, logger: Logger, meter: StoreMeter): Promise<MeasuredStore> {
  const { S3ObjectStore } = await import('./s3-store/index.js');
  const onRetry = (why: string): void => {
    meter.retry();
    logger.debug({ event: 'store-retry', why }, 'a request to the object store is made again');
  };
  return new MeasuredStore(await S3ObjectStore.open(s3, { onRetry, onHedge: () => meter.hedge() }), meter);
}
