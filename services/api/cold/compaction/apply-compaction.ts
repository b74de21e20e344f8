/**
 * The last look at a compaction, and its way into the hot store (I6, I7).
 *
 * Owns: what "still exactly those that were read" means: the rows of one incarnation over a range, in number and in every field. Promises: one stream changes in one batch, references and
 * counts of objects together; a range that does not hold is dropped and the others go on; applied twice is applied once, for what it replaced is not there any more.
 * The state of the stream takes no part but for its snapshot, so a stream that was deleted meanwhile loses nothing that its readers hold.
 */
import { refsSum, sameBlock } from '../../../../shared/storage/records/cold-ref.js';
import type { BlockRef, ColdRef, CompactedRange, LogDelta, ObjectId, SnapshotRecord, StreamRecord } from '../../../../shared/storage/records/types.js';
import { sameObject } from '../../../../shared/storage/records/object-id.js';
import { slotOf } from '../../../../shared/storage/slots.js';
import { refRow } from '../../hot/keys/index.js';
import type { HotOp, HotReads } from '../../hot/store.js';
import type { LogCore, StreamSlot } from '../../log/core.js';
import { readOr } from '../damage.js';
import type { ObjectCounts } from '../object-counts.js';

export type CompactDelta = Extract<LogDelta, { kind: 'compact' }>;

/** The references that a range replaces, null when they are not those that were read, or one is damaged. */
export function replacedRefs(store: HotReads, delta: CompactDelta, range: CompactedRange): Promise<ColdRef[] | null> {
  return readOr(() => exactlyThose(store, delta, range), () => undefined);
}

async function exactlyThose(store: HotReads, delta: CompactDelta, range: CompactedRange): Promise<ColdRef[] | null> {
  const refs: ColdRef[] = [];
  for await (const page of store.scan(refRow.range(slotOf(delta.key), delta.incarnation, range.from + 1, range.to + 1))) {
    for (const { value } of page) {
      refs.push(refRow.decode(value));
      if (refs.length > range.was.refs) return null;
    }
  }
  return refs.length === range.was.refs && refs[0]?.start === range.from && refs.at(-1)?.end === range.to && refsSum(refs) === range.was.sum ? refs : null;
}

/** Objects that a compaction moves bytes into. */
export function compactedInto({ ranges, snapshot }: CompactDelta): ObjectId[] {
  const ids = ranges.flatMap(({ refs }) => distinct(refs));
  return snapshot === null ? ids : [...ids, snapshot.ref.object];
}

/** Objects whose counts fall when these changes are applied. */
export async function replacedObjects(store: HotReads, deltas: readonly LogDelta[]): Promise<ObjectId[]> {
  const ids: ObjectId[] = [];
  for (const delta of deltas) {
    if (delta.kind !== 'compact') continue;
    for (const range of delta.ranges) ids.push(...distinct((await replacedRefs(store, delta, range)) ?? []));
    if (delta.snapshot !== null) ids.push(delta.snapshot.was.object);
  }
  return ids;
}

/** Stages one stream's part; the counts of every object that it names or that it empties were prepared. */
export async function applyCompaction(core: LogCore, slot: StreamSlot, counts: ObjectCounts, delta: CompactDelta, staged: Promise<void>[]): Promise<void> {
  const ops: HotOp[] = [];
  const moves: (readonly [BlockRef, 1 | -1])[] = [];
  for (const range of delta.ranges) {
    const old = await replacedRefs(core.store, delta, range);
    if (old === null) continue;
    for (const ref of old) {
      ops.push({ type: 'del', key: refRow.key(slot.slot, delta.incarnation, ref.end) });
      moves.push([ref, -1]);
    }
    // Behind the deletions: the last reference of both ends at the same byte.
    for (const ref of range.refs) {
      ops.push({ type: 'put', key: refRow.key(slot.slot, delta.incarnation, ref.end), value: refRow.encode(ref) });
      moves.push([ref, 1]);
    }
  }
  // From here on one turn: counts move in the order of the batches.
  const { pending } = slot;
  const snapshot = snapshotToMove(pending, delta);
  const moved = delta.snapshot;
  if (snapshot !== null && moved !== null) moves.push([moved.was, -1], [moved.ref, 1]);
  for (const [ref, by] of moves) counts.shift(ref.object, by, by * ref.blockBytes);
  ops.push(...counts.rowsOf(moves.map(([ref]) => ref.object)));
  if (pending !== null && snapshot !== null && moved !== null) {
    staged.push(core.stage({ slot, next: { ...pending, snapshot: { ...snapshot, cold: { at: 'block', ref: moved.ref } } }, ops, quiet: true }));
  } else if (ops.length > 0) {
    staged.push(core.stageOps(ops));
  }
}

/** The snapshot of which a compaction moved the copy, null when it is another one by now or lies elsewhere. */
export function snapshotToMove(now: StreamRecord | null, { incarnation, snapshot: moved }: CompactDelta): SnapshotRecord | null {
  const snapshot = now?.incarnation === incarnation ? now.snapshot : null;
  if (moved === null || snapshot === null || snapshot.offset !== moved.offset) return null;
  return snapshot.cold?.at === 'block' && sameBlock(snapshot.cold.ref, moved.was) ? snapshot : null;
}

function distinct(refs: readonly BlockRef[]): ObjectId[] {
  const ids: ObjectId[] = [];
  for (const { object } of refs) {
    const last = ids.at(-1);
    if (last === undefined || !sameObject(last, object)) ids.push(object);
  }
  return ids;
}
