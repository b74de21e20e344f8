/**
 * What the dirty rows say: unsealed bytes and ages of every partition, read anew when the store was opened.
 */
import type { Logger } from '../../../shared/observability/logger.js';
import { readStreamRecords } from '../cold/stream-records.js';
import type { Incarnation } from '../../../shared/protocol/types.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { dirtyRow, evictRow, streamRow } from '../hot/keys/index.js';
import type { HotEntry, HotReads } from '../hot/store.js';
import { PartitionLoad } from './partition-load.js';

export async function measureLoad(store: HotReads, partitions: number, logger: Logger): Promise<PartitionLoad> {
  const load = new PartitionLoad(partitions);
  const damaged = (key: Buffer, error: Error): void => logger.error({ err: error, event: 'damage', tier: 'hot', stream: streamRow.decodeKey(key).key }, 'the state of a stream is damaged');
  for (let partition = 0; partition < partitions; partition++) {
    for await (const page of store.scan(dirtyRow.range(partition))) {
      const keys: Buffer[] = [];
      for (const entry of page) {
        const mark = decoded(entry, dirtyRow.decode, logger);
        if (mark === null) continue;
        load.marked(partition, mark.sinceMs);
        if (!mark.deleted) keys.push(streamRow.key(dirtyRow.decodeKey(entry.key).slot, mark.key));
      }
      for (const record of await readStreamRecords(store, keys, damaged)) load.moved(partition, null, record);
    }
    await addEvictable(store, partition, load, logger);
  }
  return load;
}

/** Streams that wait for the eviction of sealed copies; those that are dirty too were counted with their marks. */
async function addEvictable(store: HotReads, partition: number, load: PartitionLoad, logger: Logger): Promise<void> {
  const seen = new Set<Incarnation>();
  const counted = new Set<Incarnation>();
  for await (const page of store.scan(evictRow.range(partition))) {
    const keys: Buffer[] = [];
    for (const row of page) {
      const { slot, incarnation } = evictRow.decodeKey(row.key);
      if (seen.has(incarnation)) continue;
      seen.add(incarnation);
      const due = decoded(row, evictRow.decode, logger);
      if (due !== null) keys.push(streamRow.key(slot, due.key));
    }
    for (const record of await readStreamRecords(store, keys, () => undefined)) {
      // Two lives of one key lead to the same record.
      if (counted.has(record.incarnation) || record.change !== record.loggedChange) continue;
      counted.add(record.incarnation);
      load.moved(partition, null, record);
    }
  }
}

/** null: the row is damaged. Its stream is counted by nobody, and the others are (I9, R123). */
function decoded<T>(row: HotEntry, decode: (value: Buffer) => T, logger: Logger): T | null {
  try {
    return decode(row.value);
  } catch (error) {
    if (!(error instanceof BadBytes)) throw error;
    logger.error({ err: error, event: 'damage', tier: 'hot', row: row.key.toString('hex') }, 'a row that says what is to be done for a stream is damaged');
    return null;
  }
}
