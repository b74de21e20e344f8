/**
 * Removes hot copies of sealed bytes when their time is up, or earlier when room is short (I3, architecture section 3).
 *
 * Owns: the rows `evictRow`. Promises: `hotStart` rises in the very batch that deletes a copy, so it never
 * names one that is gone; nothing above the frontier is touched; the oldest goes first; each step is bounded.
 */
import { advance, type Offset } from '../../../shared/protocol/types.js';
import type { SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { bodyRow, dataRow, evictRow, type Eviction } from '../hot/keys/index.js';
import type { HotEntry, HotOp } from '../hot/store.js';
import type { LogCore, StreamSlot } from '../log/core.js';
import { BODY_CHUNK_MAX } from '../hot/keys/body.js';
import type { ColdMetrics } from './cold-metrics.js';
import { isHotDamage } from './damage.js';
import { PARK_MAX_MS, SLICE_ROWS_MAX } from './limits.js';
import { sealedHotOf } from './sealed-hot.js';
import type { Steps } from './steps.js';
import { Lane } from './timing.js';

/** Rows of evictions looked at in one step. */
const STEP_ROWS = 256;

export interface EvictorOptions {
  readonly core: LogCore;
  readonly partition: number;
  readonly now: () => number;
  readonly metrics: ColdMetrics;
  readonly steps: Steps;
  /** Room is short: copies go before their time. Asked before each of them. */
  readonly pressed: () => boolean;
  readonly stop: AbortSignal;
  /** Removes the file of a large snapshot that has a cold copy. */
  readonly removeStaged: (file: string) => Promise<void>;
}

export class Evictor {
  readonly #options: EvictorOptions;
  readonly #lane = new Lane();

  constructor(options: EvictorOptions) {
    this.#options = options;
  }

  /** Evicts what is due now, all of it. */
  due(): Promise<void> {
    return this.#lane.run(async () => {
      while (!this.#options.stop.aborted && (await this.step()));
    });
  }

  /** Resolves when what was under way has ended. */
  idle(): Promise<void> {
    return this.#lane.idle();
  }

  /** One step over what is due, or over the oldest while room is short. True: there is more to do now. */
  async step(): Promise<boolean> {
    const { core, partition, now, pressed } = this.#options;
    const rows: HotEntry[] = [];
    const range = evictRow.range(partition, pressed() ? undefined : now() + 1);
    for await (const page of core.store.scan({ ...range, limit: STEP_ROWS })) rows.push(...page);
    const due = rows.filter(({ key }) => evictRow.decodeKey(key).dueMs <= now());
    // What is due goes together, into few batches; what is not due goes one by one, for each may be the last that has to.
    let done = (await Promise.all(due.map((row) => this.#evictRow(row)))).filter(Boolean).length;
    for (const row of rows.slice(due.length)) {
      if (!pressed()) return false;
      if (await this.#evictRow(row)) done++;
    }
    return rows.length === STEP_ROWS && done > 0;
  }

  /** A stream whose rows are damaged must not hold up the ones behind it: its turn comes again later. */
  async #evictRow({ key: row, value }: HotEntry): Promise<boolean> {
    const { core, partition, now } = this.#options;
    try {
      await this.#evict(row, evictRow.decode(value));
      return true;
    } catch (error) {
      if (!isHotDamage(error)) throw error;
      const { slot, incarnation } = evictRow.decodeKey(row);
      await core.stageOps([{ type: 'del', key: row }, { type: 'put', key: evictRow.key(partition, now() + PARK_MAX_MS, slot, incarnation), value }]);
      return false;
    }
  }

  async #evict(row: Buffer, due: Eviction): Promise<void> {
    const { core, steps, metrics } = this.#options;
    const { incarnation } = evictRow.decodeKey(row);
    const gone: HotOp = { type: 'del', key: row };
    await core.using(due.key, async (slot) => {
      for (;;) {
        const before = slot.pending;
        // A deleted life's rows go elsewhere, all of them.
        if (before === null || before.incarnation !== incarnation) return core.stageOps([gone]);
        const upTo = Math.min(due.upTo, before.sealed) as Offset;
        const keys = await this.#copiesUpTo(slot, before, upTo);
        const pending = slot.pending;
        if (pending === null || pending.incarnation !== incarnation) continue;
        const last = keys.at(-1);
        const more = keys.length === SLICE_ROWS_MAX;
        const ops: HotOp[] = keys.map((key) => ({ type: 'del', key }));
        if (!more) ops.push(gone);
        const hotStart = last === undefined ? pending.hotStart : (Math.max(pending.hotStart, dataRow.decodeKey(last).end) as Offset);
        const evicted = sealedHotOf(pending);
        const { snapshot, file } = more ? { snapshot: pending.snapshot, file: null } : evictSnapshot(slot, pending, ops);
        const next = { ...pending, hotStart, snapshot };
        await core.stage({ slot, next, ops, quiet: true });
        const bytes = evicted - sealedHotOf(next);
        metrics.evicted(bytes);
        if (file !== null) await this.#options.removeStaged(file);
        await steps('evict:slice');
        if (!more) return;
      }
    });
  }

  async #copiesUpTo(slot: StreamSlot, record: StreamRecord, upTo: Offset): Promise<Buffer[]> {
    const keys: Buffer[] = [];
    const range = dataRow.range(slot.slot, record.incarnation, 0, advance(upTo, 1));
    for await (const page of this.#options.core.store.scan({ ...range, limit: SLICE_ROWS_MAX, values: false })) for (const { key } of page) keys.push(key);
    return keys;
  }
}

/** The hot body of a snapshot goes when it has a cold copy: rows in this batch, a file after it. */
function evictSnapshot(slot: StreamSlot, record: StreamRecord, ops: HotOp[]): { readonly snapshot: SnapshotRecord | null; readonly file: string | null } {
  const { snapshot } = record;
  if (snapshot === null || snapshot.cold === null || snapshot.hot === null) return { snapshot, file: null };
  const evicted = { ...snapshot, hot: null };
  if (snapshot.hot.at === 'staging') return { snapshot: evicted, file: snapshot.hot.file };
  const rows = Math.ceil(snapshot.bytes / BODY_CHUNK_MAX);
  for (let n = 0; n < rows; n++) ops.push({ type: 'del', key: bodyRow.key(slot.slot, record.incarnation, snapshot.offset, n) });
  return { snapshot: evicted, file: null };
}
