/**
 * Reads the bytes of a stream from their hot copies.
 *
 * Owns: `HotReader` over data rows. Promises: exactly the bytes asked for, proven by their sums and by touching ranges, or an error: `HotGap` where a copy is missing,
 * `HotDamaged` where one is wrong, never a short end (I1, I9). A store that is opened again meanwhile is read on at the own offset.
 *
 * Each page is a scan of its own: a slow consumer pins no view of the store, and rows that were folded between two pages are found by their end. One that rests holds no page
 * either, only what it was given: hundreds of clients that take nothing cost one piece each (R053).
 */
import { advance, type Incarnation, type Offset } from '../../../shared/protocol/types.js';
import { decodeBlockSpan, entryEndIn } from '../../../shared/storage/block.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { crc32cRange } from '../../../shared/storage/crc.js';
import { HotDamaged, HotGap, HotStoreCorrupt } from './errors.js';
import { dataRow } from './keys/data.js';
import { StoreClosed, type HotEntry, type HotReads } from './store.js';

/** Bytes fetched at a time; a page may exceed this by one block. */
export const READ_PAGE_BYTES = 1_048_576;
/** ... of a reader that has rested. */
const SLOW_PAGE_BYTES = READ_PAGE_BYTES / 4;
/** A page with this share of its bytes is not filled up: what the store has fetched beyond would be thrown away. */
const PAGE_ENOUGH = 1 / 2;
/** A reader that takes the next piece only after so long has rested, ms. */
const REST_MS = 50;
/** Allowance for keys and heads of blocks, so that a read of few bytes fetches its rows in one page and no more. */
const PAGE_SLACK_BYTES = 4_096;
/** Shorter pieces are joined: handing on many small ones costs more than copying them. */
const PIECE_BYTES_MIN = 32_768;
const PIECE_BYTES_MAX = 262_144;

/** The bytes of a stream that have a hot copy. */
export interface HotReader {
  /**
   * Bytes [from, to) of the incarnation, from hot copies alone, contiguous, in pieces of at most 1 MiB. Throws `HotGap` where a copy is missing
   * (evicted meanwhile: look at the stream's state again once), never ends short.
   */
  bytes(slot: number, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): AsyncIterable<Buffer>;
  /** Where the entry that holds `at` ends in its value; `whole`: the append ends there. Throws `HotGap`. */
  entryEnd(slot: number, incarnation: Incarnation, at: Offset): Promise<{ readonly end: Offset; readonly whole: boolean }>;
}

/** Where in a stream a read stands. */
interface Position {
  readonly slot: number;
  readonly incarnation: Incarnation;
  at: Offset;
  readonly to: Offset;
  pageBytes: number;
}

/** A proven block. */
interface Row {
  readonly start: Offset;
  readonly end: Offset;
  readonly payloadAt: number;
  readonly value: Buffer;
}

export function createHotReader(store: Pick<HotReads, 'scan'>): HotReader {
  return {
    async *bytes(slot, incarnation, from, to, signal) {
      const position = { slot, incarnation, at: from, to, pageBytes: READ_PAGE_BYTES };
      let resting: NodeJS.Timeout | undefined;
      try {
        for await (const rows of pages(store, position, signal)) {
          // What was not given is read again.
          const forget = (): void => {
            rows.length = 0;
            position.pageBytes = SLOW_PAGE_BYTES;
          };
          for (const piece of pieces(rows, position.at, to)) {
            position.at = advance(position.at, piece.length);
            if (rows.length > 1) resting = setTimeout(forget, REST_MS).unref();
            yield piece;
            clearTimeout(resting);
          }
          // This function lives on until its caller has given the last piece away.
          rows.length = 0;
        }
      } finally {
        clearTimeout(resting);
      }
    },
    async entryEnd(slot, incarnation, at) {
      for await (const rows of pages(store, { slot, incarnation, at, to: advance(at, 1), pageBytes: SLOW_PAGE_BYTES }, undefined)) return entryEndIn((rows[0] as Row).value, at);
      throw new HotGap(incarnation, at);
    },
  };
}

/** Rows that cover the range, in order and without holes. The consumer moves the position on. */
async function* pages(store: Pick<HotReads, 'scan'>, position: Position, signal: AbortSignal | undefined): AsyncGenerator<Row[], void, void> {
  let reopened = false;
  while (position.at < position.to) {
    signal?.throwIfAborted();
    let rows: Row[];
    try {
      rows = await page(store, position);
    } catch (error) {
      if (error instanceof HotStoreCorrupt) throw new HotDamaged(position.incarnation, position.at, error.message, { cause: error });
      // The store was closed, perhaps to be opened again: the next scan waits for that, and fails when it was for good.
      if (!(error instanceof StoreClosed) || reopened) throw error;
      reopened = true;
      continue;
    }
    reopened = false;
    signal?.throwIfAborted();
    yield rows;
  }
}

/** At least one row, the first holding `at`. */
async function page(store: Pick<HotReads, 'scan'>, position: Position): Promise<Row[]> {
  const { slot, incarnation, at, to } = position;
  const rows: Row[] = [];
  let expected: Offset = at;
  const pageBytes = Math.min(position.pageBytes, to - at + PAGE_SLACK_BYTES);
  for await (const entries of store.scan({ ...dataRow.covering(slot, incarnation, at, to), pageBytes })) {
    for (const entry of entries) {
      const row = decodeRow(entry, incarnation, expected);
      const { start, end } = row;
      if (start > expected || (rows.length > 0 && start < expected)) {
        if (start < expected) throw new HotDamaged(incarnation, expected, `a value begins at ${start}`);
        if (rows.length > 0) return rows;
        throw new HotGap(incarnation, expected);
      }
      rows.push(row);
      expected = end;
      if (end >= to) return rows;
    }
    if (expected - at >= position.pageBytes * PAGE_ENOUGH) return rows;
  }
  if (rows.length === 0) throw new HotGap(incarnation, expected);
  return rows;
}

function decodeRow(entry: HotEntry, incarnation: Incarnation, at: Offset): Row {
  try {
    const { value } = entry;
    const { start, end, crc, payloadAt } = decodeBlockSpan(value);
    if (crc32cRange(value, payloadAt, value.length) !== crc) throw new BadBytes('data row', 'checksum of the payload does not match');
    if (end !== dataRow.decodeKey(entry.key).end) throw new BadBytes('data row', `a block up to ${end} under another end`);
    return { start, end, payloadAt, value };
  } catch (error) {
    if (error instanceof BadBytes) throw new HotDamaged(incarnation, at, error.message, { cause: error });
    throw error;
  }
}

/** The payloads within [from, to): long ones as views, runs of short ones joined. */
function* pieces(rows: readonly Row[], from: Offset, to: Offset): Generator<Buffer, void, void> {
  let short: Buffer[] = [];
  let shortBytes = 0;
  for (const { start, end, payloadAt, value } of rows) {
    const piece = value.subarray(payloadAt + Math.max(0, from - start), payloadAt + Math.min(end, to) - start);
    const joins = piece.length < PIECE_BYTES_MIN && shortBytes + piece.length <= PIECE_BYTES_MAX;
    if (!joins && shortBytes > 0) {
      yield joined(short, shortBytes);
      short = [];
      shortBytes = 0;
    }
    if (piece.length >= PIECE_BYTES_MIN) {
      yield piece;
    } else {
      short.push(piece);
      shortBytes += piece.length;
    }
  }
  if (shortBytes > 0) yield joined(short, shortBytes);
}

function joined(short: readonly Buffer[], bytes: number): Buffer {
  return short.length === 1 ? (short[0] as Buffer) : Buffer.concat(short, bytes);
}
