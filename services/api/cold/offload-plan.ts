/**
 * Finds large snapshots that still lie in staging (architecture section 6).
 *
 * A stream stays dirty until the log holds its snapshot, so a walk of the dirty rows finds every one again after a restart (I5).
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { SnapshotRecord } from '../../../shared/storage/records/types.js';
import { dirtyRow } from '../hot/keys/index.js';
import type { HotEntry } from '../hot/store.js';
import type { LogCore } from '../log/core.js';
import type { BehindStreams } from './behind.js';
import { isHotDamage } from './damage.js';

export interface OffloadItem {
  readonly key: StreamKey;
  readonly slot: number;
  readonly incarnation: Incarnation;
  readonly snapshot: SnapshotRecord;
  /** In `staging/`. */
  readonly file: string;
}

export interface FoundOffload {
  /** null: there is none from here on. */
  readonly item: OffloadItem | null;
  /** Where the search goes on. */
  readonly next: Buffer | null;
  /** Rows and streams on the way that are damaged, or behind the log: they do not hold up the ones behind them (I9, R123). */
  readonly unreadable: number;
}

/** The next large snapshot without a cold copy whose stream's key begins with `prefix`, from a dirty row on. */
export async function findOffload(core: LogCore, partition: number, behind: BehindStreams, prefix: string, from: Buffer | null): Promise<FoundOffload> {
  const range = dirtyRow.range(partition);
  let unreadable = 0;
  for await (const page of core.store.scan({ ...range, from: from ?? range.from })) {
    for (const row of page) {
      const item = await offloadOf(core, behind, prefix, row);
      if (item === 'unreadable') unreadable++;
      else if (item !== null) return { item, next: Buffer.concat([row.key, Buffer.of(0)]), unreadable };
    }
  }
  return { item: null, next: null, unreadable };
}

async function offloadOf(core: LogCore, behind: BehindStreams, prefix: string, row: HotEntry): Promise<OffloadItem | 'unreadable' | null> {
  try {
    const { key, deleted } = dirtyRow.decode(row.value);
    const { slot, incarnation } = dirtyRow.decodeKey(row.key);
    if (deleted || !key.startsWith(prefix)) return null;
    if (behind.has(incarnation)) return 'unreadable';
    const snapshot = await core.using(key, (stream) => (stream.durable?.incarnation === incarnation ? stream.durable.snapshot : null));
    if (snapshot === null || snapshot.cold !== null || snapshot.hot?.at !== 'staging') return null;
    return { key, slot, incarnation, snapshot, file: snapshot.hot.file };
  } catch (error) {
    if (!isHotDamage(error)) throw error;
    return 'unreadable';
  }
}
