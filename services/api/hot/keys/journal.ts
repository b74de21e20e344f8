/**
 * Small appends of one batch, together: `kind | number of the batch (8)` -> entries, one a stream. Written with the batch, gone once the streams' own rows hold what it says.
 *
 * Layout of the value: version u8 | entry count | per entry: stream row key, incarnation, state (no bytes: only the tail moved), producer count, per producer: id, record; then start, append count,
 * per append: time relative to the one before (the first: to 0), bytes | CRC32C of all that. Keys, values and bytes have their length before them; counts, lengths and times are varints. State and producer record are the
 * values of the rows that they stand for.
 */
import type { Incarnation, Offset } from '../../../../shared/protocol/types.js';
import { BLOCK_PAYLOAD_MAX, type Append } from '../../../../shared/storage/block.js';
import { decodeStored, encodeStored, type ByteReader } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putU64, within, type KeyRange } from './layout.js';

const VERSION = 1;
/** Longest key, value or append. */
const PART_BYTES_MAX = BLOCK_PAYLOAD_MAX;

/** What a batch did to one stream by nothing but appends. */
export interface JournalEntry {
  /** Key of the stream's row. */
  readonly rowKey: Buffer;
  readonly incarnation: Incarnation;
  /** Value of the stream's row behind the appends; null: as before, but for tail and change. */
  readonly state: Buffer | null;
  readonly producers: readonly { readonly id: string; readonly value: Buffer }[];
  /** Where the first of the appends begins. */
  readonly start: Offset;
  readonly appends: readonly Append[];
}

export const journalRow = {
  kind: KIND.journal,
  key(batch: number): Buffer {
    const key = newKey(KIND.journal, 8);
    putU64(key, batch, 1);
    return key;
  },
  range(): KeyRange {
    return within(newKey(KIND.journal, 0));
  },
  decodeKey(key: Buffer): { readonly batch: number } {
    const reader = new KeyReader(key, 'journal', KIND.journal, 8);
    const decoded = { batch: reader.u64() };
    reader.end();
    return decoded;
  },
  encode(entries: readonly JournalEntry[]): Buffer {
    return encodeStored(VERSION, entries, (writer) => {
      writer.varint(entries.length);
      for (const { rowKey, incarnation, state, producers, start, appends } of entries) {
        writer.bytes(rowKey);
        writer.varint(incarnation);
        writer.bytes(state ?? NOTHING);
        writer.varint(producers.length);
        for (const { id, value } of producers) {
          writer.string(id);
          writer.bytes(value);
        }
        writer.varint(start);
        writer.varint(appends.length);
        let before = 0;
        for (const { payload, atMs } of appends) {
          writer.zigzag(atMs - before);
          writer.bytes(payload);
          before = atMs;
        }
      }
    });
  },
  decode(value: Buffer): JournalEntry[] {
    return decodeStored(value, 'journal row', VERSION, (reader) => reader.many(16, readEntry));
  },
};

const NOTHING = Buffer.alloc(0);

function readEntry(reader: ByteReader): JournalEntry {
  const rowKey = reader.bytes(PART_BYTES_MAX);
  const incarnation = reader.varint() as Incarnation;
  const state = reader.bytes(PART_BYTES_MAX);
  const producers = reader.many(2, (each) => ({ id: each.string(), value: each.bytes(PART_BYTES_MAX) }));
  const start = reader.varint() as Offset;
  let atMs = 0;
  const appends = reader.many(2, (each) => {
    atMs += each.zigzag();
    return { atMs, payload: each.bytes(PART_BYTES_MAX) };
  });
  return { rowKey, incarnation, state: state.length === 0 ? null : state, producers, start, appends };
}
