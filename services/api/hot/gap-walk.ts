/**
 * Which streams lost bytes: run when the chain of batches is broken, to say what the damage means.
 *
 * Owns: the walk over stream states and the values they promise (I1: [hotStart, tail) is hot). Reads everything hot once; nothing is changed.
 */
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { decodeBlockSpan } from '../../../shared/storage/block.js';
import { heldFrom } from '../../../shared/storage/records/stream-record.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { checkedScan } from './checked-reads.js';
import { HotStoreCorrupt } from './errors.js';
import { addTo, entriesOf } from './journal-replay.js';
import { dataRow } from './keys/data.js';
import { journalRow } from './keys/journal.js';
import { streamRow } from './keys/stream.js';
import type { HotReads } from './store.js';

/** Streams that are named; more are not looked for. */
const STREAMS_NAMED_MAX = 1_000;

export interface StreamGap {
  readonly key: StreamKey;
  readonly detail: string;
}

/** Streams with a hole, a missing end, bytes above their tail, or values that cannot be read. Throws `HotStoreDamaged` for a journal that cannot be read. */
export async function streamsWithGaps(store: HotReads): Promise<StreamGap[]> {
  const gaps: StreamGap[] = [];
  const journal = await journaledRanges(store);
  for await (const page of checkedScan(store, streamRow.range())) {
    for (const entry of page) {
      const { slot, key } = streamRow.decodeKey(entry.key);
      const record = streamRow.decode(entry.value);
      const detail = (await gapOf(store, slot, record)) ?? gapBehind(record.tail, journal.get(record.incarnation) ?? []);
      if (detail !== null) gaps.push({ key, detail });
      if (gaps.length >= STREAMS_NAMED_MAX) return gaps;
    }
  }
  return gaps;
}

interface Range {
  readonly start: Offset;
  readonly end: Offset;
}

/** What the journal holds of each stream, in order. */
async function journaledRanges(store: HotReads): Promise<ReadonlyMap<Incarnation, readonly Range[]>> {
  const ranges = new Map<Incarnation, Range[]>();
  for await (const page of checkedScan(store, journalRow.range())) {
    for (const { key, value } of page) {
      for (const { incarnation, start, end } of entriesOf(key, value)) addTo(ranges, incarnation, { start, end });
    }
  }
  return ranges;
}

function gapBehind(tail: Offset, ranges: readonly Range[]): string | null {
  let expected = tail;
  for (const { start, end } of ranges) {
    if (end <= expected) continue;
    if (start !== expected) return `no bytes from ${expected} to ${start}`;
    expected = end;
  }
  return null;
}

async function gapOf(store: HotReads, slot: number, record: StreamRecord): Promise<string | null> {
  let expected = Math.max(record.hotStart, heldFrom(record));
  let first = true;
  try {
    for await (const page of store.scan(dataRow.range(slot, record.incarnation, expected + 1))) {
      for (const { key, value } of page) {
        const head = decodeBlockSpan(value);
        if (head.end !== dataRow.decodeKey(key).end) return `the value before ${head.end} is damaged`;
        // The first value may begin below the earliest offset that is still readable.
        if (first ? head.start > expected : head.start !== expected) return `no bytes from ${expected} to ${head.start}`;
        first = false;
        expected = head.end;
      }
    }
  } catch (error) {
    if (error instanceof BadBytes || error instanceof HotStoreCorrupt) return `cannot be read above ${expected}: ${error.message}`;
    throw error;
  }
  if (expected < record.tail) return `no bytes from ${expected} to its tail ${record.tail}`;
  return expected > record.tail ? `bytes up to ${expected} above its tail ${record.tail}` : null;
}
