/**
 * The data objects that a restored partition names: their rows, and which of them the object store does not hold.
 *
 * Owns: the table of objects made of checkpoint and log. Promises: an object is as the log says or counts as missing (I9: what names it is restored all the same, and reading it is loud). Holds a few hundred bytes
 * for each object that the log names, nothing for a stream.
 */
import type { CheckpointManifest } from '../../../shared/storage/checkpoint.js';
import type { LogOverlay } from '../../../shared/storage/history/log-overlay.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey, objectPrefix } from '../../../shared/storage/records/object-id.js';
import type { ObjectId, ObjectInfo } from '../../../shared/storage/records/types.js';
import { objectRow } from '../hot/keys/index.js';
import type { RowWriter } from './row-writer.js';

const KINDS = ['segment', 'snapshot', 'merged'] as const;

export class RestoredObjects {
  readonly #table: ReadonlyMap<string, ObjectInfo>;
  readonly #missing: ReadonlySet<string>;
  readonly #uses = new Map<string, { refs: number; live: number }>();

  private constructor(table: ReadonlyMap<string, ObjectInfo>, missing: ReadonlySet<string>) {
    this.#table = table;
    this.#missing = missing;
  }

  /** Lists the partition's objects, once. */
  static async list(store: ObjectStore, partition: number, manifest: CheckpointManifest | null, overlay: LogOverlay): Promise<RestoredObjects> {
    const table = new Map<string, ObjectInfo>();
    for (const object of manifest?.objects ?? []) if (!overlay.collected.has(objectKey(object.id))) table.set(objectKey(object.id), object);
    for (const [key, object] of overlay.objects) table.set(key, object);
    const missing = new Set(table.keys());
    for (const kind of KINDS) {
      for await (const { key, bytes } of store.list(objectPrefix(partition, kind))) if (table.get(key)?.bytes === bytes) missing.delete(key);
    }
    return new RestoredObjects(table, missing);
  }

  get count(): number {
    return this.#table.size;
  }

  /** Counts a reference to so many raw bytes; false: what it names is not in the object store, or has another length. Throws for an object that no log record brought in. */
  use(id: ObjectId, bytes: number): boolean {
    const key = objectKey(id);
    if (!this.#table.has(key)) throw new Error(`a reference names ${key}, which no log record brought in`);
    const use = this.#uses.get(key) ?? { refs: 0, live: 0 };
    use.refs++;
    use.live += bytes;
    this.#uses.set(key, use);
    return !this.#missing.has(key);
  }

  async write(writer: RowWriter): Promise<void> {
    for (const [key, { id, bytes, crc }] of this.#table) {
      const { refs, live } = this.#uses.get(key) ?? { refs: 0, live: 0 };
      // What was named and is not any more cannot be told; frames are seldom longer than what is in them.
      await writer.put(objectRow.key(id), objectRow.encode({ bytes, crc, refs, live, total: Math.max(live, bytes) }));
    }
  }
}
