/**
 * Ends of streams that lie in journal rows and in memory, but not yet in rows of their own (architecture section 5).
 *
 * Owns: which streams these are, how long they may stay so, and which journal rows are still needed. Promises (I11): at most about JOURNAL_BYTES_MAX in memory, no end older than
 * JOURNAL_AGE_MS plus a batch; a journal row outlives every end that it holds a part of. Why: a row for each small append, and one for its stream's state, cost more than the append; a batch
 * writes one row instead, and a stream that gets many appends a second writes its own rows once.
 */
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { Append } from '../../../shared/storage/block.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { journalRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { ProducerChange } from './core.js';
import { JOURNAL_AGE_MS, JOURNAL_BYTES_MAX, JOURNAL_TAIL_APPENDS_MAX, JOURNAL_TAIL_BYTES_MAX } from './limits.js';
import { JournalTail, type Slot } from './slot.js';

/** What an append takes in memory besides its bytes, about. */
const APPEND_OVERHEAD_BYTES = 128;
/** Ends written in one batch of others, besides what they add, and in one of their own. */
const TAKEN_AT_ONCE = 16;
const TAKEN_ALONE = 1_024;
/** Bytes of ends written in one batch. */
const TAKEN_BYTES_MAX = 1_048_576;
/** Journal rows deleted in one batch. */
const DELETED_AT_ONCE = 64;

/** What a batch did to a stream; the first append begins at `from`. */
interface JournaledWork {
  readonly slot: Slot;
  readonly from: Offset;
  readonly appends: readonly Append[];
  /** In order; their records have the number of the batch. */
  readonly producers: readonly ProducerChange[] | null;
}

export class Journal {
  readonly #now: () => number;
  /** Oldest first. */
  readonly #tails = new Map<Incarnation, JournalTail>();
  readonly #byKey = new Map<StreamKey, JournalTail>();
  readonly #wanted = new Set<JournalTail>();
  /** Numbers of the batches whose rows are there, lowest first. */
  readonly #rows = new Set<number>();
  #bytes = 0;

  /** `now`: ms of a clock that never steps back; an end that seemed to be younger than it is would pin all journal rows behind it. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get isEmpty(): boolean {
    return this.#tails.size === 0 && this.#rows.size === 0;
  }

  tailOf(incarnation: Incarnation): JournalTail | undefined {
    return this.#tails.get(incarnation);
  }

  tailOfKey(key: StreamKey): JournalTail | undefined {
    return this.#byKey.get(key);
  }

  tails(): Iterable<JournalTail> {
    return this.#tails.values();
  }

  /** Batch `n` is durable with its journal row. */
  noteRow(n: number): void {
    this.#rows.add(n);
  }

  /** Appends of a durable batch that have no rows of their own. */
  add(work: JournaledWork, record: StreamRecord, batch: number): void {
    const { slot, appends, producers } = work;
    let { tail } = slot;
    if (tail === null) {
      tail = new JournalTail(slot, record.incarnation, work.from, batch, this.#now());
      slot.tail = tail;
      this.#tails.set(record.incarnation, tail);
      this.#byKey.set(slot.key, tail);
    }
    let bytes = 0;
    for (const append of appends) {
      tail.appends.push(append);
      bytes += append.payload.length + APPEND_OVERHEAD_BYTES;
    }
    tail.bytes += bytes;
    this.#bytes += bytes;
    if (producers !== null) for (const { id, record: producer } of producers) (tail.producers ??= new Map()).set(id, producer);
  }

  /** The stream's rows say it all, or the stream is gone. */
  remove(tail: JournalTail): void {
    if (!this.#tails.delete(tail.incarnation)) return;
    this.#byKey.delete(tail.slot.key);
    this.#wanted.delete(tail);
    this.#bytes -= tail.bytes;
    tail.slot.tail = null;
  }

  /** One of the next batches writes it. */
  want(tail: JournalTail): void {
    if (this.holds(tail)) this.#wanted.add(tail);
  }

  holds(tail: JournalTail): boolean {
    return this.#tails.get(tail.incarnation) === tail;
  }

  /** Whether an end is to be written, and not to grow. */
  isFull(tail: JournalTail): boolean {
    return this.#bytes >= JOURNAL_BYTES_MAX || tail.bytes >= JOURNAL_TAIL_BYTES_MAX || tail.appends.length >= JOURNAL_TAIL_APPENDS_MAX || this.#isOld(tail) || this.#wanted.has(tail);
  }

  #isOld(tail: JournalTail): boolean {
    return this.#now() - tail.sinceMs >= JOURNAL_AGE_MS;
  }

  /** Something is old enough to be written, or written but still in the journal. */
  get isDue(): boolean {
    const [oldest] = this.#tails.values();
    return this.#wanted.size > 0 || (oldest === undefined ? this.#rows.size > 0 : this.#isOld(oldest));
  }

  /** Ends that the next batch, which changes `works` streams, should write: what is wanted, then what is old, and the oldest while there is too much. */
  take(works: number): JournalTail[] {
    const taken: JournalTail[] = [];
    let bytes = 0;
    for (const tail of this.#wanted) {
      if (bytes >= TAKEN_BYTES_MAX) return taken;
      taken.push(tail);
      bytes += tail.bytes;
    }
    const most = works === 0 ? TAKEN_ALONE : TAKEN_AT_ONCE + 2 * works;
    for (const tail of this.#tails.values()) {
      if (taken.length >= most || bytes >= TAKEN_BYTES_MAX || (this.#bytes < JOURNAL_BYTES_MAX && !this.#isOld(tail))) break;
      if (this.#wanted.has(tail)) continue;
      taken.push(tail);
      bytes += tail.bytes;
    }
    return taken;
  }

  /** Deletes rows that hold nothing but what lies in rows of streams, now or with this batch (`written`). */
  deletions(written: ReadonlySet<JournalTail>): HotOp[] {
    let needed = Infinity;
    for (const tail of this.#tails.values()) {
      if (written.has(tail)) continue;
      needed = tail.batch;
      break;
    }
    const ops: HotOp[] = [];
    for (const n of this.#rows) {
      if (n >= needed || ops.length >= DELETED_AT_ONCE) break;
      ops.push({ type: 'del', key: journalRow.key(n) });
    }
    return ops;
  }

  /** The deletions of a batch are durable. */
  forgetRows(count: number): void {
    let left = count;
    for (const n of this.#rows) {
      if (left-- <= 0) return;
      this.#rows.delete(n);
    }
  }

  /** After a failed batch: opening the store again makes rows of all that is durable. */
  clear(): void {
    for (const tail of this.#tails.values()) tail.slot.tail = null;
    this.#tails.clear();
    this.#byKey.clear();
    this.#wanted.clear();
    this.#rows.clear();
    this.#bytes = 0;
  }
}
