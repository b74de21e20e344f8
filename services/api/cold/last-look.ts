/**
 * The last look at the changes of a record, on the lane that nothing else writes records from (I6).
 *
 * Promises: ranges that a record before this one has sealed are left out, for references that overlap would end every later checkpoint; so is what a compaction replaces that is not exactly as it was read; a seal
 * names the cold copy of a snapshot where it is now. A damaged stream, or one that is behind the log, is no reason to stop the others.
 */
import { heldFrom } from '../../../shared/storage/records/stream-record.js';
import type { CompactedRange, LogDelta, SnapshotRecord } from '../../../shared/storage/records/types.js';
import { snapshotRow } from '../hot/keys/index.js';
import type { LogCore, StreamSlot } from '../log/core.js';
import type { BehindStreams } from './behind.js';
import { replacedRefs, snapshotToMove, type CompactDelta } from './compaction/apply-compaction.js';
import { isHotDamage } from './damage.js';

/** Streams looked at at a time. */
const TOGETHER = 8;

type SealDelta = Extract<LogDelta, { kind: 'seal' }>;

/** What of the changes still holds. */
export async function whatStillHolds(core: LogCore, behind: BehindStreams, deltas: readonly LogDelta[]): Promise<LogDelta[]> {
  const kept: LogDelta[] = [];
  for (let at = 0; at < deltas.length; at += TOGETHER) {
    const some = await Promise.all(deltas.slice(at, at + TOGETHER).map((delta) => holding(core, behind, delta)));
    for (const delta of some) if (delta !== null) kept.push(delta);
  }
  return kept;
}

async function holding(core: LogCore, behind: BehindStreams, delta: LogDelta): Promise<LogDelta | null> {
  if (delta.kind === 'offload') return behind.has(delta.incarnation) ? null : delta;
  if (delta.kind !== 'seal' && delta.kind !== 'compact') return delta;
  if (behind.has(delta.kind === 'seal' ? delta.state.incarnation : delta.incarnation)) return null;
  try {
    return await core.using(delta.key, (slot) => (delta.kind === 'seal' ? seal(core, slot, delta) : compaction(core, slot, delta)));
  } catch (error) {
    if (!isHotDamage(error)) throw error;
    return null;
  }
}

async function seal(core: LogCore, slot: StreamSlot, delta: SealDelta): Promise<LogDelta | null> {
  const first = delta.refs[0];
  const now = slot.pending;
  if (first !== undefined && (now === null || now.incarnation !== delta.state.incarnation || now.sealed > first.start)) return null;
  const { snapshot } = delta.state;
  if (snapshot === null || snapshot.cold?.at !== 'block') return delta;
  const cold = (await copyNow(core, slot, delta.state.incarnation, snapshot))?.cold ?? null;
  return cold === null ? delta : { ...delta, state: { ...delta.state, snapshot: { ...snapshot, cold } } };
}

/** The snapshot of a plan as it is known now: a compaction may have moved its copy since. */
async function copyNow(core: LogCore, slot: StreamSlot, incarnation: SealDelta['state']['incarnation'], { offset }: SnapshotRecord): Promise<SnapshotRecord | null> {
  const now = slot.pending;
  if (now?.incarnation === incarnation && now.snapshot?.offset === offset) return now.snapshot;
  const superseded = await core.store.get(snapshotRow.key(slot.slot, incarnation, offset));
  return superseded === undefined ? null : snapshotRow.decode(superseded);
}

async function compaction(core: LogCore, slot: StreamSlot, delta: CompactDelta): Promise<LogDelta | null> {
  const ranges: CompactedRange[] = [];
  for (const range of delta.ranges) if ((await replacedRefs(core.store, delta, range)) !== null) ranges.push(range);
  const now = slot.pending;
  if (now === null || now.incarnation !== delta.incarnation) return null;
  const held = ranges.filter(({ to }) => to > heldFrom(now));
  const snapshot = snapshotToMove(now, delta) === null ? null : delta.snapshot;
  return held.length === 0 && snapshot === null ? null : { ...delta, ranges: held, snapshot };
}
