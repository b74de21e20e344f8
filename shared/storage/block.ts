/**
 * A block: a contiguous range of one stream with its append boundaries and sums (architecture section 5).
 *
 * Owns: the encoded form, the same bytes as a value of the hot store and inside frames of data objects, and the rules for splitting
 * and joining. Promises: whatever is packed, split, merged, the entries stay the appends of the clients (their lengths and times), and a
 * block that decodes has the bytes that were appended (I3, I9).
 *
 * Layout: version u8 | flags u8 | start | entry count | time of the first entry | per entry: length, time relative to the entry
 * before (all varints) | CRC32C of the payload u32 | stored sum of everything before u32 | payload.
 */
import { advance, type Offset } from '../protocol/types.js';
import { BadBytes, ByteReader, ByteWriter } from './codec.js';
import { crc32c, crc32cCombine, crc32cRange, storedSum } from './crc.js';

const VERSION = 1;
/** Most payload of one block, in bytes: a value of the hot store and a frame stay small (architecture section 5). */
export const BLOCK_PAYLOAD_MAX = 262_144;
/** Most entries of one block: bounds the entry table, about 4 bytes an entry. A batch has at most 1,024 requests. */
export const BLOCK_ENTRIES_MAX = 16_384;

const RESUMES = 1;
const CONTINUES = 2;

/** One append, or the piece of one that lies in this block. */
export interface BlockEntry {
  readonly bytes: number;
  /** When it was appended; pieces of one append carry the same time. */
  readonly atMs: number;
}

/** What a block covers. */
export interface BlockSpan {
  readonly start: Offset;
  readonly end: Offset;
  /** The first entry began in the block before. */
  readonly resumes: boolean;
  /** The last entry goes on in the next block. */
  readonly continues: boolean;
  /** Number of entries. */
  readonly count: number;
  /** CRC32C of the payload. */
  readonly crc: number;
  /** Where the payload begins in the encoded block. */
  readonly payloadAt: number;
}

/** Everything about a block but its payload. */
export interface BlockHead extends BlockSpan {
  readonly entries: readonly BlockEntry[];
}

export interface Block extends BlockHead {
  /** A view of the encoded block, no copy. */
  readonly payload: Buffer;
}

export interface BlockInput {
  readonly start: Offset;
  readonly resumes: boolean;
  readonly continues: boolean;
  readonly entries: readonly BlockEntry[];
  /** The payload in pieces; their cut has no meaning. */
  readonly payload: readonly Buffer[];
}

/** One append of a client. */
export interface Append {
  /** At least one byte. */
  readonly payload: Buffer;
  readonly atMs: number;
}

/** An encoded block with the range it covers. */
export interface PackedBlock {
  readonly start: Offset;
  readonly end: Offset;
  readonly value: Buffer;
}

const headWriter = new ByteWriter(1_024);

/** Throws Error when the input is not a block: no bytes, an empty entry, lengths that do not add up, or beyond the limits. */
export function encodeBlock(block: BlockInput): Buffer {
  let bytes = 0;
  for (const piece of block.payload) bytes += piece.length;
  checkInput(block.entries, bytes);
  const head = writeHead(block.start, flagsOf(block.resumes, block.continues), block.entries);
  const payloadAt = head.length + 8;
  const value = Buffer.allocUnsafe(payloadAt + bytes);
  let at = payloadAt;
  for (const piece of block.payload) {
    value.set(piece, at);
    at += piece.length;
  }
  finishHead(head, value, crc32cRange(value, payloadAt, value.length), payloadAt);
  return value;
}

/** Checks everything. Throws `BadBytes`. */
export function decodeBlock(buffer: Buffer): Block {
  const head = decodeBlockHead(buffer);
  return { ...head, payload: checkedPayload(buffer, head) };
}

/** The same for whoever does not look at entries: a block has up to 16,384 of them, and a reader of bytes passes many blocks. */
export function checkBlock(buffer: Buffer): BlockSpan {
  const span = decodeBlockSpan(buffer);
  checkedPayload(buffer, span);
  return span;
}

function checkedPayload(buffer: Buffer, span: BlockSpan): Buffer {
  const payload = buffer.subarray(span.payloadAt);
  if (crc32c(payload) !== span.crc) throw new BadBytes('block', 'checksum of the payload does not match');
  return payload;
}

/** Checks everything but the payload's bytes; `buffer` is still the whole block. Throws `BadBytes`. */
export function decodeBlockHead(buffer: Buffer): BlockHead {
  const entries: BlockEntry[] = [];
  const span = readSpan(buffer, entries);
  return { ...span, entries };
}

/** The same without the entries, which are checked and not kept. */
export function decodeBlockSpan(buffer: Buffer): BlockSpan {
  return readSpan(buffer, null);
}

/** Where the entry that holds the byte at `at` ends in an encoded block that holds it; `whole`: the append ends there, and not in a block behind. */
export function entryEndIn(buffer: Buffer, at: Offset): { readonly end: Offset; readonly whole: boolean } {
  const head = decodeBlockHead(buffer);
  let end = head.start;
  for (const [index, { bytes }] of head.entries.entries()) {
    end = advance(end, bytes);
    if (end > at && at >= head.start) return { end, whole: index < head.entries.length - 1 || !head.continues };
  }
  throw new RangeError(`block: [${head.start}, ${head.end}) does not hold ${at}`);
}

function readSpan(buffer: Buffer, entries: BlockEntry[] | null): BlockSpan {
  if (buffer.length === 0) throw new BadBytes('block', 'cut short');
  const reader = new ByteReader(buffer, 'block');
  const version = reader.u8();
  if (version !== VERSION) throw reader.bad(`format version ${version} is not known`);
  const flags = reader.u8();
  if ((flags & ~(RESUMES | CONTINUES)) !== 0) throw reader.bad(`unknown flags ${flags}`);
  const start = reader.varint() as Offset;
  const count = reader.count(BLOCK_ENTRIES_MAX, 2);
  if (count === 0) throw reader.bad('no entries');
  let atMs = reader.varint();
  let bytes = 0;
  for (let index = 0; index < count; index++) {
    const length = reader.varint(BLOCK_PAYLOAD_MAX);
    atMs += reader.zigzag();
    if (length === 0 || atMs < 0 || !Number.isSafeInteger(atMs)) throw reader.bad('an entry that cannot be');
    bytes += length;
    entries?.push({ bytes: length, atMs });
  }
  const crc = reader.u32();
  const sum = storedSum(crc32cRange(buffer, 0, reader.at));
  if (reader.u32() !== sum) throw reader.bad('checksum of the head does not match');
  if (bytes > BLOCK_PAYLOAD_MAX || start + bytes > Number.MAX_SAFE_INTEGER) throw reader.bad(`${bytes} bytes at ${start}`);
  if (reader.left !== bytes) throw reader.bad(`${reader.left} bytes of payload, ${bytes} in its entries`);
  return { start, end: advance(start, bytes), resumes: (flags & RESUMES) !== 0, continues: (flags & CONTINUES) !== 0, count, crc, payloadAt: reader.at };
}

/**
 * Packs the appends of one stream in one batch, first at `start`, into blocks. An append is cut only when it is longer than a whole block, and the
 * flags say so. Throws Error for an empty append or none at all.
 */
export function packAppends(start: Offset, appends: readonly Append[]): PackedBlock[] {
  const single = packOne(start, appends);
  if (single !== null) return [single];
  const packed: PackedBlock[] = [];
  let open = new OpenBlock(start, false);
  for (const { payload, atMs } of appends) {
    if (payload.length === 0) throw new Error('block: an empty append');
    for (let from = 0; from < payload.length; ) {
      if (!open.takes(payload.length - from)) {
        packed.push(open.pack(from > 0));
        open = new OpenBlock(open.end, from > 0);
      }
      from += open.add(payload, from, atMs);
    }
  }
  packed.push(open.pack(false));
  return packed;
}

/**
 * Joins neighbouring blocks into one, first to last, and joins the two pieces of an entry that was cut between them. The payload's sum is combined from the
 * stored sums, never computed anew, so damage that came in stays visible.
 * Throws `BadBytes` for a damaged block and for a cut that its neighbour does not know of, Error for blocks that do not touch or exceed the limits together.
 */
export function mergeBlocks(blocks: readonly Buffer[]): Buffer {
  const heads = blocks.map(decodeBlockHead);
  const first = heads[0];
  const last = heads.at(-1);
  if (first === undefined || last === undefined) throw new Error('no blocks to merge');
  const entries: BlockEntry[] = [];
  let crc = 0;
  let before: BlockHead | undefined;
  for (const head of heads) {
    if (before !== undefined) checkNeighbours(before, head);
    joinEntries(entries, head);
    crc = crc32cCombine(crc, head.crc, head.end - head.start);
    before = head;
  }
  const bytes = last.end - first.start;
  checkInput(entries, bytes);
  const head = writeHead(first.start, flagsOf(first.resumes, last.continues), entries);
  const payloadAt = head.length + 8;
  const value = Buffer.allocUnsafe(payloadAt + bytes);
  let at = payloadAt;
  for (const [index, block] of blocks.entries()) at += block.copy(value, at, (heads[index] as BlockHead).payloadAt);
  finishHead(head, value, crc, payloadAt);
  return value;
}

function checkNeighbours(before: BlockHead, after: BlockHead): void {
  if (after.start !== before.end) throw new Error(`blocks to merge end at ${before.end} and start at ${after.start}`);
  if (before.continues !== after.resumes) throw new BadBytes('block', `an entry cut at ${after.start} lacks its other piece`);
}

/** Adds a block's entries to those collected so far; its first piece continues the last of them when it resumes. */
function joinEntries(entries: BlockEntry[], head: BlockHead): void {
  const open = entries.at(-1);
  for (const [index, entry] of head.entries.entries()) {
    if (index === 0 && head.resumes && open !== undefined) entries[entries.length - 1] = { bytes: open.bytes + entry.bytes, atMs: open.atMs };
    else entries.push(entry);
  }
}

/** The usual case, without intermediate objects: everything fits into one block. */
function packOne(start: Offset, appends: readonly Append[]): PackedBlock | null {
  let bytes = 0;
  for (const append of appends) bytes += append.payload.length;
  if (bytes > BLOCK_PAYLOAD_MAX || appends.length > BLOCK_ENTRIES_MAX) return null;
  const head = headWriter.reset();
  startHead(head, start, 0, appends.length, appends[0]?.atMs ?? 0);
  let before = appends[0]?.atMs ?? 0;
  for (const { payload, atMs } of appends) {
    if (payload.length === 0) throw new Error('block: an empty append');
    head.varint(payload.length);
    head.zigzag(atMs - before);
    before = atMs;
  }
  if (bytes === 0) throw new Error('block: no bytes');
  const payloadAt = head.length + 8;
  const value = Buffer.allocUnsafe(payloadAt + bytes);
  let at = payloadAt;
  for (const { payload } of appends) {
    value.set(payload, at);
    at += payload.length;
  }
  finishHead(head, value, crc32cRange(value, payloadAt, at), payloadAt);
  return { start, end: advance(start, bytes), value };
}

/** A block being filled by `packAppends`. */
class OpenBlock {
  private readonly entries: BlockEntry[] = [];
  private readonly payload: Buffer[] = [];
  private bytes = 0;

  constructor(private readonly start: Offset, private readonly resumes: boolean) {}

  get end(): Offset {
    return advance(this.start, this.bytes);
  }

  /** Whether the next piece, `bytes` long, goes in here: whole, or as far as it fits when nothing else is here. */
  takes(bytes: number): boolean {
    if (this.entries.length === 0) return true;
    return bytes <= BLOCK_PAYLOAD_MAX - this.bytes && this.entries.length < BLOCK_ENTRIES_MAX;
  }

  /** Takes what fits of `payload` from `from` on as one entry; returns its length. */
  add(payload: Buffer, from: number, atMs: number): number {
    const length = Math.min(payload.length - from, BLOCK_PAYLOAD_MAX - this.bytes);
    this.payload.push(payload.subarray(from, from + length));
    this.entries.push({ bytes: length, atMs });
    this.bytes += length;
    return length;
  }

  pack(continues: boolean): PackedBlock {
    const { start, resumes, entries, payload } = this;
    return { start, end: this.end, value: encodeBlock({ start, resumes, continues, entries, payload }) };
  }
}

function checkInput(entries: readonly BlockEntry[], bytes: number): void {
  let sum = 0;
  for (const entry of entries) {
    if (!(entry.bytes > 0)) throw new Error('block: an empty entry');
    sum += entry.bytes;
  }
  if (sum === 0 || sum !== bytes) throw new Error(`block: entries of ${sum} bytes, payload of ${bytes}`);
  if (bytes > BLOCK_PAYLOAD_MAX || entries.length > BLOCK_ENTRIES_MAX) throw new Error(`block: ${bytes} bytes in ${entries.length} entries are too many`);
}

function flagsOf(resumes: boolean, continues: boolean): number {
  return (resumes ? RESUMES : 0) | (continues ? CONTINUES : 0);
}

function startHead(writer: ByteWriter, start: Offset, flags: number, count: number, atMs: number): void {
  writer.u8(VERSION);
  writer.u8(flags);
  writer.varint(start);
  writer.varint(count);
  writer.varint(atMs);
}

function writeHead(start: Offset, flags: number, entries: readonly BlockEntry[]): ByteWriter {
  const writer = headWriter.reset();
  let before = entries[0]?.atMs ?? 0;
  startHead(writer, start, flags, entries.length, before);
  for (const { bytes, atMs } of entries) {
    writer.varint(bytes);
    writer.zigzag(atMs - before);
    before = atMs;
  }
  return writer;
}

/** Puts the head and both sums before the payload that already lies at `payloadAt`. */
function finishHead(head: ByteWriter, value: Buffer, payloadCrc: number, payloadAt: number): void {
  head.u32(payloadCrc);
  head.sum();
  const end = head.takeInto(value, 0);
  if (end !== payloadAt) throw new Error(`block: a head of ${end} bytes, ${payloadAt} expected`);
}
