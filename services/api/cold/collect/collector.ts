/**
 * When a node collects, and everything that one collection takes: checkpoints that cover what was dropped, the wait for the grace, the runs (architecture section 6, I5, I8).
 *
 * Owns: what is known of the garbage of each partition. Promises: due work is found by the node's own timer; one collection of a partition at a time; when nothing is garbage nothing
 * is written; a collection that was asked for ends when all that could go has gone, or after `COLLECT_PASSES_MAX` passes.
 */
import type { Logger } from '../../../../shared/observability/logger.js';
import { StoreUnavailable } from '../../../../shared/storage/object-store.js';
import { idlePause } from '../../../../shared/time/pause.js';
import type { CheckpointReport, CollectReport } from '../../../worker/node-port.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import { objectRow } from '../../hot/keys/index.js';
import type { HotReads } from '../../hot/store.js';
import { COLLECT_AGAIN_MS, COLLECT_AGE_MS, COLLECT_FIRST_MS, COLLECT_GARBAGE_BYTES, COLLECT_LIST_MS, COLLECT_PASSES_MAX, GARBAGE_LOOK_MS } from '../limits.js';
import { checkpointFurtherOn, checkpointOf } from '../checkpoint-now.js';
import type { ColdMetrics } from '../cold-metrics.js';
import { decodedOr } from '../damage.js';
import type { PartitionCold } from '../partition-cold.js';
import type { PartitionRuns } from '../partition-runs.js';
import { Lane, orStopped, Stopped } from '../timing.js';

/** Longest step of the wait for a grace, ms: the clock is looked at that often. */
const WAIT_STEP_MS = 250;
/** Unknown names in one answer. */
const UNKNOWN_LISTED_MAX = 100;

/** What `POST /__firn/collect` answers: sums over all partitions. */
export interface Collected {
  /** Data objects that the log had named, and their bytes together with those of the orphans. */
  objects: number;
  bytes: number;
  orphans: number;
  checkpoints: number;
  logs: number;
  /** Names that nobody knows, kept. */
  unknown: number;
  unknownObjects: string[];
  /** What may go later: held by readers, or not covered by two checkpoints. */
  waiting: number;
  waitingBytes: number;
  pinned: number;
}

/** What is known of a partition's garbage. */
export interface Garbage {
  /** Bytes of objects that nothing names any more, as of the last look. */
  readonly bytes: number;
  /** Names that nobody knows, as of the last collection. */
  readonly unknown: number;
}

interface State {
  readonly partition: PartitionCold;
  readonly lane: Lane;
  busy: boolean;
  lookMs: number;
  listMs: number;
  /** Nothing is due before: a collection has just left something behind, which readers hold or which is not proven. */
  quietMs: number;
  bytes: number;
  sinceMs: number | null;
  unknown: number;
}

export interface CollectorOptions {
  readonly partitions: readonly PartitionCold[];
  readonly hot: HotReads;
  readonly checkpoints: PartitionRuns<CheckpointReport>;
  readonly runs: PartitionRuns<CollectReport>;
  readonly now: () => number;
  readonly metrics: ColdMetrics;
  readonly logger: Logger;
  readonly stop: AbortSignal;
}

export class Collector {
  readonly #options: CollectorOptions;
  readonly #states: readonly State[];

  constructor(options: CollectorOptions) {
    this.#options = options;
    const now = options.now();
    this.#states = options.partitions.map((partition) => ({ partition, lane: new Lane(), busy: false, lookMs: now + GARBAGE_LOOK_MS, listMs: now + COLLECT_FIRST_MS, quietMs: now, bytes: 0, sinceMs: null, unknown: 0 }));
  }

  garbage(partition: number): Garbage {
    const { bytes = 0, unknown = 0 } = this.#states[partition] ?? {};
    return { bytes, unknown };
  }

  /** Looks for garbage from time to time, and begins what is due. */
  tick(): void {
    const { now, logger, stop } = this.#options;
    for (const state of this.#states) {
      // A clock that was set back does not put a look off.
      state.lookMs = Math.min(state.lookMs, now() + GARBAGE_LOOK_MS);
      if (state.busy || now() < state.lookMs || !state.partition.sealing) continue;
      state.busy = true;
      state.lookMs = now() + GARBAGE_LOOK_MS;
      this.#look(state)
        .catch((error: unknown) => {
          if (error instanceof Stopped || error instanceof StoreUnavailable || stop.aborted) return;
          logger.warn({ err: error, event: 'collect-failed', partition: state.partition.partition }, 'a collection failed; what is left is found by a later one');
        })
        .finally(() => (state.busy = false));
    }
  }

  async #look(state: State): Promise<void> {
    const { now, stop } = this.#options;
    await this.#weigh(state);
    state.listMs = Math.min(state.listMs, now() + COLLECT_LIST_MS);
    state.quietMs = Math.min(state.quietMs, now() + COLLECT_AGAIN_MS);
    const aged = state.sinceMs !== null && now() - state.sinceMs >= COLLECT_AGE_MS;
    if (now() < state.quietMs || (state.bytes < COLLECT_GARBAGE_BYTES && !aged && now() < state.listMs)) return;
    await state.lane.run(() => this.#partition(state, state.bytes > 0, stop));
    state.listMs = now() + COLLECT_LIST_MS;
    state.quietMs = now() + COLLECT_AGAIN_MS;
  }

  /** Collects all partitions now, and waits until what could go has gone. */
  async runAll(signal: AbortSignal): Promise<Collected> {
    const sum: Collected = { objects: 0, bytes: 0, orphans: 0, checkpoints: 0, logs: 0, unknown: 0, unknownObjects: [], waiting: 0, waitingBytes: 0, pinned: 0 };
    // Each waits for the same grace, so together.
    for (const report of await Promise.all(this.#states.map((state) => orStopped(state.lane.run(() => this.#partition(state, true, signal)), signal)))) {
      sum.objects += report.objects;
      sum.bytes += report.bytes;
      sum.orphans += report.orphans;
      sum.checkpoints += report.checkpoints;
      sum.logs += report.logs;
      sum.unknown += report.unknown;
      sum.unknownObjects.push(...report.unknownKeys.slice(0, UNKNOWN_LISTED_MAX - sum.unknownObjects.length));
      sum.waiting += report.waiting;
      sum.waitingBytes += report.waitingBytes;
      sum.pinned += report.pinned;
    }
    return sum;
  }

  /** `cover`: makes the checkpoints that what was dropped needs. */
  async #partition(state: State, cover: boolean, signal: AbortSignal): Promise<CollectReport> {
    const { checkpoints, runs } = this.#options;
    const { partition } = state;
    // References of deleted streams go bit by bit: what they hold up goes with this collection still.
    while (await partition.cleanUp()) signal.throwIfAborted();
    if (cover) await checkpointOf(partition, checkpoints, signal);
    let sum: CollectReport | null = null;
    let covered = false;
    for (let pass = 0; pass < COLLECT_PASSES_MAX; pass++) {
      const report = await runs.run(partition, signal);
      sum = sum === null ? report : added(sum, report);
      if (cover && !covered && report.uncovered > 0) {
        await checkpointFurtherOn(partition, checkpoints, signal);
        covered = true;
      } else if (report.retryMs !== null) {
        await this.#waitFor(report.retryMs, signal);
      } else {
        break;
      }
    }
    if (sum === null) throw new Error('a collection without a pass');
    await this.#weigh(state);
    this.#report(state, sum);
    return sum;
  }

  #report(state: State, sum: CollectReport): void {
    const { logger } = this.#options;
    const { partition, objects, orphans, bytes, checkpoints, logs, unknown, unknownKeys } = sum;
    if (unknown > 0 && unknown !== state.unknown) logger.warn({ event: 'unknown-objects', partition, unknown, first: unknownKeys.slice(0, 10) }, 'the object store holds names that nobody knows: they are kept');
    state.unknown = unknown;
    if (objects + orphans + checkpoints + logs > 0) logger.info({ event: 'collected', partition, objects, orphans, bytes, checkpoints, logs }, 'objects that nothing needs any more were deleted');
  }

  /** Ends early when the clock was set back: the next pass says how long to wait then. */
  async #waitFor(ms: number, signal: AbortSignal): Promise<void> {
    const { now } = this.#options;
    const from = now();
    for (let passed = 0; passed >= 0 && passed < ms; passed = now() - from) await idlePause(Math.min(ms - passed, WAIT_STEP_MS), signal);
  }

  /** Whether anything names the object cannot be told any more: it stays. */
  #damaged(object: string, error: Error): void {
    const { metrics, logger } = this.#options;
    metrics.damage('hot');
    logger.error({ err: error, event: 'object-row-damaged', object }, 'the row of an object is damaged: the object is kept');
  }

  /** Adds up what nothing names. */
  async #weigh(state: State): Promise<void> {
    let bytes = 0;
    for await (const page of this.#options.hot.scan(objectRow.range(state.partition.partition))) {
      for (const { key, value } of page) {
        const use = decodedOr(() => objectRow.decode(value), (error) => this.#damaged(objectKey(objectRow.decodeKey(key)), error));
        if (use?.refs === 0) bytes += use.bytes;
      }
    }
    state.bytes = bytes;
    state.sinceMs = bytes === 0 ? null : (state.sinceMs ?? this.#options.now());
  }
}

/** What went, added up; what is there still, as the later one says. */
function added(a: CollectReport, b: CollectReport): CollectReport {
  return { ...b, objects: a.objects + b.objects, orphans: a.orphans + b.orphans, bytes: a.bytes + b.bytes, checkpoints: a.checkpoints + b.checkpoints, logs: a.logs + b.logs };
}
