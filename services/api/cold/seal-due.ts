/**
 * When the next seal of a partition is due, and what the last ones left behind (design section 6, I5).
 *
 * Owns: the hints between two passes over what is dirty. Promises: whatever a pass did not take, for whatever reason, makes another one due, at once or at a
 * stated time; bytes that a pass could not take (parked, damaged) do not make the next one due by their number, so they cost no PUTs; after a pass that
 * failed the next one waits.
 */
import type { LogCore } from '../log/core.js';
import { PLAN_RETRY_MS } from './limits.js';

export interface SealDueOptions {
  readonly core: Pick<LogCore, 'unsealedBytes' | 'dirtySinceMs' | 'noteCut'>;
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

  constructor(options: SealDueOptions) {
    this.#options = options;
  }

  /** Something waits that no count and no mark tells of. */
  again(): void {
    this.#more = true;
  }

  get now(): boolean {
    const { core, partition, sealBytes, sealAgeMs, now } = this.#options;
    const at = now();
    if (at < this.#notBeforeMs) return false;
    if (this.#more || core.unsealedBytes(partition) - this.#leftBytes >= sealBytes) return true;
    if (this.#retryMs !== null && at >= this.#retryMs) return true;
    const since = core.dirtySinceMs(partition);
    return since !== null && at - Math.max(since, this.#cutMs) >= sealAgeMs;
  }

  /** Since when the oldest change waits for its seal, in a pass under way or for the next one; null: none does. */
  get sinceMs(): number | null {
    return older(this.#heldSinceMs, this.#options.core.dirtySinceMs(this.#options.partition));
  }

  /** A pass over everything dirty begins, now: what is marked from this moment on counts for the next one, and the pass may find it or not. */
  begin(): void {
    const { core, partition, now } = this.#options;
    this.#more = false;
    this.#retryMs = null;
    this.#cutMs = now();
    this.#heldSinceMs = this.sinceMs;
    this.#cutBytes = core.unsealedBytes(partition);
    core.noteCut(partition, this.#cutMs);
  }

  end({ whole, sealedBytes, retryMs }: PassEnd): void {
    const { core, partition } = this.#options;
    this.#retryMs = retryMs;
    if (!whole) {
      this.#more = true;
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
