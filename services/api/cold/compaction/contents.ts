/**
 * The contents of a compaction: which references of which streams are put together (architecture section 6, "Compaction").
 *
 * Owns: the choice at the moment of the plan, from what was found before. Promises: bounds of a plan (I11); sources in the order in which they go into objects; deleted and trimmed ranges and superseded
 * snapshots are no part of it. What it says is a proposal: whether it holds is looked at again at commit and at apply (I6).
 */
import type { Incarnation } from '../../../../shared/protocol/types.js';
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import { heldFrom } from '../../../../shared/storage/records/stream-record.js';
import type { BlockRef, StreamRecord } from '../../../../shared/storage/records/types.js';
import { slotOf } from '../../../../shared/storage/slots.js';
import type { PlanSource } from '../../../worker/node-port.js';
import { refRow } from '../../hot/keys/index.js';
import type { LogCore } from '../../log/core.js';
import { isHotDamage } from '../damage.js';
import { COMPACT_BYTES_MAX, COMPACT_OBJECTS_MAX, COMPACT_REFS_MAX, COMPACT_SOURCES_MAX, COMPACT_STREAMS_MAX } from '../limits.js';
import { RangeChooser, type ChooseOptions } from './choose-ranges.js';
import type { FoundStream } from './find-streams.js';

export interface CompactContents {
  readonly sources: readonly PlanSource[];
  readonly streams: number;
  readonly refs: number;
  /** Raw bytes of what is put together. */
  readonly rawBytes: number;
}

export interface ContentsRequest {
  readonly found: readonly FoundStream[];
  /** Where to begin in it. */
  readonly from: number;
  readonly choose: ChooseOptions;
  readonly isParked: (incarnation: Incarnation) => boolean;
}

/** Contents of the next plan, and where the one after it begins. `found` is sorted by incarnation: as objects are, so that each is read from front to end. */
export async function collectContents(core: LogCore, request: ContentsRequest): Promise<{ readonly contents: CompactContents; readonly next: number }> {
  const room = new Room();
  const sources: PlanSource[] = [];
  let at = request.from;
  for (; at < request.found.length && !room.full; at++) {
    const stream = request.found[at] as FoundStream;
    if (request.isParked(stream.incarnation)) continue;
    const chosen = await sourcesOf(core, stream, request.choose);
    if (chosen.length === 0) continue;
    // Its turn comes with the next plan, where it finds the room that it needs.
    if (!room.take(chosen) && sources.length > 0) break;
    for (const one of chosen) sources.push({ ...one, source: sources.length });
  }
  return { contents: { sources, streams: room.streams, refs: room.refs, rawBytes: room.bytes }, next: at };
}

type Unnumbered = Omit<PlanSource, 'source'>;

async function sourcesOf(core: LogCore, { key, incarnation }: FoundStream, choose: ChooseOptions): Promise<Unnumbered[]> {
  let record: StreamRecord | null;
  try {
    record = await core.using(key, (slot) => slot.durable);
    if (record === null || record.incarnation !== incarnation) return [];
    const chooser = new RangeChooser(choose);
    for await (const page of core.store.scan(refRow.range(slotOf(key), incarnation, heldFrom(record) + 1))) for (const { value } of page) chooser.add(refRow.decode(value));
    chooser.end();
    const chosen: Unnumbered[] = chooser.chosen.map((refs) => ({ key, incarnation, refs, snapshot: null }));
    const cold = record.snapshot?.cold;
    if (cold?.at === 'block' && choose.rewrites(cold.ref.object)) chosen.push({ key, incarnation, refs: [], snapshot: cold.ref });
    return chosen;
  } catch (error) {
    if (!isHotDamage(error)) throw error;
    return [];
  }
}

class Room {
  bytes = 0;
  refs = 0;
  streams = 0;
  #sources = 0;
  readonly #objects = new Set<string>();

  get full(): boolean {
    return this.bytes >= COMPACT_BYTES_MAX || this.refs >= COMPACT_REFS_MAX || this.#sources >= COMPACT_SOURCES_MAX || this.streams >= COMPACT_STREAMS_MAX;
  }

  /** Takes what one stream brings; false: it would need more objects than one plan reads, and is not counted unless it is the first. */
  take(chosen: readonly Unnumbered[]): boolean {
    const blocks: BlockRef[] = chosen.flatMap(({ refs, snapshot }) => (snapshot === null ? [...refs] : [snapshot]));
    const objects = new Set(blocks.map(({ object }) => objectKey(object)));
    const more = [...objects].filter((key) => !this.#objects.has(key));
    const fits = this.#objects.size + more.length <= COMPACT_OBJECTS_MAX;
    if (!fits && this.#objects.size > 0) return false;
    for (const key of more) this.#objects.add(key);
    this.bytes += blocks.reduce((sum, { blockBytes }) => sum + blockBytes, 0);
    this.refs += blocks.length;
    this.#sources += chosen.length;
    this.streams++;
    return fits;
  }
}
