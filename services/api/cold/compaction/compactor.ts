/**
 * Compaction of one partition: when a look at its references is due, and the plans that come of it (architecture section 6, I5).
 *
 * Owns: the passes. A pass looks at all references, remembers which streams there is work on, and runs one plan after the other over them in the order of their incarnations. Promises: one pass at a time; what is due is
 * found again after a restart, from the rows alone; a pass costs a stated share of the time; a stream that cannot be read waits and holds up nobody.
 */
import { slotRangeOf } from '../../../../shared/storage/slots.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import type { ObjectId } from '../../../../shared/storage/records/types.js';
import type { LogPosition } from '../../../../shared/storage/history/log-reader.js';
import { idlePause } from '../../../../shared/time/pause.js';
import type { Logger } from '../../../../shared/observability/logger.js';
import { objectRow, type ObjectUse } from '../../hot/keys/index.js';
import type { LogCore } from '../../log/core.js';
import type { ColdMetrics } from '../cold-metrics.js';
import {
  COMPACT_AGE_MS, COMPACT_FAN_IN, COMPACT_FOUND_MAX, COMPACT_GARBAGE_SHARE_MAX, COMPACT_NOW_GARBAGE_SHARE_MAX, COMPACT_OBJECT_BYTES_SMALL, COMPACT_OBJECT_BYTES_TINY, COMPACT_PASSES_MAX, COMPACT_RECORDS, COMPACT_REST_FACTOR, COMPACT_STREAMS_MAX, PLAN_RETRY_MAX_MS, STORE_RETRY_MS,
} from '../limits.js';
import { decodedOr } from '../damage.js';
import type { PartitionCold } from '../partition-cold.js';
import type { Steps } from '../steps.js';
import { Lane, orStopped, Stopped } from '../timing.js';
import type { ChooseOptions } from './choose-ranges.js';
import { collectContents, type CompactContents } from './contents.js';
import { findStreams } from './find-streams.js';

export interface CompactReport {
  /** Plans that were carried out. */
  readonly plans: number;
  /** Objects written. */
  readonly objects: number;
  /** Stored bytes. */
  readonly bytesRead: number;
  readonly bytesWritten: number;
  /** Streams of which something moved, counted once for each plan. */
  readonly streams: number;
  /** Sources that could not be put together: damaged, or changed meanwhile. */
  readonly leftOut: number;
}

export interface CompactorOptions {
  readonly core: LogCore;
  readonly partition: PartitionCold;
  readonly partitions: number;
  readonly now: () => number;
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
  readonly steps: Steps;
  readonly stop: AbortSignal;
}

type Count = { -readonly [K in keyof CompactReport]: number };

const NOTHING: ReadonlySet<string> = new Set();

export class Compactor {
  readonly #options: CompactorOptions;
  readonly #lane = new Lane();
  #running = false;
  /** Where the log stood at the last pass, with what it wrote itself; null: none yet. */
  #seen: LogPosition | null = null;
  #endedMs = 0;
  #restUntilMs = 0;

  constructor(options: CompactorOptions) {
    this.#options = options;
  }

  /** Begins a pass that is due. Cheap when none is. */
  tick(): void {
    if (this.#running || !this.#due) return;
    this.#running = true;
    this.#lane
      .run(() => this.#pass({ full: false, rewrite: true }, this.#options.stop))
      .catch((error: unknown) => this.#failed(error))
      .finally(() => (this.#running = false));
  }

  get #due(): boolean {
    const { partition, now, stop } = this.#options;
    if (stop.aborted || !partition.sealing || now() < this.#restUntilMs) return false;
    const { session, seq } = partition.session;
    if (this.#seen?.session !== session) return true;
    const records = seq - this.#seen.seq;
    return records >= COMPACT_RECORDS || (records > 0 && now() - this.#endedMs >= COMPACT_AGE_MS);
  }

  #failed(error: unknown): void {
    const { logger, partition, now, stop } = this.#options;
    this.#restUntilMs = now() + PLAN_RETRY_MAX_MS;
    if (!stop.aborted && !(error instanceof Stopped)) logger.warn({ err: error, event: 'compaction-failed', partition: partition.partition }, 'a look for what is to be compacted ended early');
  }

  /** Puts everything together that is in short pieces, and wins back what is garbage. Rejects with the signal's reason, or with why the partition takes no compactions. */
  runNow(signal: AbortSignal): Promise<CompactReport> {
    return this.#lane.run(async () => {
      const sum = noneYet();
      for (let n = 0; n < COMPACT_PASSES_MAX; n++) {
        signal.throwIfAborted();
        await this.#untilSealing(signal);
        // What is in pieces still after the first pass is put together; objects that could not be emptied are no reason to write others again.
        const done = await this.#pass({ full: true, rewrite: n === 0 }, signal);
        addUp(sum, done);
        if (done.plans === 0) break;
      }
      return sum;
    });
  }

  /** A partition that has no session yet, or lost it, may have one soon. Throws when it never will. */
  async #untilSealing(signal: AbortSignal): Promise<void> {
    const { partition } = this.#options;
    while (!partition.sealing) {
      const { refusal, state } = partition.session;
      if (state === 'fenced' || state === 'refused') throw refusal ?? new Error('the partition takes no compactions');
      if (partition.halted !== null) throw new Error(partition.halted);
      await idlePause(STORE_RETRY_MS, signal);
    }
  }

  idle(): Promise<void> {
    return this.#lane.idle();
  }

  async #pass({ full, rewrite }: { readonly full: boolean; readonly rewrite: boolean }, signal: AbortSignal): Promise<CompactReport> {
    const { core, partition, partitions, now } = this.#options;
    const startedMs = now();
    const { session, seq } = partition.session;
    const found = await this.#objectsToRewrite(full);
    const rewrites = rewrite ? found : NOTHING;
    const choose: ChooseOptions = { full, rewrites: (object) => rewrites.has(objectKey(object)) };
    const slots = slotRangeOf(partition.partition, partitions);
    const sum = noneYet();
    let lookedMs = 0;
    for (let from: number | null = slots.from; from !== null; ) {
      const beganMs = now();
      const { streams: unsorted, next } = await findStreams(core.store, { slots: { from, to: slots.to }, choose, snapshots: rewrites.size > 0, foundMax: COMPACT_FOUND_MAX, signal });
      lookedMs += now() - beganMs;
      from = next;
      const streams = unsorted.toSorted((a, b) => a.incarnation - b.incarnation);
      for (let at = 0; at < streams.length; ) {
        signal.throwIfAborted();
        const { contents, next: behind } = await collectContents(core, { found: streams, from: at, choose, isParked: (incarnation) => partition.compactParking.isParked(incarnation) });
        at = behind;
        if (contents.sources.length > 0) await this.#run(contents, sum, signal);
      }
    }
    this.#seen = { session, seq: seq + sum.plans };
    this.#endedMs = now();
    this.#restUntilMs = full ? 0 : startedMs + lookedMs * COMPACT_REST_FACTOR;
    return sum;
  }

  async #run(contents: CompactContents, sum: Count, signal: AbortSignal): Promise<void> {
    const { partition, steps, stop } = this.#options;
    const plan = partition.board.open({ kind: 'compact', contents });
    await steps('compact:planned');
    await partition.board.tick();
    const outcome = await orStopped(orStopped(plan.settled, signal), stop);
    if (outcome.kind === 'given-up') throw new Error(`a compaction was given up: ${outcome.why}`);
    addUp(sum, {
      plans: outcome.segments > 0 ? 1 : 0,
      objects: outcome.segments,
      bytesRead: outcome.stored?.read ?? 0,
      bytesWritten: outcome.stored?.written ?? 0,
      streams: outcome.streams,
      leftOut: outcome.dropped,
    });
  }

  /** Objects with too much garbage, and small ones of which there are many. */
  async #objectsToRewrite(full: boolean): Promise<ReadonlySet<string>> {
    const { core, partition, metrics, logger } = this.#options;
    const garbageMax = full ? COMPACT_NOW_GARBAGE_SHARE_MAX : COMPACT_GARBAGE_SHARE_MAX;
    const rewrite = new Set<string>();
    const small: string[] = [];
    const tiny: string[] = [];
    const use = { objects: 0, bytes: 0, garbageBytes: 0, references: 0 };
    for await (const page of core.store.scan(objectRow.range(partition.partition))) {
      for (const row of page) {
        const id: ObjectId = objectRow.decodeKey(row.key);
        const one = decodedOr(() => objectRow.decode(row.value), (error) => {
          metrics.damage('hot');
          logger.error({ err: error, event: 'object-row-damaged', object: objectKey(id) }, 'the row of an object is damaged: what lies in it is not put together');
        });
        if (one === null) continue;
        const garbage = garbageShare(one);
        use.objects++;
        use.bytes += one.bytes;
        use.garbageBytes += one.bytes * garbage;
        use.references += one.refs;
        if (one.refs === 0 || id.kind === 'snapshot') continue;
        const key = objectKey(id);
        if (garbage > garbageMax) rewrite.add(key);
        // Two of them would not go into one compaction: what came out would be as short as before, and be written anew for ever.
        else if (one.refs * 2 > COMPACT_STREAMS_MAX) continue;
        else if (one.bytes <= COMPACT_OBJECT_BYTES_TINY) tiny.push(key);
        else if (one.bytes <= COMPACT_OBJECT_BYTES_SMALL) small.push(key);
      }
    }
    metrics.coldUse(partition.partition, use);
    for (const tier of full ? [[...tiny, ...small]] : [tiny, small]) {
      if (tier.length >= (full ? 2 : COMPACT_FAN_IN)) for (const key of tier) rewrite.add(key);
    }
    return rewrite;
  }
}

/** Share of an object that nothing names any more. */
export function garbageShare({ refs, live, total }: ObjectUse): number {
  if (refs === 0) return 1;
  return total === 0 ? 0 : 1 - live / total;
}

function noneYet(): Count {
  return { plans: 0, objects: 0, bytesRead: 0, bytesWritten: 0, streams: 0, leftOut: 0 };
}

export function addUp(sum: Count, more: CompactReport): void {
  for (const name of Object.keys(sum) as (keyof Count)[]) sum[name] += more[name];
}
