/**
 * Removes the rows of deleted lives of streams, bit by bit (architecture section 5: large deletions are range-sliced).
 *
 * Owns: the rows `doomedRow`. Promises: only rows of the named incarnation go (I7); with a log, references go only once the log holds the delete, so what
 * they name cannot be collected before (I8); interrupted anywhere, it goes on after the next start.
 */
import type { ColdRef } from '../../../shared/storage/records/types.js';
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import { bodyRow, dataRow, dirtyRow, doomedRow, producerRow, refRow, snapshotRow, type KeyRange } from '../hot/keys/index.js';
import type { HotEntry, HotOp } from '../hot/store.js';
import type { LogCore } from '../log/core.js';
import { decodedOr, readOr } from './damage.js';
import { SLICE_ROWS_MAX } from './limits.js';
import { bytesOfCopy, type ObjectCounts } from './object-counts.js';

/** Doomed lives worked on in one step. */
const STEP_ROWS = 64;
/** Lives remembered whose bytes are gone and that only wait for the log. */
const EMPTIED_MAX = 65_536;
/** Damaged lives remembered as told; one beyond it is told in every round. */
const TOLD_MAX = 4_096;

export interface DoomedOptions {
  readonly core: LogCore;
  readonly partition: number;
  readonly slots: { readonly from: number; readonly to: number };
  /** null: there is no log and nothing cold. */
  readonly counts: ObjectCounts | null;
  readonly removeStaged: (file: string) => Promise<void>;
  /** Told once of each life of which something cannot be removed; no key: the row does not say. */
  readonly damaged: (key: StreamKey | null, error: Error) => void;
}

export class DoomedSweeper {
  readonly #options: DoomedOptions;
  /** Where the next step goes on: rows that wait for the log must not hold up the ones behind them. */
  #from: Buffer | null = null;
  readonly #emptied = new Set<Incarnation>();
  readonly #told = new Set<Incarnation>();

  constructor(options: DoomedOptions) {
    this.#options = options;
  }

  /** One bounded step; to be run on the partition's lane when there are counts. True: there may be more to do now. */
  async step(): Promise<boolean> {
    const { core, slots } = this.#options;
    const range = doomedRow.range(slots.from, slots.to);
    const rows: HotEntry[] = [];
    for await (const page of core.store.scan({ ...range, from: this.#from ?? range.from, limit: STEP_ROWS })) rows.push(...page);
    for (const row of rows) {
      // Damaged rows stay, and are tried again in the next round; the lives behind them go on.
      await readOr(() => this.#remove(row.key), (error) => this.#tell(row, error));
    }
    const last = rows.at(-1);
    const more = rows.length === STEP_ROWS && last !== undefined;
    this.#from = more ? Buffer.concat([last.key, Buffer.of(0)]) : null;
    return more;
  }

  #tell(row: HotEntry, error: Error): void {
    const { incarnation } = doomedRow.decodeKey(row.key);
    if (this.#told.has(incarnation)) return;
    if (this.#told.size < TOLD_MAX) this.#told.add(incarnation);
    this.#options.damaged(decodedOr(() => doomedRow.decode(row.value).key, () => undefined), error);
  }

  async #remove(row: Buffer): Promise<void> {
    const { core, partition, counts } = this.#options;
    const { slot, incarnation } = doomedRow.decodeKey(row);
    if (!this.#emptied.has(incarnation)) {
      await this.#removeRange(dataRow.range(slot, incarnation));
      await this.#removeRange(producerRow.range(slot, incarnation));
      await this.#removeRange(bodyRow.range(slot, incarnation));
    }
    if (counts !== null) {
      const logged = (await core.store.get(dirtyRow.key(partition, slot, incarnation))) === undefined;
      if (!logged) {
        if (this.#emptied.size < EMPTIED_MAX) this.#emptied.add(incarnation);
        return;
      }
      await this.#removeRefs(slot, incarnation, counts);
    }
    await this.#removeSnapshots(slot, incarnation, counts);
    await core.stageOps([{ type: 'del', key: row }]);
    this.#emptied.delete(incarnation);
  }

  async #removeRange(range: KeyRange): Promise<void> {
    const { core } = this.#options;
    for (;;) {
      const ops: HotOp[] = [];
      for await (const page of core.store.scan({ ...range, limit: SLICE_ROWS_MAX, values: false })) for (const { key } of page) ops.push({ type: 'del', key });
      if (ops.length > 0) await core.stageOps(ops);
      if (ops.length < SLICE_ROWS_MAX) return;
    }
  }

  async #removeRefs(slot: number, incarnation: Incarnation, counts: ObjectCounts): Promise<void> {
    const { core } = this.#options;
    for (;;) {
      const found: { readonly key: Buffer; readonly ref: ColdRef }[] = [];
      for await (const page of core.store.scan({ ...refRow.range(slot, incarnation), limit: SLICE_ROWS_MAX })) {
        for (const { key, value } of page) found.push({ key, ref: refRow.decode(value) });
      }
      counts.begin();
      await counts.prepare(found.map(({ ref }) => ref.object));
      const ops: HotOp[] = [];
      for (const { key, ref } of found) ops.push({ type: 'del', key }, ...counts.move(ref.object, -1, -ref.blockBytes));
      if (ops.length > 0) await core.stageOps(ops);
      if (found.length < SLICE_ROWS_MAX) return;
    }
  }

  /** Remembered snapshots of that life, the one that was visible at its end among them. */
  async #removeSnapshots(slot: number, incarnation: Incarnation, counts: ObjectCounts | null): Promise<void> {
    const { core } = this.#options;
    const ops: HotOp[] = [];
    const files: string[] = [];
    counts?.begin();
    for await (const page of core.store.scan(snapshotRow.range(slot, incarnation))) {
      for (const { key, value } of page) {
        const record = snapshotRow.decode(value);
        ops.push({ type: 'del', key });
        if (record.hot?.at === 'staging') files.push(record.hot.file);
        if (record.cold === null || counts === null) continue;
        await counts.prepare([record.cold.ref.object]);
        ops.push(...counts.move(record.cold.ref.object, -1, -bytesOfCopy(record.cold)));
      }
    }
    for (const file of files) await this.#options.removeStaged(file);
    if (ops.length > 0) await core.stageOps(ops);
  }
}
