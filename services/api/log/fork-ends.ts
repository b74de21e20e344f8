/**
 * Lets go of the source of a fork that ended (FORK-26 .. FORK-28).
 *
 * Owns: the rows `unpinRow`. Promises: a source is counted down once for each fork, in the batch that deletes the row, so a crash anywhere leaves nothing behind and counts nothing twice; one that
 * was deleted and has no fork any more goes in that very batch, and so its own source in turn.
 */
import type { Logger } from '../../../shared/observability/logger.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { isHotDamage } from '../cold/damage.js';
import type { ColdTier } from '../cold/types.js';
import { unpinRow } from '../hot/keys/index.js';
import type { HotEntry, HotOp } from '../hot/store.js';
import type { Core } from './log-core.js';

/** Rows worked on together. */
const STEP_ROWS = 256;

export interface ForkEndsOptions {
  readonly core: Core;
  readonly cold: ColdTier;
  readonly logger: Logger;
}

export class ForkEnds {
  readonly #options: ForkEndsOptions;
  #running: Promise<void> | null = null;
  #again = false;

  constructor(options: ForkEndsOptions) {
    this.#options = options;
  }

  /** Resolves when every fork that had ended at the call is counted off, or when that failed: then the next call does it. Never rejects. */
  run(): Promise<void> {
    if (this.#running !== null) {
      this.#again = true;
      return this.#running;
    }
    this.#running = this.#all().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #all(): Promise<void> {
    const { core, logger } = this.#options;
    try {
      do {
        this.#again = false;
        while (await this.#pass()) this.#again = true;
      } while (this.#again);
    } catch (error) {
      if (!core.healing) logger.warn({ err: error, event: 'fork-ends-failed' }, 'the source of a fork that ended could not be let go now; it will be tried again');
    }
  }

  /** Looks at every row once: one that has to stay holds up none behind it. True: something was done, which may have ended forks in turn. */
  async #pass(): Promise<boolean> {
    const range = unpinRow.range();
    let done = false;
    for (let from: Buffer | null = range.from; from !== null; ) {
      const rows: HotEntry[] = [];
      for await (const page of this.#options.core.store.scan({ ...range, from, limit: STEP_ROWS })) rows.push(...page);
      const settled = await Promise.all(rows.map((row) => this.#settleAlone(row)));
      if (settled.includes(true)) done = true;
      from = rows.length < STEP_ROWS ? null : Buffer.concat([rows.at(-1)!.key, Buffer.of(0)]);
    }
    return done;
  }

  /** A source that cannot be read must not keep the others alive (R123). */
  async #settleAlone(row: HotEntry): Promise<boolean> {
    try {
      return await this.#settle(row);
    } catch (error) {
      if (!isHotDamage(error)) throw error;
      this.#options.logger.error({ err: error, event: 'damage', tier: 'hot', row: row.key.toString('hex') }, 'the source of a fork that ended cannot be let go: it is damaged');
      return false;
    }
  }

  async #settle({ key: row, value }: HotEntry): Promise<boolean> {
    const { core, cold } = this.#options;
    const { source } = unpinRow.decodeKey(row);
    const gone: HotOp = { type: 'del', key: row };
    return core.using(unpinRow.decode(value).key, async (slot) => {
      // A node that lost the partition changes nothing of it: its new owner does.
      if (cold.refusal(slot.partition) !== null) return false;
      // The state is read in the turn in which the change is staged, so the ends of many forks of one source add up.
      const record = slot.pending;
      if (record === null || record.incarnation !== source) await core.stageOps([gone]);
      else await core.stage({ slot, next: released(record), ops: [gone, ...(record.forks === 1 && record.retained > 0 ? cold.retainOps(slot, record) : [])] });
      return true;
    });
  }
}

/** The source with one fork less; null: it was deleted, and this was the last. Damaged counts never go below zero. */
function released(record: StreamRecord): StreamRecord | null {
  const forks = Math.max(0, record.forks - 1);
  return record.softDeleted && forks === 0 ? null : { ...record, forks };
}
