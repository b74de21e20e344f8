/**
 * Items of a checkpoint: the merged state of each subscription and each stream as the log knows it (architecture section 6).
 *
 * Owns: their bytes and their order. Subscriptions come first, by the bytes of their ids: one `subscription` item each, then any number of `links` and `cursors` items. A stream comes as one `stream` item,
 * then any number of `producers` and `refs` items, so that one stream of millions of ranges needs no more memory than another. Streams are ordered by slot, then by the bytes of the key.
 */
import type { StreamKey } from '../protocol/types.js';
import type { ByteReader, ByteWriter } from './codec.js';
import { readRefs, writeRefs } from './records/cold-ref.js';
import { NAMED_PRODUCER_BYTES_MIN, readNamedProducer, writeNamedProducer } from './records/producer-record.js';
import { readStreamRecord, writeStreamRecord } from './records/stream-record.js';
import { LINK_CURSOR_BYTES_MIN, NAMED_LINK_BYTES_MIN, readLinkCursor, readNamedLink, readSubscriptionConfig, writeLinkCursor, writeNamedLink, writeSubscriptionConfig } from './records/subscription-config.js';
import type { ColdRef, LinkCursor, NamedLink, NamedProducer, StreamRecord, SubscriptionConfig } from './records/types.js';
import { slotOf } from './slots.js';

const STREAM = 1;
const PRODUCERS = 2;
const REFS = 3;
const SUBSCRIPTION = 4;
const LINKS = 5;
const CURSORS = 6;

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
  | { readonly kind: 'refs'; readonly refs: readonly ColdRef[] }
  | { readonly kind: 'subscription'; readonly id: string; readonly config: SubscriptionConfig }
  /** More streams that the last subscription names. */
  | { readonly kind: 'links'; readonly links: readonly NamedLink[] }
  /** More cursors of the last subscription to streams that its pattern matches. */
  | { readonly kind: 'cursors'; readonly cursors: readonly LinkCursor[] };

/** Producers, references, links or cursors of one item: bounds its bytes, with ids of 256 bytes to about 128 KiB, with keys of 1 KiB to about 256 KiB. */
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
    case 'subscription':
      writer.u8(SUBSCRIPTION);
      writer.string(item.id);
      writeSubscriptionConfig(writer, item.config);
      return;
    case 'links':
      writer.u8(LINKS);
      writer.varint(checkedGroup(item.links.length));
      for (const link of item.links) writeNamedLink(writer, link);
      return;
    case 'cursors':
      writer.u8(CURSORS);
      writer.varint(checkedGroup(item.cursors.length));
      for (const cursor of item.cursors) writeLinkCursor(writer, cursor);
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
  if (kind === SUBSCRIPTION) return { kind: 'subscription', id: reader.string(), config: readSubscriptionConfig(reader) };
  if (kind === LINKS) return { kind: 'links', links: reader.many(NAMED_LINK_BYTES_MIN, readNamedLink) };
  if (kind === CURSORS) return { kind: 'cursors', cursors: reader.many(LINK_CURSOR_BYTES_MIN, readLinkCursor) };
  throw reader.bad(`unknown item ${kind}`);
}

/** The items of one whole entry. */
export function* itemsOfEntry(entry: CheckpointEntry): Generator<CheckpointItem> {
  yield { kind: 'stream', key: entry.key, state: entry.state };
  for (let at = 0; at < entry.producers.length; at += GROUP_MAX) yield { kind: 'producers', producers: entry.producers.slice(at, at + GROUP_MAX) };
  for (let at = 0; at < entry.refs.length; at += GROUP_MAX) yield { kind: 'refs', refs: entry.refs.slice(at, at + GROUP_MAX) };
}

/** Joins items of streams to whole entries, and leaves subscriptions out: as much memory as the largest stream needs. */
export async function* entriesOfItems(items: AsyncIterable<CheckpointItem>): AsyncGenerator<CheckpointEntry> {
  let open: { key: StreamKey; state: StreamRecord; producers: NamedProducer[]; refs: ColdRef[] } | null = null;
  for await (const item of items) {
    if (isOfSubscription(item)) continue;
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

/** Very many keys in that order: each slot is made once, and not for every pair that is compared. */
export function sortedCheckpointKeys(keys: Iterable<StreamKey>): StreamKey[] {
  const all = [...keys];
  const slots = Uint16Array.from(all, (key) => slotOf(key));
  const order = Uint32Array.from(all.keys()).sort((a, b) => (slots[a] as number) - (slots[b] as number) || compareCheckpointKeys(all[a] as StreamKey, all[b] as StreamKey));
  return Array.from(order, (n) => all[n] as StreamKey);
}

/** Order of subscriptions in a checkpoint. */
export function compareSubscriptionIds(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a, 'utf8'), Buffer.from(b, 'utf8'));
}

type SubscriptionPart = Extract<CheckpointItem, { kind: 'subscription' | 'links' | 'cursors' }>;

function isOfSubscription(item: CheckpointItem): item is SubscriptionPart {
  return item.kind === 'subscription' || item.kind === 'links' || item.kind === 'cursors';
}

/** Says what is wrong with a row of items, item by item: order of subscriptions and streams, and references without a gap (I3). */
export class CheckpointOrder {
  private id: string | null = null;
  private key: StreamKey | null = null;
  private refsEnd: number | null = null;

  fault(item: CheckpointItem): string | null {
    if (isOfSubscription(item)) return this.subscriptionFault(item);
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

  private subscriptionFault(item: SubscriptionPart): string | null {
    if (this.key !== null) return `${item.kind} behind stream ${this.key}`;
    if (item.kind === 'subscription') {
      if (this.id !== null && compareSubscriptionIds(this.id, item.id) >= 0) return `subscription ${item.id} behind ${this.id}`;
      this.id = item.id;
      return null;
    }
    if (this.id === null) return `${item.kind} without a subscription`;
    return (item.kind === 'links' ? item.links : item.cursors).length === 0 ? 'an empty group' : null;
  }
}

function checkedGroup(count: number): number {
  if (count === 0 || count > GROUP_MAX) throw new RangeError(`a group of ${count}`);
  return count;
}
