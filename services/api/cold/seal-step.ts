/** What one seal of a partition came to. */
import type { StreamKey } from '../../../shared/protocol/types.js';
import type { PlanOutcome } from './plan-board.js';

export interface SealStep {
  /** null: nothing was dirty. */
  readonly outcome: PlanOutcome | null;
  /** Where the next one goes on; null: everything dirty was looked at. */
  readonly next: Buffer | null;
  /** Dirty streams that were left out. */
  readonly skipped: number;
  /** Sources that forks among them wait for. */
  readonly awaited: ReadonlySet<StreamKey>;
  /** When they are looked at again; null: none was left out. */
  readonly retryMs: number | null;
}

export const NO_KEYS: ReadonlySet<StreamKey> = new Set();
export const NOTHING_SEALED: SealStep = { outcome: null, next: null, skipped: 0, awaited: NO_KEYS, retryMs: null };
