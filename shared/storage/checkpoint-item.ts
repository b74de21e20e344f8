/**
 * Items of a checkpoint: the merged state of each stream as the log knows it (design section 6).
 *
 * Owns: their bytes and their order. A stream comes as one `stream` item, then any number of `producers` and `refs` items, so that one stream of millions of ranges needs no more
 * memory than another. Streams are ordered by slot, then by the bytes of the key.
 */
import type { StreamKey } from '../protocol/types.js';
import type { ByteReader, ByteWriter } from './codec.js';
import { readRefs, writeRefs } from './records/cold-ref.js';
import { NAMED_PRODUCER_BYTES_MIN, readNamedProducer, writeNamedProducer } from './records/producer-record.js';
import { readStreamRecord, writeStreamRecord } from './records/stream-record.js';
import type { ColdRef, NamedProducer, StreamRecord } from './records/types.js';
import { slotOf } from './slots.js';

const STREAM = 1;
const PRODUCERS = 2;
const REFS = 3;

/** One stream, whole: for streams of ordinary size and for tests. */
export interface CheckpointEntry {
  readonly key: StreamKey;
  readonly state: StreamRecord;
  readonly producers: readonly NamedProducer[];
  /** All published ranges in order, [retained or below, sealed). */
  readonly refs: readonly ColdRef[];
}

export type CheckpointItem =
  | { readonly kind: 'stream'; readonly key: StreamKey; readonly state: StreamRecord }
  /** More producers of the last stream. */
  | { readonly kind: 'producers'; readonly producers: readonly NamedProducer[] }
  /** More references of the last stream, the first one where the last one ended. */
  | { readonly kind: 'refs'; readonly refs: readonly ColdRef[] };

/** Producers or references of one item: bounds its bytes, with ids of 256 bytes to about 128 KiB. */
export const GROUP_MAX = 256;

export function writeCheckpointItem(writer: ByteWriter, item: CheckpointItem): void {
  switch (item.kind) {
    case 'stream':
      writer.u8(STREAM);
      writer.string(item.key);
      writeStreamRecord(writer, item.state);
      return;
    case 'producers':
      writer.u8(PRODUCERS);
      writer.varint(checkedGroup(item.producers.length));
      for (const producer of item.producers) writeNamedProducer(writer, producer);
      return;
    case 'refs':
      writer.u8(REFS);
      checkedGroup(item.refs.length);
      writeRefs(writer, item.refs);
      return;
    default:
      throw new Error(`unknown item ${(item satisfies never as CheckpointItem).kind}`);
  }
}

export function readCheckpointItem(reader: ByteReader): CheckpointItem {
  const kind = reader.u8();
  if (kind === STREAM) return { kind: 'stream', key: reader.string() as StreamKey, state: readStreamRecord(reader) };
  if (kind === PRODUCERS) return { kind: 'producers', producers: reader.many(NAMED_PRODUCER_BYTES_MIN, readNamedProducer) };
  if (kind === REFS) return { kind: 'refs', refs: readRefs(reader) };
  throw reader.bad(`unknown item ${kind}`);
}

/** The items of one whole entry. */
export function* itemsOfEntry(entry: CheckpointEntry): Generator<CheckpointItem> {
  yield { kind: 'stream', key: entry.key, state: entry.state };
  for (let at = 0; at < entry.producers.length; at += GROUP_MAX) yield { kind: 'producers', producers: entry.producers.slice(at, at + GROUP_MAX) };
  for (let at = 0; at < entry.refs.length; at += GROUP_MAX) yield { kind: 'refs', refs: entry.refs.slice(at, at + GROUP_MAX) };
}

/** Joins items to whole entries: as much memory as the largest stream needs. */
export async function* entriesOfItems(items: AsyncIterable<CheckpointItem>): AsyncGenerator<CheckpointEntry> {
  let open: { key: StreamKey; state: StreamRecord; producers: NamedProducer[]; refs: ColdRef[] } | null = null;
  for await (const item of items) {
    if (item.kind === 'stream') {
      if (open !== null) yield open;
      open = { key: item.key, state: item.state, producers: [], refs: [] };
    } else if (open === null) {
      throw new Error('checkpoint items begin without a stream');
    } else if (item.kind === 'producers') {
      open.producers.push(...item.producers);
    } else {
      open.refs.push(...item.refs);
    }
  }
  if (open !== null) yield open;
}

/** Order of streams in a checkpoint: negative, zero or positive. */
export function compareCheckpointKeys(a: StreamKey, b: StreamKey): number {
  return slotOf(a) - slotOf(b) || Buffer.compare(Buffer.from(a, 'utf8'), Buffer.from(b, 'utf8'));
}

/** Says what is wrong with a row of items, item by item: order of the streams, and references without a gap (I3). */
export class CheckpointOrder {
  private key: StreamKey | null = null;
  private refsEnd: number | null = null;

  fault(item: CheckpointItem): string | null {
    if (item.kind === 'stream') {
      if (this.key !== null && compareCheckpointKeys(this.key, item.key) >= 0) return `stream ${item.key} behind ${this.key}`;
      this.key = item.key;
      this.refsEnd = null;
      return null;
    }
    if (this.key === null) return `${item.kind} without a stream`;
    if (item.kind === 'producers') return item.producers.length === 0 ? 'an empty group' : null;
    const first = item.refs[0];
    const last = item.refs.at(-1);
    if (first === undefined || last === undefined) return 'an empty group';
    if (this.refsEnd !== null && first.start !== this.refsEnd) return `a gap before the cold reference at ${first.start}`;
    this.refsEnd = last.end;
    return null;
  }
}

function checkedGroup(count: number): number {
  if (count === 0 || count > GROUP_MAX) throw new RangeError(`a group of ${count}`);
  return count;
}
