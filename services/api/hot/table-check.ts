/**
 * Checks the data blocks of RocksDB's table files against their checksums, without RocksDB.
 *
 * Owns: reading that format as far as needed. It is needed since iterators of the binding use blocks unproven, and one in a hundred flipped bits ends the process in an assertion of the native code: what a damaged block
 * may hold must be known before an iterator touches it (I9). Footer, index and filters are proven by RocksDB itself when it opens a table; a file that cannot be judged here is left to it.
 *
 * A table: data blocks, meta blocks, index block, footer of 53 bytes: kind of checksum (1) | handles of meta index and index (varints, 40 with padding) | format version (4) | magic (8). Behind each
 * block: kind of compression (1) | masked CRC32C of block and kind (4). An index entry is the shared and own length of a separator key, that key, and the handle of the data block whose keys lie at or below it.
 */
import { open, readdir, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32cRange } from '../../../shared/storage/crc.js';
import { unsnappy } from './snappy.js';

const FOOTER_BYTES = 53;
const TRAILER_BYTES = 5;
const MAGIC = Buffer.from('f7cff485b741e288', 'hex');
const CRC32C = 1;
const SNAPPY = 1;
const MASK_DELTA = 0xa282_ead8;
/** Bytes read at a time. */
const CHUNK_BYTES = 1_048_576;
/** Largest index that is read, in bytes. */
const INDEX_BYTES_MAX = 67_108_864;

/** Keys that may lie in a damaged block or beside it: an iterator that keeps clear of [from, to] never loads the block. */
export interface DamagedRange {
  readonly file: string;
  /** Byte position of the block. */
  readonly at: number;
  /** null: from the lowest key, up to the highest key. */
  readonly from: Buffer | null;
  readonly to: Buffer | null;
}

export interface TablesReport {
  readonly damaged: readonly DamagedRange[];
  readonly files: number;
  readonly bytes: number;
  /** Bytes of the oldest files that were left out at the limit. */
  readonly uncheckedBytes: number;
}

/** Checks the tables of a directory that nobody has open, newest first, up to `bytesMax`. An absent directory has none. */
export async function checkTables(dir: string, bytesMax: number): Promise<TablesReport> {
  const names = await readdir(dir).catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? [] : Promise.reject(error)));
  const damaged: DamagedRange[] = [];
  let files = 0;
  let bytes = 0;
  let uncheckedBytes = 0;
  for (const name of names.filter((name) => name.endsWith('.sst')).sort().reverse()) {
    const { size } = await stat(join(dir, name));
    if (bytes + size > bytesMax) {
      uncheckedBytes += size;
      continue;
    }
    damaged.push(...(await checkTable(dir, name)));
    files++;
    bytes += size;
  }
  return { damaged, files, bytes, uncheckedBytes };
}

interface Handle {
  readonly at: number;
  readonly bytes: number;
}

interface IndexEntry extends Handle {
  /** At or above every key of the block, below every key of the next. */
  readonly separator: Buffer;
}

async function checkTable(dir: string, name: string): Promise<DamagedRange[]> {
  const file = await open(join(dir, name));
  try {
    const { size } = await file.stat();
    const entries = await readIndex(file, size);
    if (entries === null) return [];
    const bad = await damagedBlocks(file, entries);
    // An iterator that ends at a block's border looks into the neighbour: the range reaches over both neighbours.
    return bad.map((index) => ({ file: name, at: entries[index]?.at ?? 0, from: entries[index - 2]?.separator ?? null, to: entries[index + 1]?.separator ?? null }));
  } finally {
    await file.close();
  }
}

/** null: not judged here. */
async function readIndex(file: FileHandle, size: number): Promise<IndexEntry[] | null> {
  if (size < FOOTER_BYTES) return null;
  const footer = await readAt(file, size - FOOTER_BYTES, FOOTER_BYTES);
  if (footer === null || footer[0] !== CRC32C || !footer.subarray(45).equals(MAGIC)) return null;
  const version = footer.readUInt32LE(41);
  if (version < 3 || version > 5) return null;
  const reader = { bytes: footer, at: 1 };
  readHandle(reader);
  const handle = readHandle(reader);
  if (handle === null || handle.bytes > INDEX_BYTES_MAX || handle.at + handle.bytes + TRAILER_BYTES > size) return null;
  const stored = await readAt(file, handle.at, handle.bytes + TRAILER_BYTES);
  if (stored === null || !isSound(stored, 0, handle.bytes)) return null;
  const block = stored[handle.bytes] === SNAPPY ? unsnappy(stored.subarray(0, handle.bytes)) : stored[handle.bytes] === 0 ? stored.subarray(0, handle.bytes) : null;
  return block === null ? null : parseIndex(block, version);
}

function parseIndex(block: Buffer, version: number): IndexEntry[] | null {
  if (block.length < 4) return null;
  const end = block.length - 4 - 4 * block.readUInt32LE(block.length - 4);
  const reader = { bytes: block, at: 0 };
  const entries: IndexEntry[] = [];
  while (reader.at < end) {
    const shared = readVarint(reader);
    const own = readVarint(reader);
    // From version 4 on handles know their own length.
    if (version < 4) readVarint(reader);
    // Firn's tables have a restart at each index entry: nothing is shared, and each handle is whole.
    if (shared !== 0 || own === null || reader.at + own > end) return null;
    const separator = block.subarray(reader.at, reader.at + own);
    reader.at += own;
    const handle = readHandle(reader);
    const before = entries.at(-1);
    if (handle === null || handle.at !== (before === undefined ? 0 : before.at + before.bytes + TRAILER_BYTES)) return null;
    entries.push({ separator, ...handle });
  }
  return reader.at === end ? entries : null;
}

/** Places in the index of blocks whose checksum does not match. */
async function damagedBlocks(file: FileHandle, entries: readonly IndexEntry[]): Promise<number[]> {
  const bad: number[] = [];
  for (let first = 0; first < entries.length; ) {
    const start = (entries[first] as IndexEntry).at;
    let last = first;
    for (let next = entries[first + 1]; next !== undefined && next.at + next.bytes + TRAILER_BYTES - start <= CHUNK_BYTES; next = entries[last + 1]) last++;
    const end = entries[last] as IndexEntry;
    const chunk = await readAt(file, start, end.at + end.bytes + TRAILER_BYTES - start);
    for (let index = first; index <= last; index++) {
      const { at, bytes } = entries[index] as IndexEntry;
      if (chunk === null || !isSound(chunk, at - start, bytes)) bad.push(index);
    }
    first = last + 1;
  }
  return bad;
}

/** Whether the block of `bytes` bytes at `at`, its trailer behind it, has the checksum that it was written with. */
function isSound(chunk: Buffer, at: number, bytes: number): boolean {
  const sum = crc32cRange(chunk, at, at + bytes + 1);
  const masked = (((sum >>> 15) | (sum << 17)) + MASK_DELTA) >>> 0;
  return masked === chunk.readUInt32LE(at + bytes + 1);
}

/** null: the file is shorter. */
async function readAt(file: FileHandle, at: number, bytes: number): Promise<Buffer | null> {
  const buffer = Buffer.allocUnsafe(bytes);
  for (let filled = 0; filled < bytes; ) {
    const { bytesRead } = await file.read(buffer, filled, bytes - filled, at + filled);
    if (bytesRead === 0) return null;
    filled += bytesRead;
  }
  return buffer;
}

interface Cursor {
  readonly bytes: Buffer;
  at: number;
}

function readHandle(cursor: Cursor): Handle | null {
  const at = readVarint(cursor);
  const bytes = readVarint(cursor);
  return at === null || bytes === null ? null : { at, bytes };
}

function readVarint(cursor: Cursor): number | null {
  let value = 0;
  for (let scale = 1; ; scale *= 128) {
    const byte = cursor.bytes[cursor.at++];
    if (byte === undefined || scale > 2 ** 49) return null;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return value;
  }
}
