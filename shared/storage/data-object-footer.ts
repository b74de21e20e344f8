/**
 * The end of a data object: tables of its frames and of its ranges in pages, found from the last bytes (architecture section 6).
 *
 * Owns: pages | directory | trailer. Each page and the directory carry version and sum; the trailer says how long both are and carries the sum of the footer. A range
 * page is sorted by incarnation, offset and kind, and the directory tells the first of each, so that one range is found by three reads.
 */
import type { Incarnation, Offset } from '../protocol/types.js';
import { BadBytes, decodeStored, encodeStored, openStored, type ByteReader } from './codec.js';
import { crc32c, crc32cOf, storedSum } from './crc.js';
import { FRAME_OVERHEAD_BYTES, FRAME_RAW_BYTES_MAX } from './frame.js';
import { lengthOf } from './pieces.js';
import { readIncarnation } from './records/stream-record.js';

const VERSION = 1;
export const ITEMS_MAX = 65_536;
const PAGE_ENTRIES = 1_024;
/** Longest entries of the tables, and what a page costs beside its entries, in bytes: they bound the whole footer. */
const FRAME_ENTRY_BYTES_MAX = 12;
const ITEM_ENTRY_BYTES_MAX = 32;
const PAGE_COST_BYTES_MAX = 48;
const FRAMES = 0;
const ITEMS = 1;

/** "FIRN", "D" for data object, layout 1. At both ends. */
export const DATA_OBJECT_MAGIC = Buffer.from([0x46, 0x49, 0x52, 0x4e, 0x44, 0x01, 0x0d, 0x0a]);
const TRAILER_BYTES = 24;
/** A frame holds at least one item. */
export const FOOTER_BYTES_MAX = ITEMS_MAX * (FRAME_ENTRY_BYTES_MAX + ITEM_ENTRY_BYTES_MAX) + 2 * (ITEMS_MAX / PAGE_ENTRIES) * PAGE_COST_BYTES_MAX + 16 + TRAILER_BYTES;

export interface FrameEntry {
  readonly frameBytes: number;
  readonly rawBytes: number;
  readonly crc: number;
}

export interface ItemEntry {
  readonly kind: 'block' | 'snapshot';
  readonly incarnation: Incarnation;
  readonly start: Offset;
  readonly end: Offset;
  /** Number of its frame in the object. */
  readonly frame: number;
  readonly blockAt: number;
  readonly blockBytes: number;
}

export interface Footer {
  readonly frames: readonly FrameEntry[];
  /** Sorted. */
  readonly items: readonly ItemEntry[];
  /** Where the footer begins: the end of the last frame. */
  readonly at: number;
}

/** Order of ranges in the index: incarnation, offset, blocks before snapshots. */
function compareItems(a: ItemEntry, b: ItemEntry): number {
  return a.incarnation - b.incarnation || a.start - b.start || kindNumber(a) - kindNumber(b) || a.end - b.end;
}

export function encodeFooter(frames: readonly FrameEntry[], items: readonly ItemEntry[]): Buffer[] {
  if (items.length > ITEMS_MAX) throw new RangeError(`a data object of ${items.length} ranges`);
  const sorted = items.toSorted(compareItems);
  for (const [index, item] of sorted.entries()) {
    const before = sorted[index - 1];
    if (before !== undefined && compareItems(before, item) === 0) throw new Error(`a data object with ${item.kind} ${item.incarnation}@${item.start} twice`);
  }
  const pages: { readonly kind: number; readonly bytes: Buffer; readonly count: number; readonly first: ItemEntry | null }[] = [];
  for (let at = 0; at < frames.length; at += PAGE_ENTRIES) {
    const part = frames.slice(at, at + PAGE_ENTRIES);
    pages.push({ kind: FRAMES, bytes: encodeFramePage(part), count: part.length, first: null });
  }
  for (let at = 0; at < sorted.length; at += PAGE_ENTRIES) {
    const part = sorted.slice(at, at + PAGE_ENTRIES);
    pages.push({ kind: ITEMS, bytes: encodeItemPage(part), count: part.length, first: part[0] ?? null });
  }
  const directory = encodeStored(VERSION, pages, (writer, all) => {
    writer.varint(all.length);
    for (const page of all) {
      writer.u8(page.kind);
      writer.varint(page.bytes.length);
      writer.varint(page.count);
      if (page.first !== null) {
        writer.varint(page.first.incarnation);
        writer.varint(page.first.start);
      }
    }
  });
  const parts = [...pages.map((page) => page.bytes), directory];
  return [...parts, encodeTrailer(parts, directory.length)];
}

/** Reads the footer of a whole object. Throws `BadBytes`. */
export function decodeFooter(object: Buffer): Footer {
  const { footerAt, directoryAt, trailerAt } = decodeTrailer(object);
  const pages = decodeDirectory(object.subarray(directoryAt, trailerAt), directoryAt - footerAt);
  const frames: FrameEntry[] = [];
  const items: ItemEntry[] = [];
  let at = footerAt;
  for (const page of pages) {
    const bytes = object.subarray(at, at + page.bytes);
    at += page.bytes;
    const before = frames.length + items.length;
    if (page.kind === FRAMES) frames.push(...decodeFramePage(bytes));
    else items.push(...decodeItemPage(bytes, page.first));
    if (frames.length + items.length - before !== page.count) throw new BadBytes('footer', `a page of other than ${page.count} entries`);
  }
  for (const [index, item] of items.entries()) {
    const before = items[index - 1];
    if (before !== undefined && compareItems(before, item) >= 0) throw new BadBytes('footer', 'ranges out of order');
    if (item.frame >= frames.length) throw new BadBytes('footer', `no frame ${item.frame}`);
  }
  return { frames, items, at: footerAt };
}

function encodeFramePage(frames: readonly FrameEntry[]): Buffer {
  return encodeStored(VERSION, frames, (writer, all) => {
    writer.varint(all.length);
    for (const frame of all) {
      writer.varint(frame.frameBytes);
      writer.varint(frame.rawBytes);
      writer.u32(frame.crc);
    }
  });
}

function decodeFramePage(bytes: Buffer): FrameEntry[] {
  return decodeStored(bytes, 'footer', VERSION, (reader) =>
    reader.many(6, () => ({ frameBytes: reader.varint(FRAME_RAW_BYTES_MAX + FRAME_OVERHEAD_BYTES), rawBytes: reader.varint(FRAME_RAW_BYTES_MAX), crc: reader.u32() })),
  );
}

function encodeItemPage(items: readonly ItemEntry[]): Buffer {
  return encodeStored(VERSION, items, (writer, all) => {
    writer.varint(all.length);
    let incarnation = 0;
    for (const item of all) {
      writer.varint(item.incarnation - incarnation);
      incarnation = item.incarnation;
      writer.u8(kindNumber(item));
      writer.varint(item.start);
      writer.varint(item.end - item.start);
      writer.varint(item.frame);
      writer.varint(item.blockAt);
      writer.varint(item.blockBytes);
    }
  });
}

function decodeItemPage(bytes: Buffer, first: { readonly incarnation: number; readonly start: number } | null): ItemEntry[] {
  let incarnation = 0;
  const reader = openStored(bytes, 'footer', VERSION);
  const items = reader.many(7, () => {
    incarnation += reader.varint(Number.MAX_SAFE_INTEGER - incarnation);
    return readItem(reader, incarnation);
  });
  reader.end();
  if (first === null || items[0]?.incarnation !== first.incarnation || items[0].start !== first.start) throw reader.bad('a page that the directory does not name');
  return items;
}

function readItem(reader: ByteReader, incarnation: number): ItemEntry {
  const kind = reader.u8();
  if (kind > 1 || incarnation < 2 ** 52) throw reader.bad('a range that cannot be');
  const start = reader.varint();
  const bytes = reader.varint(Number.MAX_SAFE_INTEGER - start);
  return {
    kind: kind === 0 ? 'block' : 'snapshot',
    incarnation: incarnation as Incarnation,
    start: start as Offset,
    end: (start + bytes) as Offset,
    frame: reader.varint(ITEMS_MAX),
    blockAt: reader.varint(FRAME_RAW_BYTES_MAX),
    blockBytes: reader.varint(FRAME_RAW_BYTES_MAX),
  };
}

interface PageEntry {
  readonly kind: number;
  readonly bytes: number;
  readonly count: number;
  readonly first: { readonly incarnation: Incarnation; readonly start: number } | null;
}

function decodeDirectory(bytes: Buffer, pagesBytes: number): PageEntry[] {
  return decodeStored(bytes, 'footer', VERSION, (reader) => {
    let left = pagesBytes;
    const pages = reader.many(3, (): PageEntry => {
      const kind = reader.u8();
      const page = { kind, bytes: reader.varint(left), count: reader.varint(PAGE_ENTRIES) };
      left -= page.bytes;
      if (kind > ITEMS) throw reader.bad(`unknown kind of page ${kind}`);
      return { ...page, first: kind === ITEMS ? { incarnation: readIncarnation(reader), start: reader.varint() } : null };
    });
    if (left !== 0) throw reader.bad(`${left} bytes of pages too many`);
    return pages;
  });
}

function encodeTrailer(footer: readonly Buffer[], directoryBytes: number): Buffer {
  const trailer = Buffer.alloc(TRAILER_BYTES);
  trailer.writeUInt32LE(directoryBytes, 0);
  trailer.writeUInt32LE(lengthOf(footer), 4);
  trailer.writeUInt32LE(crc32cOf(footer), 8);
  trailer.writeUInt32LE(storedSum(crc32c(trailer.subarray(0, 12))), 12);
  trailer.set(DATA_OBJECT_MAGIC, 16);
  return trailer;
}

function decodeTrailer(object: Buffer): { readonly footerAt: number; readonly directoryAt: number; readonly trailerAt: number } {
  const trailerAt = object.length - TRAILER_BYTES;
  if (trailerAt < DATA_OBJECT_MAGIC.length) throw new BadBytes('footer', 'cut short');
  const trailer = object.subarray(trailerAt);
  if (!trailer.subarray(16).equals(DATA_OBJECT_MAGIC)) throw new BadBytes('footer', 'not the end of a data object');
  if (storedSum(crc32c(trailer.subarray(0, 12))) !== trailer.readUInt32LE(12)) throw new BadBytes('footer', 'checksum of the trailer does not match');
  const directoryAt = trailerAt - trailer.readUInt32LE(0);
  const footerAt = trailerAt - trailer.readUInt32LE(4);
  if (footerAt < DATA_OBJECT_MAGIC.length || directoryAt < footerAt) throw new BadBytes('footer', 'longer than its object');
  if (crc32c(object.subarray(footerAt, trailerAt)) !== trailer.readUInt32LE(8)) throw new BadBytes('footer', 'checksum does not match');
  return { footerAt, directoryAt, trailerAt };
}

function kindNumber(item: ItemEntry): number {
  return item.kind === 'block' ? 0 : 1;
}
