/**
 * How many references of the hot store name each data object: what tells a later collection where to look.
 *
 * Owns: the rows `objectRow` of one partition. Promises: a count moves in the batch of the reference that it counts; one caller at a time (the
 * partition's lane). The counts are a hint: collection proves from the log what nothing names (I8).
 */
import type { ObjectId, ObjectInfo } from '../../../shared/storage/records/types.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { objectRow, type ObjectUse } from '../hot/keys/index.js';
import type { DurableStore } from '../hot/durable.js';
import type { HotOp } from '../hot/store.js';

export class ObjectCounts {
  /** Counts staged in the work at hand; the store is behind them. */
  readonly #uses = new Map<string, ObjectUse>();
  readonly #store: DurableStore;

  constructor(store: DurableStore) {
    this.#store = store;
  }

  /** Begins a piece of work: forgets what was staged before, all of which is durable or lost now. */
  begin(): void {
    this.#uses.clear();
  }

  /** Reads the counts that `move` will be asked about; unknown objects get a row of their own from `infos`. */
  async prepare(ids: readonly ObjectId[], infos: readonly ObjectInfo[] = []): Promise<void> {
    for (const info of infos) {
      if (!this.#uses.has(objectKey(info.id))) this.#take(info.id, (await this.#read(info.id)) ?? { bytes: info.bytes, crc: info.crc, refs: 0 });
    }
    for (const id of ids) {
      if (this.#uses.has(objectKey(id))) continue;
      const use = await this.#read(id);
      if (use !== undefined) this.#take(id, use);
    }
  }

  /** What was read, unless somebody else read it meanwhile: that count may have moved already. */
  #take(id: ObjectId, use: ObjectUse): void {
    const name = objectKey(id);
    if (!this.#uses.has(name)) this.#uses.set(name, use);
  }

  /** The row after `by` more references. An object without a row (its deletion came first) is left alone. */
  move(id: ObjectId, by: number): HotOp[] {
    const name = objectKey(id);
    const use = this.#uses.get(name);
    if (use === undefined) return [];
    const moved = { ...use, refs: Math.max(0, use.refs + by) };
    this.#uses.set(name, moved);
    return [{ type: 'put', key: objectRow.key(id), value: objectRow.encode(moved) }];
  }

  async #read(id: ObjectId): Promise<ObjectUse | undefined> {
    const value = await this.#store.get(objectRow.key(id));
    return value === undefined ? undefined : objectRow.decode(value);
  }
}
