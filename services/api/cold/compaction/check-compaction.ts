/**
 * Compares what a compaction wrote with what it is to replace (I3), before a log record names it.
 *
 * Owns: the last look. Promises: every new object was read back whole, and every range in it has the bytes, the append boundaries and the times of the references that give way, which were read again here and
 * checked against every sum of theirs: nothing rests on the word of a worker. A range that is not there whole, or whose source is damaged, stays as it is, and the others go on (I6, I9).
 */
import type { Incarnation, Offset } from '../../../../shared/protocol/types.js';
import { decodeBlockHead } from '../../../../shared/storage/block.js';
import { parseDataObject, type DataObjectItem } from '../../../../shared/storage/data-object.js';
import type { ObjectStore } from '../../../../shared/storage/object-store.js';
import { refsSum } from '../../../../shared/storage/records/cold-ref.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import type { BlockRef, ColdRef, CompactedRange, CompactedSnapshot, ObjectInfo } from '../../../../shared/storage/records/types.js';
import { decodeSnapshotBody, sameSnapshot, type SnapshotIdentity } from '../../../../shared/storage/snapshot-body.js';
import { isSourceDamage, SourceFrames } from '../../../../shared/storage/source-frames.js';
import { Pace } from '../../../../shared/time/pace.js';
import type { PlanSource } from '../../../worker/node-port.js';
import { RangeSum } from '../hot-blocks.js';
import { writtenBody } from '../just-written.js';
import type { CompactDelta } from './apply-compaction.js';
import type { CompactContents } from './contents.js';

/** Items of an object between two turns of others. */
const REST_ITEMS = 8;

/** A source that stays as it is. `damaged`: what it names cannot be read. */
export interface SourceLeftOut {
  readonly source: PlanSource;
  readonly damaged: boolean;
  readonly why: string;
}

export interface CheckedCompaction {
  readonly deltas: readonly CompactDelta[];
  /** Objects that the changes name. */
  readonly objects: readonly ObjectInfo[];
  readonly leftOut: readonly SourceLeftOut[];
  /** Stored bytes of the sources, as far as they were fetched. */
  readonly bytesRead: number;
  /** References that give way, and those that come. */
  readonly refsBefore: number;
  readonly refsAfter: number;
}

/** What the new objects hold of one source. */
class Gathered {
  readonly refs: ColdRef[] = [];
  readonly sum: RangeSum;
  readonly from: Offset;
  readonly to: Offset;
  resumes = false;
  snapshot: { readonly ref: BlockRef; readonly is: SnapshotIdentity } | null = null;
  broken: string | null = null;

  constructor(readonly source: PlanSource) {
    this.from = source.refs[0]?.start ?? (0 as Offset);
    this.to = source.refs.at(-1)?.end ?? this.from;
    this.sum = new RangeSum(this.from);
  }

  take(object: ObjectInfo, item: DataObjectItem): void {
    if (item.key !== this.source.key) this.broken = `an object names it ${item.key}`;
    if (item.kind === 'snapshot') {
      this.snapshot = { ref: { ...item.ref, object: object.id }, is: decodeSnapshotBody(item.value) };
      return;
    }
    const head = decodeBlockHead(item.value);
    if (this.refs.length === 0) this.resumes = head.resumes;
    if (!this.sum.add(head)) this.broken = `a block from ${item.start} where ${this.sum.end} comes next`;
    this.refs.push({ ...item.ref, object: object.id, start: item.start, end: item.end });
  }
}

/** Sources of each life, ranges in order and then the snapshot. */
class Sources {
  readonly all: readonly Gathered[];
  readonly #lives = new Map<Incarnation, Gathered[]>();

  constructor(contents: CompactContents) {
    this.all = contents.sources.map((source) => new Gathered(source));
    for (const one of this.all) {
      const { incarnation } = one.source;
      const life = this.#lives.get(incarnation);
      if (life === undefined) this.#lives.set(incarnation, [one]);
      else life.push(one);
    }
  }

  of(item: DataObjectItem): Gathered | undefined {
    const life = this.#lives.get(item.incarnation);
    if (item.kind === 'snapshot') return life?.find(({ source }) => source.snapshot !== null);
    return life?.find(({ source, from, to }) => source.snapshot === null && from <= item.start && item.start < to);
  }
}

/** Throws when an object is not what its writer said: the try failed as a whole. */
export async function checkCompaction(store: ObjectStore, contents: CompactContents, uploaded: readonly ObjectInfo[], signal: AbortSignal): Promise<CheckedCompaction> {
  const sources = new Sources(contents);
  for (const object of uploaded) await readBack(store, object, sources, signal);
  const frames = new SourceFrames(store, signal);
  const leftOut: SourceLeftOut[] = [];
  const lives = new Map<Incarnation, { key: CompactDelta['key']; ranges: CompactedRange[]; snapshot: CompactedSnapshot | null }>();
  const named = new Set<string>();
  let refsBefore = 0;
  let refsAfter = 0;
  for (const one of sources.all) {
    const { source } = one;
    const fault = await faultOf(one, frames);
    if (fault !== null) {
      leftOut.push({ source, ...fault });
      continue;
    }
    const life = lives.get(source.incarnation) ?? { key: source.key, ranges: [], snapshot: null };
    lives.set(source.incarnation, life);
    refsBefore += Math.max(1, source.refs.length);
    refsAfter += Math.max(1, one.refs.length);
    if (source.snapshot !== null && one.snapshot !== null) life.snapshot = { offset: one.snapshot.is.offset, was: source.snapshot, ref: one.snapshot.ref };
    else life.ranges.push({ from: one.from, to: one.to, was: { refs: source.refs.length, sum: refsSum(source.refs) }, refs: one.refs });
    for (const { object } of one.snapshot === null ? one.refs : [one.snapshot.ref]) named.add(objectKey(object));
  }
  const deltas = [...lives].map(([incarnation, life]): CompactDelta => ({ kind: 'compact', incarnation, ...life }));
  return { deltas, objects: uploaded.filter(({ id }) => named.has(objectKey(id))), leftOut, bytesRead: frames.bytesRead, refsBefore, refsAfter };
}

async function readBack(store: ObjectStore, object: ObjectInfo, sources: Sources, signal: AbortSignal): Promise<void> {
  const body = await writtenBody(store, object, signal);
  const pace = new Pace();
  let toRest = REST_ITEMS;
  for await (const item of parseDataObject(body)) {
    sources.of(item)?.take(object, item);
    if (--toRest > 0) continue;
    toRest = REST_ITEMS;
    await pace.rest(signal);
  }
}

/** Why a source has to stay as it is, null when its bytes are all there. */
async function faultOf(one: Gathered, frames: SourceFrames): Promise<Omit<SourceLeftOut, 'source'> | null> {
  const { source } = one;
  try {
    if (source.snapshot !== null) {
      const was = await frames.snapshot(source.snapshot);
      return one.broken === null && one.snapshot !== null && sameSnapshot(was, one.snapshot.is) ? null : { damaged: false, why: one.broken ?? 'the objects hold no such snapshot' };
    }
    const sum = new RangeSum(one.from);
    let resumes = false;
    for await (const block of frames.blocks(source.refs)) {
      const head = decodeBlockHead(block);
      if (head.start === one.from) resumes = head.resumes;
      if (!sum.add(head)) return { damaged: true, why: `its references go on at ${head.start} where ${sum.end} comes next` };
    }
    if (one.broken !== null || one.sum.end !== one.to) return { damaged: false, why: one.broken ?? `objects hold it to ${one.sum.end} of ${one.to}` };
    return sum.equals(one.sum) && resumes === one.resumes ? null : { damaged: false, why: 'the new bytes are not those that they are to replace' };
  } catch (error) {
    if (!isSourceDamage(error)) throw error;
    return { damaged: true, why: error.message };
  }
}
