/**
 * The next batch: changes staged in memory, joined per stream, turned into rows once.
 *
 * Owns: how staged changes of one batch become RocksDB operations. Promises (I2): rows of one request land in one batch; the appends of one
 * stream in a batch become one value (or several of at most BLOCK_PAYLOAD_MAX); dirty marks follow `change` and `loggedChange`.
 */
import type { Offset } from '../../../shared/protocol/types.js';
import { packAppends, type Append } from '../../../shared/storage/block.js';
import type { ProducerRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { dataRow, dirtyRow, doomedRow, nameRow, producerRow, snapshotRow, streamRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { Change } from './core.js';
import { BATCH_BYTES_MAX, BATCH_REQUESTS_MAX } from './limits.js';
import type { Slot } from './slot.js';
import type { StreamEvent } from './types.js';

/** What one batch does to one stream. */
export interface SlotWork {
  readonly slot: Slot;
  next: StreamRecord | null;
  /** One a request, in order, from `from` on. */
  readonly appends: Append[];
  from: Offset;
  producers: Map<string, Omit<ProducerRecord, 'change'>> | null;
  /** Nothing that the log must hold changed so far. */
  quiet: boolean;
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
      work = { slot, next: null, appends: [], from: slot.pending?.tail ?? (0 as Offset), producers: null, quiet: true, count: 0 };
      this.works.set(slot, work);
    }
    if (change.append !== undefined) {
      if (work.appends.length === 0) work.from = slot.pending?.incarnation === change.next?.incarnation ? slot.pending!.tail : (0 as Offset);
      work.appends.push(change.append);
    }
    if (change.producer !== undefined) (work.producers ??= new Map()).set(change.producer.id, change.producer.record);
    if (change.ops !== undefined) for (const op of change.ops) this.ops.push(op);
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

/** What a batch makes of each stream, for after it is durable. */
export interface Outcome {
  readonly work: SlotWork;
  readonly before: StreamRecord | null;
  readonly after: StreamRecord | null;
}

/** Rows of a batch. `n` is its number; `logged`: there is a log, so dirty marks are kept. */
export function rowsOf(batch: OpenBatch, n: number, nowMs: number, logged: boolean): { readonly ops: HotOp[]; readonly outcomes: Outcome[] } {
  const ops: HotOp[] = [];
  const outcomes: Outcome[] = [];
  // In the order of their keys: the store's memory table finds the next place near the last one.
  const works = [...batch.works.values()];
  if (works.length > 1) works.sort((a, b) => a.slot.slot - b.slot.slot);
  for (const work of works) {
    const before = work.slot.durable;
    const after = work.next === null ? removalRows(work, before, nowMs, logged, ops) : stateRows(work, before, work.next, n, nowMs, logged, ops);
    outcomes.push({ work, before, after });
  }
  for (const { work, after } of outcomes) if (after !== null && work.appends.length > 0) appendRows(work, after, ops);
  for (const op of batch.ops) ops.push(op);
  return { ops, outcomes };
}

function removalRows(work: SlotWork, before: StreamRecord | null, nowMs: number, logged: boolean, ops: HotOp[]): null {
  const { slot } = work;
  if (before === null) return null;
  ops.push({ type: 'del', key: streamRow.key(slot.slot, slot.key) });
  ops.push({ type: 'del', key: nameRow.key(slot.key) });
  ops.push({ type: 'put', key: doomedRow.key(slot.slot, before.incarnation), value: doomedRow.encode({ key: slot.key }) });
  // The snapshot that was visible at the end: whoever removes the rows of this life has to find its body and its object.
  if (before.snapshot !== null) ops.push({ type: 'put', key: snapshotRow.key(slot.slot, before.incarnation, before.snapshot.offset), value: snapshotRow.encode(before.snapshot) });
  if (logged) {
    ops.push({ type: 'put', key: dirtyRow.key(slot.partition, slot.slot, before.incarnation), value: dirtyRow.encode({ key: slot.key, sinceMs: nowMs, deleted: true }) });
  }
  return null;
}

function stateRows(work: SlotWork, before: StreamRecord | null, next: StreamRecord, n: number, nowMs: number, logged: boolean, ops: HotOp[]): StreamRecord {
  const { slot } = work;
  const fresh = before === null || before.incarnation !== next.incarnation;
  const after = next === before ? before : numbered(next, work.quiet && !fresh ? before.change : n);
  ops.push({ type: 'put', key: (slot.rowKey ??= streamRow.key(slot.slot, slot.key)), value: streamRow.encode(after) });
  if (fresh) ops.push({ type: 'put', key: nameRow.key(slot.key), value: EMPTY });
  if (work.producers !== null) {
    for (const [id, record] of work.producers) {
      ops.push({ type: 'put', key: producerRow.key(slot.slot, after.incarnation, id), value: producerRow.encode({ ...record, change: n }) });
    }
  }
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

/** Values of the appended bytes: neighbours joined up to BLOCK_PAYLOAD_MAX, a longer append split over values that say so. */
function appendRows(work: SlotWork, after: StreamRecord, ops: HotOp[]): void {
  let end = work.from;
  for (const block of packAppends(work.from, work.appends)) {
    ops.push({ type: 'put', key: dataRow.key(work.slot.slot, after.incarnation, block.end), value: block.value });
    end = block.end;
  }
  if (end !== after.tail) throw new Error(`appended bytes end at ${end}, the tail is ${after.tail}`);
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
  if (after === null || appends.length === 0) return { record: after, start: tail, end: tail, data: [] };
  return { record: after, start: from, end: tail, data: appends.map((append) => append.payload) };
}
