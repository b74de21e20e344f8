/** How the layer that owns subscriptions hands a seal what the log does not hold of them. */
import type { LogDelta } from '../../../shared/storage/records/types.js';

/** What of the subscriptions of a partition goes into the next log record. */
export interface SubscriptionBatch {
  readonly deltas: readonly LogDelta[];
  /** There was no room for all. */
  readonly more: boolean;
  /** To be called once: whether the log holds it. What it does not hold comes with a later batch. */
  settle(logged: boolean): void;
}

/** The layer above that knows what the log does not hold of subscriptions yet. */
export interface UnloggedSubscriptions {
  /** Since when the oldest change waits, ms; null: none does. Cheap. */
  sinceMs(partition: number): number | null;
  /** Takes what waits, durable by then. */
  take(partition: number): Promise<SubscriptionBatch>;
}
