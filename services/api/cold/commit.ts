/**
 * Checks what a seal job uploaded, and makes a log record of it (architecture section 6, steps 3 and 4).
 *
 * Owns: the last look before bytes count as cold. Promises (I3): every object was read back whole and every range in it compared with the sums stored
 * at append; a stream that no longer holds what the plan said is left out, the rest goes on (I6).
 */
import type { Incarnation } from '../../../shared/protocol/types.js';
import { decodeBlockHead } from '../../../shared/storage/block.js';
import { parseDataObject, type DataObjectItem } from '../../../shared/storage/data-object.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { decodeSnapshotBody, sameSnapshot } from '../../../shared/storage/snapshot-body.js';
import type { BlockRef, ColdRef, LogDelta, ObjectInfo, SnapshotRecord } from '../../../shared/storage/records/types.js';
import type { LogCore } from '../log/core.js';
import { isHotDamage, isUnreadable } from './damage.js';
import { hotSum, RangeSum } from './hot-blocks.js';
import { writtenBody } from './just-written.js';
import type { PlanContents, PlannedStream } from './plan.js';

/** Streams compared with their hot copies at a time. */
const TOGETHER = 8;

/**
 * What a stream that is left out of the record has come to. `gone`: nothing of it has to be sealed any more. `restless`: it moved on meanwhile, the next plan
 * finds it as it is then. `unreadable`: its hot bytes, or the cold ones, are not there as they should be. `damaged`: they fail their own sums.
 */
export type LeftOutAs = 'gone' | 'restless' | 'unreadable' | 'damaged';

/** A stream that is left out of the record, and why. */
export interface LeftOut {
  readonly stream: PlannedStream;
  readonly as: LeftOutAs;
  readonly why: string;
}

export interface CheckedSeal {
  readonly deltas: readonly LogDelta[];
  /** Objects that the record names. */
  readonly objects: readonly ObjectInfo[];
  readonly leftOut: readonly LeftOut[];
  /** Raw bytes of the sealed ranges. */
  readonly bytes: number;
}

/** What the objects hold of one stream. */
class Gathered {
  readonly sum: RangeSum;
  readonly refs: ColdRef[] = [];
  snapshot: BlockRef | null = null;
  broken: string | null = null;

  constructor(readonly stream: PlannedStream) {
    this.sum = new RangeSum(stream.from);
  }

  take(object: ObjectInfo, item: DataObjectItem): void {
    if (item.key !== this.stream.key) this.broken = `an object names it ${item.key}`;
    else if (item.kind === 'block') this.#takeBlock(object, item);
    else this.#takeSnapshot(object, item);
  }

  #takeBlock(object: ObjectInfo, item: DataObjectItem): void {
    if (!this.sum.add(decodeBlockHead(item.value))) this.broken = `a block from ${item.start} where ${this.sum.end} comes next`;
    this.refs.push({ ...item.ref, object: object.id, start: item.start, end: item.end });
  }

  #takeSnapshot(object: ObjectInfo, item: DataObjectItem): void {
    const planned = this.stream.state.snapshot;
    const packed = decodeSnapshotBody(item.value);
    if (!this.stream.packSnapshot || planned === null || !sameSnapshot(planned, packed)) this.broken = 'an object holds another snapshot';
    else this.snapshot = { ...item.ref, object: object.id };
  }
}

/** What the node holds of an open seal. */
export interface SealInHand {
  readonly contents: PlanContents;
  /** Streams (by their number) that were given up on. */
  readonly dropped: ReadonlySet<number>;
  /** Sums stored at append, of the streams that were handed out from their first byte to their last. */
  readonly sums: ReadonlyMap<number, RangeSum>;
}

/** Reads the objects back and compares. Throws when an object is not what its writer said: the try failed as a whole. */
export async function checkSeal(core: LogCore, store: ObjectStore, plan: SealInHand, uploaded: readonly ObjectInfo[], signal: AbortSignal): Promise<CheckedSeal> {
  const { contents, dropped } = plan;
  const gathered = new Map<Incarnation, Gathered>(contents.streams.map((stream) => [stream.incarnation, new Gathered(stream)]));
  for (const object of uploaded) await readBack(store, object, gathered, signal);
  const leftOut: LeftOut[] = [];
  const kept: Gathered[] = [];
  const all = [...gathered.values()];
  for (let at = 0; at < all.length; at += TOGETHER) {
    signal.throwIfAborted();
    const verdicts = await Promise.all(all.slice(at, at + TOGETHER).map((one, n) => verdict(core, one, dropped.has(at + n), plan.sums.get(at + n))));
    for (const one of verdicts) {
      if (one instanceof Gathered) kept.push(one);
      else leftOut.push(one);
    }
  }
  const deltas: LogDelta[] = kept.map(deltaOf);
  for (const { key, incarnation } of contents.deletes) deltas.push({ kind: 'delete', key, incarnation });
  for (const bucket of contents.purges) deltas.push({ kind: 'purge', bucket });
  for (const delta of contents.subscriptions?.deltas ?? []) deltas.push(delta);
  const named = new Set(kept.flatMap((one) => [...one.refs, ...(one.snapshot === null ? [] : [one.snapshot])].map((ref) => objectKey(ref.object))));
  const bytes = kept.reduce((sum, { stream }) => sum + stream.to - stream.from, 0);
  return { deltas, objects: uploaded.filter((object) => named.has(objectKey(object.id))), leftOut, bytes };
}

async function readBack(store: ObjectStore, object: ObjectInfo, gathered: ReadonlyMap<Incarnation, Gathered>, signal: AbortSignal): Promise<void> {
  const body = await writtenBody(store, object, signal);
  for await (const item of parseDataObject(body)) gathered.get(item.incarnation)?.take(object, item);
}

/** Whether a stream still is what the plan said, and its cold bytes are its hot ones. A stream that cannot be read is left out alone (I9, R123). */
async function verdict(core: LogCore, one: Gathered, dropped: boolean, known: RangeSum | undefined): Promise<Gathered | LeftOut> {
  const { stream } = one;
  const out = (as: LeftOutAs, why: string): LeftOut => ({ stream, as, why });
  try {
    const now = await core.using(stream.key, (slot) => slot.durable);
    if (now === null || now.incarnation !== stream.incarnation) return out('gone', 'deleted');
    if (dropped) return stream.packSnapshot && !isSameSnapshot(now.snapshot, stream.state.snapshot) ? out('restless', 'its snapshot was superseded') : out('unreadable', 'could not be read');
    if (one.broken !== null) return out('unreadable', one.broken);
    if (now.sealed > stream.from && stream.to > stream.from) return out('restless', `sealed to ${now.sealed} already`);
    if (one.sum.end !== stream.to) return out('unreadable', `objects hold it to ${one.sum.end} of ${stream.to}`);
    if (stream.packSnapshot && one.snapshot === null) return out('unreadable', 'its snapshot is not in the objects');
    if (stream.to === stream.from) return one;
    const sum = known ?? await hotSum(core.store, { slot: stream.slot, incarnation: stream.incarnation, from: stream.from, to: stream.to });
    return sum.equals(one.sum) ? one : out('damaged', 'its cold bytes are not those that were appended');
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return out(isHotDamage(error) ? 'damaged' : 'unreadable', error.message);
  }
}

/** Whether the snapshot that is visible now is the one of then. */
export function isSameSnapshot(now: SnapshotRecord | null, then: SnapshotRecord | null): boolean {
  return now !== null && then !== null && sameSnapshot(now, then);
}

function deltaOf({ stream, refs, snapshot }: Gathered): LogDelta {
  const planned = stream.state.snapshot;
  const state = planned === null || snapshot === null ? stream.state : { ...stream.state, snapshot: { ...planned, cold: { at: 'block' as const, ref: snapshot } } };
  return { kind: 'seal', key: stream.key, state, producers: stream.producers, refs };
}
