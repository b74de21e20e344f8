/**
 * One stream key in memory, and the bounded set of them.
 *
 * Owns: the two states of a stream (durable, pending), its watchers and producers in memory, and which slots stay in memory.
 * Promises: a slot that is pinned, has staged changes, an end in the journal or watchers is never dropped; idle ones are kept only while there are at most `max` in all (I11).
 */
import { advance, type Incarnation, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import type { Append } from '../../../shared/storage/block.js';
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
  /** Used since the table was last walked for room. */
  used = false;
  /** Key of the stream's row, made once. */
  rowKey: Buffer | null = null;
  /** The end of the stream that has no rows of its own yet. */
  tail: JournalTail | null = null;
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
    return this.pins === 0 && this.staged === 0 && this.tail === null && (this.listeners === null || this.listeners.size === 0);
  }
}

/** Pieces of a read from memory are joined up to this, in bytes. */
const PIECE_BYTES = 65_536;

/** The end of one stream, [from, the durable tail), that lies in journal rows and here, and not in rows of its own. `Journal` alone writes its fields. */
export class JournalTail {
  readonly appends: Append[] = [];
  /** null: none. */
  producers: Map<string, ProducerRecord> | null = null;
  bytes = 0;

  constructor(
    readonly slot: Slot,
    readonly incarnation: Incarnation,
    readonly from: Offset,
    /** The batch that began it. */
    readonly batch: number,
    readonly sinceMs: number,
  ) {}

  /** Bytes [at, to), which lie in here. */
  *read(at: Offset, to: Offset): Generator<Buffer, void, void> {
    let pieces: Buffer[] = [];
    let bytes = 0;
    let start = this.from;
    for (const { payload } of this.appends) {
      if (start >= to) break;
      const end = advance(start, payload.length);
      if (end > at) {
        const piece = payload.subarray(Math.max(0, at - start), Math.min(payload.length, to - start));
        pieces.push(piece);
        bytes += piece.length;
        if (bytes >= PIECE_BYTES) {
          yield pieces.length === 1 ? piece : Buffer.concat(pieces, bytes);
          pieces = [];
          bytes = 0;
        }
      }
      start = end;
    }
    if (bytes > 0) yield pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, bytes);
  }
}

/** Slots looked at for each new one: more than one, so that the table shrinks faster than it grows. */
const LOOKS_MAX = 64;

/**
 * Second-chance replacement over one map: a use costs a flag, and only a full table is walked. The map's order is that of the last look.
 */
export class SlotTable {
  readonly #slots = new Map<StreamKey, Slot>();
  readonly #partitions: number;
  readonly #max: number;
  readonly #onDrop: (slot: Slot) => boolean;
  /** The next slot to look at. Kept between calls: a new iterator would pass all places of the map that deletions left empty, once for each new slot. */
  #hand: Iterator<Slot, undefined>;

  /** `max`: slots in memory while idle ones are among them. `onDrop` may refuse (false): the slot then stays, for it has something to write first. */
  constructor(partitions: number, max: number, onDrop: (slot: Slot) => boolean) {
    this.#partitions = partitions;
    this.#max = max;
    this.#onDrop = onDrop;
    this.#hand = this.#slots.values();
  }

  /** The slot of a key, pinned once more. Pair with `unpin`. */
  pin(key: StreamKey): Slot {
    let slot = this.#slots.get(key);
    if (slot === undefined) {
      const number = slotOf(key);
      slot = new Slot(key, number, partitionOf(number, this.#partitions));
      this.#slots.set(key, slot);
      slot.pins = 1;
      if (this.#slots.size > this.#max) this.#makeRoom();
      return slot;
    }
    slot.pins++;
    slot.used = true;
    return slot;
  }

  unpin(slot: Slot): void {
    if (slot.pins <= 0) throw new Error('a slot was released twice');
    slot.pins--;
    this.settle(slot);
  }

  /** A key without a stream is cheap to find missing again: keeping it would let a scan of names flush the cache. */
  settle(slot: Slot): void {
    if (slot.durable === null && slot.idle) this.#slots.delete(slot.key);
  }

  /** Drops idle slots that were not used since they were looked at last, oldest look first; a bounded step, so a table full of used slots shrinks over a few calls. */
  #makeRoom(): void {
    for (let looks = Math.min(this.#slots.size, LOOKS_MAX); looks > 0 && this.#slots.size > this.#max; looks--) {
      const slot = this.#next();
      this.#slots.delete(slot.key);
      const stays = slot.used || !slot.idle || !this.#onDrop(slot);
      slot.used = false;
      if (stays) this.#slots.set(slot.key, slot);
    }
  }

  #next(): Slot {
    let next = this.#hand.next();
    if (next.done === true) {
      this.#hand = this.#slots.values();
      next = this.#hand.next();
    }
    if (next.done === true) throw new Error('a table that is full has no slot');
    return next.value;
  }

  /** Slots in use; idle ones are forgotten (after a reopen their state may be wrong). */
  forgetIdle(): Slot[] {
    for (const slot of this.#slots.values()) if (slot.idle) this.#slots.delete(slot.key);
    return [...this.#slots.values()];
  }

  get size(): number {
    return this.#slots.size;
  }

  /** Every slot in memory. */
  all(): IterableIterator<Slot> {
    return this.#slots.values();
  }
}
