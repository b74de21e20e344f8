/**
 * Frees space without a cold tier: values below a retention boundary, rows of deleted streams (architecture section 6, `FIRN_COLD=none`).
 *
 * Owns: the regular walk over the rows that name such work. Promises: only what is durably unreachable goes; interrupted anywhere, it goes on after a restart.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Offset } from '../../../shared/protocol/types.js';
import { slotRangeOf } from '../../../shared/storage/slots.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { evictRow } from '../hot/keys/index.js';
import { StoreClosed, type HotEntry, type HotOp } from '../hot/store.js';
import type { LogCore } from '../log/core.js';
import { trimHot } from './apply.js';
import type { ColdMetrics } from './cold-metrics.js';
import { isHotDamage } from './damage.js';
import { damageTold } from './damage-told.js';
import { DoomedSweeper } from './doomed.js';
import { DUE_SCAN_MS, PARK_MAX_MS } from './limits.js';

/** Rows looked at together. */
const STEP_ROWS = 64;

export interface SpaceKeeperOptions {
  readonly core: LogCore;
  readonly staging: { remove(file: string): Promise<void> };
  readonly logger: Logger;
  readonly metrics: Pick<ColdMetrics, 'damage'>;
  readonly now: () => number;
}

export class SpaceKeeper {
  readonly #options: SpaceKeeperOptions;
  readonly #doomed: readonly DoomedSweeper[];
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  #stopped = false;

  constructor(options: SpaceKeeperOptions, partitions: number) {
    this.#options = options;
    const removeStaged = (file: string): Promise<void> => options.staging.remove(file);
    this.#doomed = Array.from({ length: partitions }, (_, partition) => new DoomedSweeper({ core: options.core, partition, slots: slotRangeOf(partition, partitions), counts: null, removeStaged, damaged: damageTold(partition, options.logger, options.metrics).doomed }));
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#running ??= this.run()
        .catch((error: unknown) => {
          const passing = this.#stopped || error instanceof StoreClosed || (error instanceof FirnError && error.status === 503);
          if (!passing) this.#options.logger.error({ err: error, event: 'space-failed' }, 'space could not be freed; it will be tried again');
        })
        .finally(() => {
          this.#running = null;
        });
    }, DUE_SCAN_MS);
    this.#timer.unref();
  }

  /** Frees all that can be freed now. */
  async run(): Promise<void> {
    for (const [partition, doomed] of this.#doomed.entries()) {
      while (!this.#stopped && (await this.#trimStep(partition)));
      while (!this.#stopped && (await doomed.step()));
    }
  }

  async #trimStep(partition: number): Promise<boolean> {
    const { core, now } = this.#options;
    const rows: HotEntry[] = [];
    for await (const page of core.store.scan({ ...evictRow.range(partition, now() + 1), limit: STEP_ROWS })) rows.push(...page);
    for (const row of rows) await this.#trimRow(partition, row);
    return rows.length === STEP_ROWS;
  }

  /** A stream whose rows are damaged must not hold up the ones behind it: its turn comes again later (I9, R123). */
  async #trimRow(partition: number, row: HotEntry): Promise<void> {
    const { core, now, logger, metrics } = this.#options;
    const { slot: of, incarnation } = evictRow.decodeKey(row.key);
    const ops: HotOp[] = [{ type: 'del', key: row.key }];
    try {
      const { key, upTo } = evictRow.decode(row.value);
      await core.using(key, async (slot) => {
        const durable = slot.durable;
        if (durable !== null && durable.incarnation === incarnation && durable.forks === 0) await trimHot(core, slot, durable, Math.min(upTo, durable.retained) as Offset);
      });
    } catch (error) {
      if (!isHotDamage(error)) throw error;
      metrics.damage('hot');
      logger.error({ err: error, event: 'damage', tier: 'hot', incarnation: String(incarnation) }, 'space of a damaged stream cannot be freed now');
      ops.push({ type: 'put', key: evictRow.key(partition, now() + PARK_MAX_MS, of, incarnation), value: row.value });
    }
    await core.stageOps(ops);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#running;
  }
}
