/**
 * Checkpoints as they lie in the object store: which is the newest, what it holds.
 *
 * A checkpoint is whole when its manifest exists, for that is written last.
 */
import { decodeCheckpointManifest, checkpointPartKeys, readCheckpointParts, type CheckpointItem, type CheckpointManifest } from '../checkpoint.js';
import { checkpointKey, checkpointPrefix, parseCheckpointKey } from '../keys.js';
import { ObjectDamaged, type ObjectStore } from '../object-store.js';
import type { LogPosition } from './log-reader.js';

/** Where the newest checkpoint of a partition stands, null when there is none. */
export async function newestCheckpoint(store: ObjectStore, partition: number): Promise<LogPosition | null> {
  return (await newestCheckpoints(store, partition)).newest;
}

/** The newest two checkpoints, between which and behind which the log has to stay: what an older one holds can be rebuilt from nothing else, and is not needed (I8). */
export interface NewestCheckpoints {
  readonly newest: LogPosition | null;
  /** The one before it. */
  readonly older: LogPosition | null;
}

export async function newestCheckpoints(store: ObjectStore, partition: number): Promise<NewestCheckpoints> {
  let newest: LogPosition | null = null;
  let older: LogPosition | null = null;
  for await (const { key } of store.list(checkpointPrefix(partition))) {
    const position = parseCheckpointKey(key);
    if (position === null) continue;
    older = newest;
    newest = { session: position.session, seq: position.seq };
  }
  return { newest, older };
}

/** Throws `BadBytes`, `ObjectMissing`, `ObjectDamaged`. */
export async function readManifest(store: ObjectStore, partition: number, at: LogPosition): Promise<CheckpointManifest> {
  const key = checkpointKey(partition, at.session, at.seq);
  const manifest = decodeCheckpointManifest(await store.get(key));
  if (manifest.partition !== partition || manifest.session !== at.session || manifest.seq !== at.seq) throw new ObjectDamaged(key, 'is the manifest of another checkpoint');
  return manifest;
}

/** Items of a checkpoint, one part in memory at a time and the next one on its way; none for null. */
export function checkpointItems(store: ObjectStore, manifest: CheckpointManifest | null): AsyncIterable<CheckpointItem> {
  if (manifest === null) return nothing();
  const keys = checkpointPartKeys(manifest);
  let ahead: Promise<Buffer> | null = null;
  return readCheckpointParts(manifest.parts, async ({ part }) => {
    const body = await (ahead ?? store.get(keys[part] as string));
    const next = keys[part + 1];
    ahead = next === undefined ? null : store.get(next);
    // Thrown where that part is asked for.
    ahead?.catch(() => undefined);
    return body;
  });
}

async function* nothing(): AsyncGenerator<CheckpointItem> {}
