/**
 * What the dirty rows say: unsealed bytes and ages of every partition, read anew when the store was opened.
 */
import type { Logger } from '../../../shared/observability/logger.js';
import { readStreamRecords } from '../cold/stream-records.js';
import type { DurableStore } from '../hot/durable.js';
import { dirtyRow, streamRow } from '../hot/keys/index.js';
import { PartitionLoad } from './partition-load.js';

export async function measureLoad(store: DurableStore, partitions: number, logger: Logger): Promise<PartitionLoad> {
  const load = new PartitionLoad(partitions);
  const damaged = (key: Buffer, error: Error): void => logger.error({ err: error, event: 'damage', tier: 'hot', stream: streamRow.decodeKey(key).key }, 'the state of a stream is damaged');
  for (let partition = 0; partition < partitions; partition++) {
    for await (const page of store.scan(dirtyRow.range(partition))) {
      const keys: Buffer[] = [];
      for (const entry of page) {
        const mark = dirtyRow.decode(entry.value);
        load.marked(partition, mark.sinceMs);
        if (!mark.deleted) keys.push(streamRow.key(dirtyRow.decodeKey(entry.key).slot, mark.key));
      }
      for (const record of await readStreamRecords(store, keys, damaged)) load.moved(partition, null, record);
    }
  }
  return load;
}
