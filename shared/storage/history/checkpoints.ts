/**
 * Checkpoints as they lie in the object store: which is the newest, what it holds.
 *
 * A checkpoint was whole when its manifest came into being, for that is written last. One that was damaged since is passed over and told: the one before it and the log behind that hold the same (I9).
 */
import { decodeCheckpointManifest, checkpointPartKeys, readCheckpointParts, type CheckpointItem, type CheckpointManifest } from '../checkpoint.js';
import { BadBytes } from '../codec.js';
import { crc32c } from '../crc.js';
import { checkpointKey, checkpointPrefix, parseCheckpointKey } from '../keys.js';
import { ObjectDamaged, ObjectMissing, type ObjectStore } from '../object-store.js';
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

/** Checkpoints looked at, the newest first: the log behind those before is gone with the first collection. */
const LOOKED_AT_MAX = 16;

export interface SoundSearch {
  readonly store: ObjectStore;
  readonly partition: number;
  /** `sums` reads every byte; `lengths` reads the manifests alone, and asks for the length of each part. */
  readonly look: 'sums' | 'lengths';
  /** Told of each one that is passed over. */
  readonly damaged?: (damage: DamagedCheckpoint) => void;
  readonly signal?: AbortSignal;
}

export interface DamagedCheckpoint {
  readonly at: LogPosition;
  readonly key: string;
  readonly why: string;
}

/** Checkpoints that are as they were written, the newest first. Throws `StoreUnavailable`: a store that does not answer is no damage. */
export async function* soundCheckpoints({ store, partition, look, damaged, signal }: SoundSearch): AsyncGenerator<CheckpointManifest> {
  const found: LogPosition[] = [];
  for await (const { key } of store.list(checkpointPrefix(partition))) {
    const position = parseCheckpointKey(key);
    if (position === null) continue;
    found.push({ session: position.session, seq: position.seq });
    if (found.length > LOOKED_AT_MAX) found.shift();
  }
  for (const at of found.reverse()) {
    signal?.throwIfAborted();
    let manifest: CheckpointManifest;
    try {
      manifest = await readManifest(store, partition, at);
      await checkParts(store, manifest, look, signal);
    } catch (error) {
      if (!(error instanceof BadBytes || error instanceof ObjectMissing || error instanceof ObjectDamaged)) throw error;
      damaged?.({ at, key: checkpointKey(partition, at.session, at.seq), why: error.message });
      continue;
    }
    yield manifest;
  }
}

/** The newest of them, null when there is none. */
export async function newestSound(search: SoundSearch): Promise<CheckpointManifest | null> {
  for await (const manifest of soundCheckpoints(search)) return manifest;
  return null;
}

async function checkParts(store: ObjectStore, manifest: CheckpointManifest, look: SoundSearch['look'], signal: AbortSignal | undefined): Promise<void> {
  const keys = checkpointPartKeys(manifest);
  for (const [n, part] of manifest.parts.entries()) {
    const key = keys[n] as string;
    if (look === 'lengths') {
      const bytes = await store.size(key);
      if (bytes === null) throw new ObjectMissing(key);
      if (bytes !== part.bytes) throw new ObjectDamaged(key, `has ${bytes} bytes instead of ${part.bytes}`);
      continue;
    }
    const body = await store.get(key, undefined, signal);
    if (body.length !== part.bytes || crc32c(body) !== part.crc) throw new ObjectDamaged(key, 'is not the part that the checkpoint names');
  }
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
