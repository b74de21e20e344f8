/** The object store that the settings name; null without a cold tier. */
import { join } from 'node:path';
import type { Config } from '../../shared/config/index.js';
import { FsObjectStore } from '../../shared/storage/fs-store.js';
import type { ObjectStore } from '../../shared/storage/object-store.js';

export async function openObjects(config: Config): Promise<ObjectStore | null> {
  switch (config.cold) {
    case 'none':
      return null;
    case 'fs':
      return FsObjectStore.open(join(config.dataDir, 'objects'));
    case 's3':
      throw new Error('FIRN_COLD is "s3": this version has the cold tiers "fs" and "none"');
  }
}
