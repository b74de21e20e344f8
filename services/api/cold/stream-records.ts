/** Many stream records at once, without those that are damaged: their streams answer with an error, the others go on (R007, I9). */
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { streamRow } from '../hot/keys/index.js';
import type { HotReads } from '../hot/store.js';
import { isHotDamage } from './damage.js';

/** Records under rows of `streamRow`; missing ones are left out. `onDamage` hears of each that could not be read. */
export async function readStreamRecords(store: HotReads, keys: readonly Buffer[], onDamage: (key: Buffer, error: Error) => void): Promise<StreamRecord[]> {
  const records: StreamRecord[] = [];
  const take = (key: Buffer, read: () => Buffer | undefined): void => {
    try {
      const value = read();
      if (value !== undefined) records.push(streamRow.decode(value));
    } catch (error) {
      if (!isHotDamage(error)) throw error;
      onDamage(key, error);
    }
  };
  try {
    const values = await store.getMany(keys);
    for (const [index, key] of keys.entries()) take(key, () => values[index]);
  } catch (error) {
    if (!isHotDamage(error)) throw error;
    // One damaged row fails them all: asked one by one.
    records.length = 0;
    for (const key of keys) {
      const value = await store.get(key).catch((cause: unknown) => cause as Error);
      take(key, () => {
        if (value instanceof Error) throw value;
        return value;
      });
    }
  }
  return records;
}
