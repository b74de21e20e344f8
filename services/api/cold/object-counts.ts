/**
 * How many references of the hot store name each data object, and how much of it: what tells compaction and collection where to look.
 *
 * Owns: the rows `objectRow` of one partition. Promises: a count moves in the batch of the reference that it counts; one caller at a time (the
 * partition's lane). The counts are a hint: compaction looks at every reference again, and collection proves from the log what nothing names (I8).
 */
import type { ObjectId, ObjectInfo, SnapshotRecord } from '../../../shared/storage/records/types.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { objectRow, type ObjectUse } from '../hot/keys/index.js';
import type { HotOp, HotReads } from '../hot/store.js';
import { readOr } from './damage.js';

export class ObjectCounts {
  /** Counts staged in the work at hand; the store is behind them. */
  readonly #uses = new Map<string, ObjectUse>();
  readonly #store: HotReads;

  constructor(store: HotReads) {
    this.#store = store;
  }

  /** Begins a piece of work: forgets what was staged before, all of which is durable or lost now. */
  begin(): void {
    this.#uses.clear();
  }

  /** Reads the counts that `move` will be asked about; unknown objects get a row of their own from `infos`. */
  async prepare(ids: readonly ObjectId[], infos: readonly ObjectInfo[] = []): Promise<void> {
    for (const info of infos) {
      if (this.#uses.has(objectKey(info.id))) continue;
      const use = await this.#read(info.id);
      if (use !== null) this.#take(info.id, use ?? { bytes: info.bytes, crc: info.crc, refs: 0, live: 0, total: 0 });
    }
    for (const id of ids) {
      if (this.#uses.has(objectKey(id))) continue;
      const use = await this.#read(id);
      if (use !== undefined && use !== null) this.#take(id, use);
    }
  }

  /** What was read, unless somebody else read it meanwhile: that count may have moved already. */
  #take(id: ObjectId, use: ObjectUse): void {
    const name = objectKey(id);
    if (!this.#uses.has(name)) this.#uses.set(name, use);
  }

  /** The row after `by` more references to `bytes` raw bytes more. An object without a row (its deletion came first), or with a damaged one, is left alone. */
  move(id: ObjectId, by: number, bytes: number): HotOp[] {
    this.shift(id, by, bytes);
    return this.rowsOf([id]);
  }

  /** The same without its row: for many references of few objects. */
  shift(id: ObjectId, by: number, bytes: number): void {
    const name = objectKey(id);
    const use = this.#uses.get(name);
    if (use === undefined) return;
    // What a row of an older version does not say cannot be counted on from there.
    const live = use.total === 0 && use.refs > 0 ? 0 : Math.max(0, use.live + bytes);
    this.#uses.set(name, { ...use, refs: Math.max(0, use.refs + by), live, total: Math.max(use.total, live) });
  }

  /** One row for each of the objects, as it is now. */
  rowsOf(ids: readonly ObjectId[]): HotOp[] {
    const rows = new Map<string, HotOp>();
    for (const id of ids) {
      const name = objectKey(id);
      const use = this.#uses.get(name);
      if (use !== undefined && !rows.has(name)) rows.set(name, { type: 'put', key: objectRow.key(id), value: objectRow.encode(use) });
    }
    return [...rows.values()];
  }

  /** null: the row is damaged, which collection and compaction tell. It stays as it is, so its object is never taken for unused. */
  #read(id: ObjectId): Promise<ObjectUse | undefined | null> {
    const read = async (): Promise<ObjectUse | undefined> => {
      const value = await this.#store.get(objectRow.key(id));
      return value === undefined ? undefined : objectRow.decode(value);
    };
    return readOr(read, () => undefined);
  }
}

/** Raw bytes of a cold copy of a snapshot. */
export function bytesOfCopy(cold: NonNullable<SnapshotRecord['cold']>): number {
  return cold.at === 'block' ? cold.ref.blockBytes : cold.ref.bytes;
}
