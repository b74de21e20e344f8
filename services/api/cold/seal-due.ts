/**
 * When the next seal of a partition is due, and what the last ones left behind (architecture section 6, I5).
 *
 * Owns: the hints between two passes over what is dirty. Promises: whatever a pass did not take, for whatever reason, makes another one due, at once or at a
 * stated time; bytes that a pass could not take (parked, damaged) do not make the next one due by their number, so they cost no PUTs; after a pass that
 * failed the next one waits. A backlog of more than a plan holds, as a store leaves it that was away for long, is taken from its oldest changes on.
 */
import type { LogCore } from '../log/core.js';
import { BACKLOG_BANDS_MAX, PLAN_BYTES_MAX, PLAN_RETRY_MS } from './limits.js';

export interface SealDueOptions {
  readonly core: Pick<LogCore, 'unsealedBytes' | 'dirtySinceMs' | 'noteCut'>;
  /** Since when the oldest change that is not one of streams waits, ms; null: none does. */
  readonly alsoSinceMs: () => number | null;
  readonly partition: number;
  readonly sealBytes: number;
  readonly sealAgeMs: number;
  readonly now: () => number;
}

/** What a pass over everything dirty came to. */
export interface PassEnd {
  /** Every dirty row was looked at. */
  readonly whole: boolean;
  /** Logical bytes that got a cold copy. */
  readonly sealedBytes: number;
  /** When streams that were left out are looked at again; null: none were. */
  readonly retryMs: number | null;
}

export class SealDue {
  readonly #options: SealDueOptions;
  #more = false;
  #retryMs: number | null = null;
  #cutMs = 0;
  /** Since when the oldest of what passes took and have not sealed yet was dirty. */
  #heldSinceMs: number | null = null;
  #cutBytes = 0;
  /** Unsealed bytes that the last whole pass could not take. */
  #leftBytes = 0;
  #notBeforeMs = 0;
  /** What the pass under way takes at most; null: everything. */
  #upToMs: number | null = null;
  /** The last band brought nothing: what there is lies in younger ones, and is not looked for step by step. */
  #barren = false;

  constructor(options: SealDueOptions) {
    this.#options = options;
  }

  /** Something waits that no count and no mark tells of. */
  again(): void {
    this.#more = true;
  }

  get now(): boolean {
    const { core, partition, sealBytes, sealAgeMs, now, alsoSinceMs } = this.#options;
    const at = now();
    if (at < this.#notBeforeMs) return false;
    if (this.#more || core.unsealedBytes(partition) - this.#leftBytes >= sealBytes) return true;
    if (this.#retryMs !== null && at >= this.#retryMs) return true;
    const since = older(core.dirtySinceMs(partition), alsoSinceMs());
    return since !== null && at - Math.max(since, this.#cutMs) >= sealAgeMs;
  }

  /** The last pass took the oldest of a backlog only. */
  get isPartial(): boolean {
    return this.#upToMs !== null;
  }

  /** Since when the oldest change waits for its seal, in a pass under way or for the next one; null: none does. */
  get sinceMs(): number | null {
    const { core, partition, alsoSinceMs } = this.#options;
    return older(this.#heldSinceMs, older(core.dirtySinceMs(partition), alsoSinceMs()));
  }

  /**
   * A pass over everything dirty begins, now: what is marked from this moment on counts for the next one, and the pass may find it or not. Answers up to which mark it takes streams, ms; null: all.
   * `oldestFirst`: a backlog is cut by age into bands, the oldest of which the pass takes.
   */
  begin(oldestFirst: boolean): number | null {
    const { core, partition, now } = this.#options;
    this.#upToMs = oldestFirst ? this.#bandEndMs() : null;
    this.#more = false;
    this.#retryMs = null;
    this.#cutMs = now();
    this.#heldSinceMs = this.sinceMs;
    this.#cutBytes = core.unsealedBytes(partition);
    core.noteCut(partition, this.#cutMs);
    return this.#upToMs;
  }

  #bandEndMs(): number | null {
    const { core, partition, now } = this.#options;
    if (this.#barren) return null;
    const [since, at] = [this.sinceMs, now()];
    const bands = Math.min(BACKLOG_BANDS_MAX, Math.ceil((core.unsealedBytes(partition) - this.#leftBytes) / PLAN_BYTES_MAX));
    return since === null || since >= at || bands < 2 ? null : Math.floor(since + (at - since) / bands);
  }

  end({ whole, sealedBytes, retryMs }: PassEnd): void {
    const { core, partition } = this.#options;
    this.#retryMs = retryMs;
    this.#barren = this.#upToMs !== null && sealedBytes === 0;
    if (!whole || this.#upToMs !== null) {
      this.#more = true;
      if (whole) this.#heldSinceMs = this.#upToMs;
      return;
    }
    this.#heldSinceMs = null;
    this.#leftBytes = Math.max(0, Math.min(this.#cutBytes - sealedBytes, core.unsealedBytes(partition)));
  }

  /** The pass failed, wherever: what it held is dirty still, and nothing else would tell of it. */
  failed(): void {
    this.#more = true;
    this.#notBeforeMs = this.#options.now() + PLAN_RETRY_MS;
  }
}

function older(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}
