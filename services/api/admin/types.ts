/**
 * What the admin listener needs of a node (architecture section 3).
 *
 * Owns: the interface `AdminBackend`. What a node does not have it refuses with a `FirnError`, such as 501 NO_COLD_STORE.
 */
import type { StreamKey } from '../../../shared/protocol/types.js';

/** A state of the node with the reasons for it, in words for an operator. */
export interface Health {
  /** The process can do its work at all. */
  readonly healthy: boolean;
  /** Writes are taken. */
  readonly ready: boolean;
  /** Why it is not healthy, not ready, or degraded; empty when all is well. */
  readonly reasons: readonly string[];
}

/** A row of the listing; offsets as 20 digits. */
export interface StreamRow {
  readonly key: string;
  readonly contentType: string;
  readonly incarnation: string;
  readonly tail: string;
  readonly retained: string;
  /** End of what is in the cold tier. */
  readonly coldFrontier: string;
  readonly closed: boolean;
  /** Seconds as configured, null: none. */
  readonly ttl: string | null;
  /** RFC 3339, null: none. */
  readonly expiresAt: string | null;
}

export interface SealReport {
  readonly segments: number;
  readonly bytes: number;
  readonly streams: number;
}

/** Answers are JSON as they are given. */
export interface AdminBackend {
  health(): Health;
  metrics(): Promise<{ readonly contentType: string; readonly text: string }>;
  /** Rows of streams whose key begins with `prefix`, after the key `after`, in key order, at most `limit`. */
  streams(prefix: string, after: string | null, limit: number): Promise<readonly StreamRow[]>;
  /** One stream in detail: ranges by tier with their segments, snapshot, producers, subscribers; null: there is none. */
  stream(key: StreamKey): Promise<object | null>;
  /** Seals what is unsealed at the call. Gives up when the signal fires. */
  seal(prefix: string, signal: AbortSignal): Promise<SealReport>;
  checkpoint(signal: AbortSignal): Promise<object>;
  verify(deep: boolean, signal: AbortSignal): Promise<object>;
  compact(signal: AbortSignal): Promise<object>;
  collect(signal: AbortSignal): Promise<object>;
  jobs(): Promise<object>;
  /** Erases a bucket and fences its id for good (BKT-07, BKT-08). */
  purge(bucket: string): Promise<object>;
  /** Replaces the key that signs webhooks; the old one stays in the set of public keys until no receiver takes its signatures any more (SUB-24). */
  rotateWebhookKey(): Promise<object>;
}
