/**
 * Finds large snapshots that still lie in staging (design section 6).
 *
 * A stream stays dirty until the log holds its snapshot, so a walk of the dirty rows finds every one again after a restart (I5).
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { SnapshotRecord } from '../../../shared/storage/records/types.js';
import { dirtyRow } from '../hot/keys/index.js';
import type { LogCore } from '../log/core.js';

export interface OffloadItem {
  readonly key: StreamKey;
  readonly slot: number;
  readonly incarnation: Incarnation;
  readonly snapshot: SnapshotRecord;
  /** In `staging/`. */
  readonly file: string;
}

export interface FoundOffload {
  readonly item: OffloadItem;
  /** Where the search goes on. */
  readonly next: Buffer;
}

/** The next large snapshot without a cold copy whose stream's key begins with `prefix`, from a dirty row on. */
export async function findOffload(core: LogCore, partition: number, prefix: string, from: Buffer | null): Promise<FoundOffload | null> {
  const range = dirtyRow.range(partition);
  for await (const page of core.store.scan({ ...range, from: from ?? range.from })) {
    for (const row of page) {
      const { key, deleted } = dirtyRow.decode(row.value);
      const { slot, incarnation } = dirtyRow.decodeKey(row.key);
      if (deleted || !key.startsWith(prefix)) continue;
      const snapshot = await core.using(key, (stream) => (stream.durable?.incarnation === incarnation ? stream.durable.snapshot : null));
      if (snapshot === null || snapshot.cold !== null || snapshot.hot?.at !== 'staging') continue;
      return { item: { key, slot, incarnation, snapshot, file: snapshot.hot.file }, next: Buffer.concat([row.key, Buffer.of(0)]) };
    }
  }
  return null;
}
