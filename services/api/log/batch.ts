/**
 * The next batch: changes staged in memory, joined per stream, turned into rows once.
 *
 * Owns: how staged changes of one batch become RocksDB operations. Promises (I2): rows of one request land in one batch; the appends of one
 * stream in a batch become one value (or several of at most BLOCK_PAYLOAD_MAX), in a row of its own or in the batch's journal row; a stream's row and its values always agree; dirty marks
 * follow `change` and `loggedChange`.
 */
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import { packAppends, type Append } from '../../../shared/storage/block.js';
import type { ProducerRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { dataRow, dirtyRow, doomedRow, journalRow, nameRow, producerRow, snapshotRow, streamRow, unpinRow, type JournalEntry } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { Change, ProducerChange } from './core.js';
import type { Journal } from './journal.js';
import { BATCH_BYTES_MAX, BATCH_REQUESTS_MAX, JOURNAL_APPENDS_BYTES_MAX, JOURNAL_STREAMS_MIN } from './limits.js';
import type { JournalTail, Slot } from './slot.js';
import type { StreamEvent } from './types.js';

/** What one batch does to one stream. */
export interface SlotWork {
  readonly slot: Slot;
  next: StreamRecord | null;
  /** One a request, in order, from `from` on. */
  readonly appends: Append[];
  from: Offset;
  /** Those that changed, in order: the last record of an id counts. */
  producers: ProducerChange[] | null;
  /** Bytes of `appends`. */
  appendBytes: number;
  /** Nothing that the log must hold changed so far. */
  quiet: boolean;
  /** Further rows belong to it. */
  withRows: boolean;
  /** Changes joined here. */
  count: number;
}

export class OpenBatch {
  readonly works = new Map<Slot, SlotWork>();
  readonly ops: HotOp[] = [];
  readonly done: Promise<void>;
  bytes = 0;
  requests = 0;
  settle!: (error: Error | null) => void;

  constructor() {
    this.done = new Promise((resolve, reject) => {
      this.settle = (error) => (error === null ? resolve() : reject(error));
    });
    // Not every staged change is awaited (renewals of a TTL); the store's poison is reported elsewhere.
    this.done.catch(() => undefined);
  }

  /** A stream's end, or its beginning, starts a batch's work on it: what came before lies in an earlier batch. */
  takes(change: Change | null, bytes: number): boolean {
    if (this.requests === 0) return true;
    if (this.requests >= BATCH_REQUESTS_MAX || this.bytes + bytes > BATCH_BYTES_MAX) return false;
    if (change === null) return true;
    const work = this.works.get(change.slot as Slot);
    return work === undefined || (work.next !== null && change.next !== null && work.next.incarnation === change.next.incarnation);
  }

  add(change: Change, bytes: number): void {
    const slot = change.slot as Slot;
    let work = this.works.get(slot);
    if (work === undefined) {
      work = { slot, next: null, appends: [], from: slot.pending?.tail ?? (0 as Offset), producers: null, appendBytes: 0, quiet: true, withRows: false, count: 0 };
      this.works.set(slot, work);
    }
    if (change.append !== undefined) {
      if (work.appends.length === 0) work.from = slot.pending?.incarnation === change.next?.incarnation ? slot.pending!.tail : firstOffset(change);
      work.appends.push(change.append);
      work.appendBytes += change.append.payload.length;
    }
    if (change.producer !== undefined) (work.producers ??= []).push(change.producer);
    if (change.ops !== undefined) {
      work.withRows = true;
      for (const op of change.ops) this.ops.push(op);
    }
    if (change.quiet !== true) work.quiet = false;
    work.next = change.next;
    work.count++;
    this.requests++;
    this.bytes += bytes;
  }

  addOps(ops: readonly HotOp[], bytes: number): void {
    for (const op of ops) this.ops.push(op);
    this.requests++;
    this.bytes += bytes;
  }
}

/** Where the first bytes of a new stream lie: at 0, or behind what a fork inherits. */
function firstOffset({ next, append }: Change): Offset {
  return ((next?.tail ?? 0) - (append?.payload.length ?? 0)) as Offset;
}

/** What a batch makes of each stream, for after it is durable. */
export interface Outcome {
  readonly work: SlotWork;
  readonly before: StreamRecord | null;
  readonly after: StreamRecord | null;
  /** Its appends lie in the journal row. */
  readonly journaled: boolean;
}

/** Values of one stream that got rows of their own: `bytes` from `from` on. */
export interface Written {
  readonly slot: Slot;
  readonly incarnation: Incarnation;
  readonly from: Offset;
  readonly bytes: number;
}

export interface BatchRows {
  readonly ops: readonly HotOp[];
  readonly outcomes: readonly Outcome[];
  /** Ends that are in rows now. */
  readonly emptied: ReadonlySet<JournalTail>;
  readonly written: readonly Written[];
  /** There is a journal row. */
  readonly journaled: boolean;
  /** Journal rows deleted. */
  readonly deleted: number;
}

/** Rows of a batch. `n` is its number; `logged`: there is a log, so dirty marks are kept. */
export function rowsOf(batch: OpenBatch, journal: Journal, n: number, nowMs: number, logged: boolean): BatchRows {
  const ops: HotOp[] = [];
  const outcomes: Outcome[] = [];
  const entries: JournalEntry[] = [];
  const emptied = new Set<JournalTail>();
  const written: Written[] = [];
  // In the order of their keys: the store's memory table finds the next place near the last one.
  const works = [...batch.works.values()];
  if (works.length > 1) works.sort((a, b) => a.slot.slot - b.slot.slot);
  const manyStreams = works.length >= JOURNAL_STREAMS_MIN;
  for (const work of works) {
    const { slot, next } = work;
    const { durable: before, tail } = slot;
    const journaled = manyStreams && next !== null && isJournaled(work, before, next, journal);
    if (tail !== null && !journaled) emptied.add(tail);
    const after = next === null ? removalRows(work, before, nowMs, logged, ops) : stateOf(work, before, next, n, nowMs, logged, ops);
    outcomes.push({ work, before, after, journaled });
    if (after === null) continue;
    if (journaled) entries.push(journalEntry(work, before!, after));
    else streamRows(work, tail?.incarnation === after.incarnation ? tail : null, after, ops, written);
  }
  for (const tail of journal.take(works.length)) {
    if (batch.works.has(tail.slot)) continue;
    emptied.add(tail);
    tailRows(tail, ops, written);
  }
  if (entries.length > 0) ops.push({ type: 'put', key: journalRow.key(n), value: journalRow.encode(entries) });
  const deletions = journal.deletions(emptied);
  for (const op of deletions) ops.push(op);
  for (const op of batch.ops) ops.push(op);
  return { ops, outcomes, emptied, written, journaled: entries.length > 0, deleted: deletions.length };
}

/** Short appends to a stream that was there before, with nothing else that needs rows. */
function isJournaled(work: SlotWork, before: StreamRecord | null, next: StreamRecord, journal: Journal): boolean {
  if (before === null || before.incarnation !== next.incarnation || work.appends.length === 0 || work.appendBytes > JOURNAL_APPENDS_BYTES_MAX || work.withRows) return false;
  return work.slot.tail === null || !journal.isFull(work.slot.tail);
}

function journalEntry(work: SlotWork, before: StreamRecord, after: StreamRecord): JournalEntry {
  const { from, appends } = work;
  if (from + work.appendBytes !== after.tail) throw new Error(`${work.appendBytes} bytes from ${from} on do not end at the tail ${after.tail}`);
  const producers = work.producers === null ? NO_PRODUCERS : newestOf(work.producers).map(({ id, record }) => ({ id, value: producerRow.encode(numberedProducer(record, after.change)) }));
  return { rowKey: rowKeyOf(work.slot), incarnation: after.incarnation, state: onlyGrew(before, after) ? null : streamRow.encode(after), producers, start: from, appends };
}

const NO_PRODUCERS: readonly [] = [];

/** The state differs in nothing but tail and change: every field is named here, so that a new one is thought of. */
function onlyGrew(before: StreamRecord, after: StreamRecord): boolean {
  return before.incarnation === after.incarnation && before.contentType === after.contentType && before.createdAtMs === after.createdAtMs
    && before.retained === after.retained && before.sealed === after.sealed && before.hotStart === after.hotStart
    && before.closed === after.closed && before.closedBy === after.closedBy && before.ttl === after.ttl && before.expiresAtMs === after.expiresAtMs
    && before.touchedAtMs === after.touchedAtMs && before.lastSeq === after.lastSeq && before.producers === after.producers && before.producerFloor === after.producerFloor
    && before.snapshot === after.snapshot && before.loggedChange === after.loggedChange
    && before.origin === after.origin && before.forks === after.forks && before.softDeleted === after.softDeleted;
}

function rowKeyOf(slot: Slot): Buffer {
  return (slot.rowKey ??= streamRow.key(slot.slot, slot.key));
}

/** The state's row, producers and values: of this batch, and of the end that only the journal held. */
function streamRows(work: SlotWork, tail: JournalTail | null, after: StreamRecord, ops: HotOp[], written: Written[]): void {
  const { slot } = work;
  ops.push({ type: 'put', key: rowKeyOf(slot), value: streamRow.encode(after) });
  if (work.producers !== null) {
    for (const { id, record } of newestOf(work.producers)) ops.push({ type: 'put', key: producerRow.key(slot.slot, after.incarnation, id), value: producerRow.encode(numberedProducer(record, after.change)) });
  }
  if (tail !== null) tailProducers(tail, work.producers, ops);
  const appends = tail === null ? work.appends : [...tail.appends, ...work.appends];
  if (appends.length > 0) dataRows(slot, after, tail === null ? work.from : tail.from, appends, ops, written);
}

/** The same for a stream that the batch does not change. */
function tailRows(tail: JournalTail, ops: HotOp[], written: Written[]): void {
  const { slot } = tail;
  const record = slot.durable;
  if (record === null || record.incarnation !== tail.incarnation) throw new Error('an end in the journal whose stream is gone');
  ops.push({ type: 'put', key: rowKeyOf(slot), value: streamRow.encode(record) });
  tailProducers(tail, null, ops);
  dataRows(slot, record, tail.from, tail.appends, ops, written);
}

function tailProducers(tail: JournalTail, newer: SlotWork['producers'], ops: HotOp[]): void {
  if (tail.producers === null) return;
  const written = new Set(newer?.map(({ id }) => id));
  for (const [id, record] of tail.producers) {
    if (!written.has(id)) ops.push({ type: 'put', key: producerRow.key(tail.slot.slot, tail.incarnation, id), value: producerRow.encode(record) });
  }
}

function removalRows(work: SlotWork, before: StreamRecord | null, nowMs: number, logged: boolean, ops: HotOp[]): null {
  const { slot } = work;
  if (before === null) return null;
  ops.push({ type: 'del', key: streamRow.key(slot.slot, slot.key) });
  ops.push({ type: 'del', key: nameRow.key(slot.key) });
  ops.push({ type: 'put', key: doomedRow.key(slot.slot, before.incarnation), value: doomedRow.encode({ key: slot.key }) });
  // The snapshot that was visible at the end: whoever removes the rows of this life has to find its body and its object.
  if (before.snapshot !== null) ops.push({ type: 'put', key: snapshotRow.key(slot.slot, before.incarnation, before.snapshot.offset), value: snapshotRow.encode(before.snapshot) });
  // Its source is let go behind it, by `ForkEnds`.
  if (before.origin !== null) ops.push({ type: 'put', key: unpinRow.key(slotOf(before.origin.key), before.origin.incarnation, before.incarnation), value: unpinRow.encode({ key: before.origin.key }) });
  if (logged) {
    ops.push({ type: 'put', key: dirtyRow.key(slot.partition, slot.slot, before.incarnation), value: dirtyRow.encode({ key: slot.key, sinceMs: nowMs, deleted: true }) });
  }
  return null;
}

/** The state behind the batch, with the rows that say that a stream is there and that the log lacks something of it. */
function stateOf(work: SlotWork, before: StreamRecord | null, next: StreamRecord, n: number, nowMs: number, logged: boolean, ops: HotOp[]): StreamRecord {
  const { slot } = work;
  const fresh = before === null || before.incarnation !== next.incarnation;
  const after = next === before ? before : numbered(next, work.quiet && !fresh ? before.change : n);
  if (fresh) ops.push({ type: 'put', key: nameRow.key(slot.key), value: EMPTY });
  if (logged) {
    const was = !fresh && before.change !== before.loggedChange;
    const is = after.change !== after.loggedChange;
    if (is && !was) ops.push({ type: 'put', key: dirtyRow.key(slot.partition, slot.slot, after.incarnation), value: dirtyRow.encode({ key: slot.key, sinceMs: nowMs, deleted: false }) });
    else if (was && !is) ops.push({ type: 'del', key: dirtyRow.key(slot.partition, slot.slot, after.incarnation) });
  }
  return after;
}

const EMPTY = Buffer.alloc(0);

/** A staged record belongs to the core: its number is put in here, where it is known, and not into a copy (this is on the path of every append). */
function numbered(next: StreamRecord, change: number): StreamRecord {
  (next as { -readonly [K in keyof StreamRecord]: StreamRecord[K] }).change = change;
  return next;
}

function numberedProducer(record: ProducerRecord, change: number): ProducerRecord {
  (record as { -readonly [K in keyof ProducerRecord]: ProducerRecord[K] }).change = change;
  return record;
}

/** The last record of each id. */
function newestOf(producers: readonly ProducerChange[]): readonly ProducerChange[] {
  return producers.length === 1 ? producers : [...new Map(producers.map((each) => [each.id, each])).values()];
}

/** Values of the appended bytes: neighbours joined up to BLOCK_PAYLOAD_MAX, a longer append split over values that say so. */
function dataRows(slot: Slot, after: StreamRecord, from: Offset, appends: readonly Append[], ops: HotOp[], written: Written[]): void {
  let end = from;
  for (const block of packAppends(from, appends)) {
    ops.push({ type: 'put', key: dataRow.key(slot.slot, after.incarnation, block.end), value: block.value });
    end = block.end;
  }
  if (end !== after.tail) throw new Error(`appended bytes end at ${end}, the tail is ${after.tail}`);
  written.push({ slot, incarnation: after.incarnation, from, bytes: end - from });
}

/** Bytes that a change adds to a batch, for its limits. */
export function sizeOf(change: Change): number {
  let bytes = 256 + (change.append?.payload.length ?? 0);
  if (change.ops !== undefined) bytes += sizeOfOps(change.ops);
  return bytes;
}

export function sizeOfOps(ops: readonly HotOp[]): number {
  let bytes = 0;
  for (const op of ops) bytes += op.key.length + (op.type === 'put' ? op.value.length : 0);
  return bytes;
}

/** What watchers of a stream are told of a batch. */
export function eventOf(appends: readonly Append[], from: Offset, before: StreamRecord | null, after: StreamRecord | null): StreamEvent {
  const tail = (after ?? before)?.tail ?? (0 as Offset);
  if (after?.softDeleted === true) return { record: null, start: tail, end: tail, data: [] };
  if (after === null || appends.length === 0) return { record: after, start: tail, end: tail, data: [] };
  return { record: after, start: from, end: tail, data: appends.map((append) => append.payload) };
}
