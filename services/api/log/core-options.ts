/**
 * What the core of the log is given, and whom it tells.
 */
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import type { Logger } from '../../../shared/observability/logger.js';
import type { Metrics } from '../../../shared/observability/metrics.js';
import type { DurableStore } from '../hot/durable.js';
import type { Slot } from './slot.js';

export interface LogCoreOptions {
  readonly store: DurableStore;
  readonly partitions: number;
  /** There is a cold tier, so changes are marked dirty for the log. */
  readonly logged: boolean;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly now: () => number;
  /** ms of a clock that never steps back; `performance.now` unless a test moves it. */
  readonly monotonic?: () => number;
}

/** Who hears of a durable batch; set once, after everything is built. */
export interface CoreHooks {
  /** Once per partition that the batch changed. */
  readonly onPartitionChanged: (partition: number) => void;
  /** Once per stream that got rows of bytes: one value of `bytes` at `from`, or several. */
  readonly onAppended: (slot: Slot, incarnation: Incarnation, from: Offset, bytes: number) => void;
}
