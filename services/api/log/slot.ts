/**
 * One stream key in memory, and the bounded set of them.
 *
 * Owns: the two states of a stream (durable, pending), its watchers and producers in memory, and which slots stay in memory.
 * Promises: a slot that is pinned, has staged changes or watchers is never dropped; at most `idleMax` others are kept (I11).
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import type { ProducerRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { partitionOf, slotOf } from '../../../shared/storage/slots.js';
import type { StreamSlot } from './core.js';
import type { StreamEvent } from './types.js';

export type Listener = (event: StreamEvent) => void;

export class Slot implements StreamSlot {
  durable: StreamRecord | null = null;
  pending: StreamRecord | null = null;
  loaded = false;
  loading: Promise<void> | null = null;
  /** Users right now: operations, live reads. */
  pins = 0;
  /** Staged changes that are not durable yet. */
  staged = 0;
  /** Live reads that hold off expiry (TTL-10). */
  liveReaders = 0;
  /** Last use that renews a sliding TTL, exact while in memory. */
  touchedAtMs = 0;
  listeners: Set<Listener> | null = null;
  /** Producers of the pending incarnation as the next request must see them. */
  producers: Map<string, ProducerRecord | null> | null = null;

  constructor(
    readonly key: StreamKey,
    readonly slot: number,
    readonly partition: number,
  ) {}

  get idle(): boolean {
    return this.pins === 0 && this.staged === 0 && (this.listeners === null || this.listeners.size === 0);
  }
}

export class SlotTable {
  readonly #busy = new Map<StreamKey, Slot>();
  /** In order of last use. */
  readonly #idle = new Map<StreamKey, Slot>();
  readonly #partitions: number;
  readonly #idleMax: number;
  readonly #onDrop: (slot: Slot) => boolean;

  /** `onDrop` may refuse (false): the slot then stays, for it has something to write first. */
  constructor(partitions: number, idleMax: number, onDrop: (slot: Slot) => boolean) {
    this.#partitions = partitions;
    this.#idleMax = idleMax;
    this.#onDrop = onDrop;
  }

  /** The slot of a key, pinned once more. Pair with `unpin`. */
  pin(key: StreamKey): Slot {
    let slot = this.#busy.get(key);
    if (slot === undefined) {
      slot = this.#idle.get(key);
      if (slot === undefined) {
        const number = slotOf(key);
        slot = new Slot(key, number, partitionOf(number, this.#partitions));
      } else {
        this.#idle.delete(key);
      }
      this.#busy.set(key, slot);
    }
    slot.pins++;
    return slot;
  }

  unpin(slot: Slot): void {
    if (slot.pins <= 0) throw new Error('a slot was released twice');
    slot.pins--;
    this.settle(slot);
  }

  /** Moves a slot that nobody uses to the idle ones, and drops the oldest beyond the limit. */
  settle(slot: Slot): void {
    if (!slot.idle || !this.#busy.delete(slot.key)) return;
    // A key without a stream is cheap to find missing again: keeping it would let a scan of names flush the cache.
    if (slot.durable === null) return;
    this.#idle.set(slot.key, slot);
    if (this.#idle.size <= this.#idleMax) return;
    const oldest = this.#idle.values().next().value;
    if (oldest === undefined) return;
    this.#idle.delete(oldest.key);
    if (!this.#onDrop(oldest)) this.#idle.set(oldest.key, oldest);
  }

  /** Slots in use; idle ones are forgotten (after a reopen their state may be wrong). */
  forgetIdle(): Slot[] {
    this.#idle.clear();
    return [...this.#busy.values()];
  }

  get size(): number {
    return this.#busy.size + this.#idle.size;
  }

  /** Every slot in memory. */
  *all(): IterableIterator<Slot> {
    yield* this.#busy.values();
    yield* this.#idle.values();
  }
}
