/**
 * Folding: small neighbouring values of a stream become larger ones, off the hot path (architecture section 5).
 *
 * Owns: when a stream is folded and how much in one step. Promises: one step at a time on the whole node, of bounded size; no fold
 * crosses the cold frontier or the end of an open plan; a step whose stream moved in the meantime is dropped. Losing the memory of what is small (a
 * restart) only costs speed.
 */
import type { Logger } from '../../../shared/observability/logger.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { FOLD_SMALL_BYTES, foldStep } from '../hot/fold.js';
import type { ColdTier } from '../cold/types.js';
import type { Core } from './log-core.js';
import type { Slot } from './slot.js';

/** Small values that make a quiet stream worth a fold, and bytes in small values that make any stream worth one. */
const FOLD_VALUES_MIN = 16;
const FOLD_BYTES_MIN = 256 * 1024;
/** A stream is quiet when nothing was appended for this long. */
const QUIET_MS = 2_000;
/** Streams remembered; beyond it the oldest is forgotten. */
const CANDIDATES_MAX = 10_000;

interface Candidate {
  readonly incarnation: number;
  /** Where the small values begin. */
  readonly from: Offset;
  values: number;
  bytes: number;
  lastMs: number;
}

export class FoldLoop {
  readonly #core: Core;
  readonly #cold: Pick<ColdTier, 'planEnd'>;
  readonly #now: () => number;
  readonly #logger: Logger;
  readonly #candidates = new Map<StreamKey, Candidate>();
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  #stopped = false;

  constructor(core: Core, cold: Pick<ColdTier, 'planEnd'>, now: () => number, logger: Logger) {
    this.#core = core;
    this.#cold = cold;
    this.#now = now;
    this.#logger = logger;
  }

  start(): void {
    this.#timer = setInterval(() => this.#tick(false), QUIET_MS);
    this.#timer.unref();
  }

  /** A batch made one value of `bytes` at `from`. Cheap: called for every stream of every batch. */
  note(key: StreamKey, incarnation: number, from: Offset, bytes: number): void {
    if (bytes >= FOLD_SMALL_BYTES) return;
    let seen = this.#candidates.get(key);
    if (seen === undefined || seen.incarnation !== incarnation) {
      seen = { incarnation, from, values: 0, bytes: 0, lastMs: 0 };
      this.#candidates.set(key, seen);
      if (this.#candidates.size > CANDIDATES_MAX) {
        const oldest = this.#candidates.keys().next().value;
        if (oldest !== undefined) this.#candidates.delete(oldest);
      }
    }
    seen.values++;
    seen.bytes += bytes;
    seen.lastMs = this.#now();
    if (seen.bytes >= FOLD_BYTES_MIN && this.#running === null) this.#tick(true);
  }

  #tick(urgentOnly: boolean): void {
    if (this.#running !== null || this.#stopped) return;
    this.#running = this.#round(urgentOnly)
      .catch((error: unknown) => {
        if (!this.#stopped && !this.#core.healing) this.#logger.warn({ err: error, event: 'fold-failed' }, 'small values could not be folded');
      })
      .finally(() => {
        this.#running = null;
      });
  }

  async #round(urgentOnly: boolean): Promise<void> {
    const quietBefore = this.#now() - QUIET_MS;
    for (const [key, seen] of this.#candidates) {
      if (this.#stopped) return;
      const urgent = seen.bytes >= FOLD_BYTES_MIN;
      if (!urgent && (urgentOnly || seen.lastMs > quietBefore)) continue;
      this.#candidates.delete(key);
      if (urgent || seen.values >= FOLD_VALUES_MIN) await this.#fold(key, seen.incarnation, seen.from);
    }
  }

  async #fold(key: StreamKey, incarnation: number, from: Offset): Promise<void> {
    let at: Offset | null = from;
    while (at !== null && !this.#stopped) at = await this.#core.using(key, (slot) => this.#step(slot, incarnation, at!));
  }

  /** One bounded step from `from` on; returns where to go on, null at the end. */
  async #step(slot: Slot, incarnation: number, from: Offset): Promise<Offset | null> {
    const record = slot.durable;
    if (record === null || record.incarnation !== incarnation) return null;
    const start = Math.max(from, record.hotStart) as Offset;
    const borders = this.#borders(slot, record);
    const step = await foldStep(this.#core.store, slot.slot, record.incarnation, start, record.tail, borders);
    const now = slot.pending;
    // Evicted, trimmed, sealed or planned meanwhile: asked in the very turn in which the change is staged.
    if (now === null || now.incarnation !== record.incarnation || now.hotStart > step.from) return null;
    const crossed = this.#borders(slot, now).some((border) => border > step.from && border < step.to && !borders.includes(border));
    if (crossed) return null;
    if (step.ops.length > 0) await this.#core.stage({ slot, next: now, ops: step.ops, quiet: true });
    return step.more ? step.to : null;
  }

  #borders(slot: Slot, record: StreamRecord): Offset[] {
    const planned = this.#cold.planEnd(slot.partition, record.incarnation);
    return planned === null ? [record.sealed, record.retained] : [record.sealed, record.retained, planned];
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#running;
  }
}
