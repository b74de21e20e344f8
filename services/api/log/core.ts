/**
 * The inside of the log, for the parts that change streams: operations of clients, expiry, sealing, eviction, restore.
 *
 * Owns: the interface `LogCore`: one owner per stream, two states, one queue to the disk (architecture section 5).
 * A change is built synchronously from `pending` and staged in the same turn, so no two changes can cross.
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { NamedProducer, ProducerRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import type { HotOp, HotReads } from '../hot/store.js';
import type { StreamEvent } from './types.js';

/** One stream key in memory: exists for a key with no stream too (`durable` null). Only `LogCore` writes its fields. */
export interface StreamSlot {
  readonly key: StreamKey;
  /** Low 16 bits of CRC32C of the key. */
  readonly slot: number;
  readonly partition: number;
  /** What readers and watchers see. */
  readonly durable: StreamRecord | null;
  /** What the next request is validated against; the same object as `durable` when nothing is in flight. */
  readonly pending: StreamRecord | null;
}

/** The record of a producer behind a write of its own. Belongs to the core from the staging on, which puts the number of the batch into it. */
export interface ProducerChange {
  readonly id: string;
  readonly record: ProducerRecord;
}

export interface Change {
  readonly slot: StreamSlot;
  /** State after this change; null deletes the stream (its rows go in the background). `change` and dirty marks are kept by the core. */
  readonly next: StreamRecord | null;
  /** Bytes appended at `pending.tail`: one entry (the whole of one request). `next.tail` lies behind them. */
  readonly append?: { readonly payload: Buffer; readonly atMs: number };
  readonly producer?: ProducerChange;
  /** Further rows of the same batch. */
  readonly ops?: readonly HotOp[];
  /** true: nothing that the log must hold changed (renewal of a TTL, eviction, applied log record): the stream does not become dirty. */
  readonly quiet?: boolean;
}

export interface LogCore {
  /** Rows of streams as far as they are durable; what changes them is staged. */
  readonly store: HotReads;
  /**
   * Reads the stream's state into memory and keeps it there while `work` runs. Throws `FirnError` when the store is poisoned or closed.
   */
  using<T>(key: StreamKey, work: (slot: StreamSlot) => T | Promise<T>): Promise<T>;
  /** Puts a change into the queue, in the same turn as the reading of `pending`; resolves when durable, rejects with `FirnError` OUTCOME_UNKNOWN. */
  stage(change: Change): Promise<void>;
  /** Rows without a stream (plans, sessions, garbage), in the same queue and order. */
  stageOps(ops: readonly HotOp[]): Promise<void>;
  /** Resolves when everything staged for the slot up to now is durable. */
  settled(slot: StreamSlot): Promise<void>;
  producer(slot: StreamSlot, incarnation: Incarnation, id: string): Promise<ProducerRecord | null>;
  /** Producers of a stream whose `change` lies above `after`, from the durable store. */
  producersSince(slot: StreamSlot, incarnation: Incarnation, after: number): Promise<NamedProducer[]>;
  /** Durable events of one stream. Returns the unsubscribe function. */
  watch(slot: StreamSlot, listener: (event: StreamEvent) => void): () => void;
  /** Unsealed logical bytes of a partition: sum over streams of tail - max(sealed, retained). */
  unsealedBytes(partition: number): number;
  /** Bytes of a partition that are hot although a cold copy stands behind them. */
  sealedHotBytes(partition: number): number;
  /** When the oldest dirty mark of the partition was set, null: nothing is dirty. */
  dirtySinceMs(partition: number): number | null;
  /** A seal plan took everything of the partition that was dirty before `atMs`: it no longer counts for `dirtySinceMs`. */
  noteCut(partition: number, atMs: number): void;
}
