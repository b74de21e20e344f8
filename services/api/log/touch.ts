/**
 * Sliding expiry: when a stream ends, and how renewals reach the disk seldom without a stream ending early.
 *
 * Owns: the arithmetic of TTL-01 .. TTL-12. In memory renewals are exact. On disk they are at most TOUCH_SHARE of the TTL old, and a state read after
 * a restart gets that share on top, so a stream never ends before its window since the last read (R147); the slack is that share, once per restart.
 */
import { ttlMs } from '../../../shared/protocol/ttl.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { TOUCH_SHARE } from './limits.js';
import type { Slot } from './slot.js';

export class TouchKeeper {
  readonly #now: () => number;
  readonly #startedAtMs: number;

  constructor(now: () => number) {
    this.#now = now;
    this.#startedAtMs = now();
  }

  /** Last renewal to assume for a state just read from disk. */
  afterLoad(record: StreamRecord): number {
    if (record.ttl === null || record.touchedAtMs >= this.#startedAtMs) return record.touchedAtMs;
    return Math.min(Math.floor(record.touchedAtMs + ttlMs(record.ttl) * TOUCH_SHARE), this.#startedAtMs);
  }

  /** Instant at which the stream ends, Infinity when never. */
  endsAtMs(slot: Slot, record: StreamRecord): number {
    if (record.expiresAtMs !== null) return record.expiresAtMs;
    if (record.ttl === null) return Infinity;
    if (slot.liveReaders > 0) return Infinity;
    return Math.max(slot.touchedAtMs, record.touchedAtMs) + ttlMs(record.ttl);
  }

  expired(slot: Slot, record: StreamRecord): boolean {
    if (record.ttl === null && record.expiresAtMs === null) return false;
    return this.#now() >= this.endsAtMs(slot, record);
  }

  /** A served use: renews in memory; true when the renewal should be written now. */
  renew(slot: Slot, record: StreamRecord): boolean {
    if (record.ttl === null) return false;
    const now = this.#now();
    slot.touchedAtMs = Math.max(slot.touchedAtMs, now);
    return now - record.touchedAtMs >= ttlMs(record.ttl) * TOUCH_SHARE;
  }
}
