/**
 * Bytes of stored values: a writer over a reused scratch buffer and a reader that trusts nothing.
 *
 * Owns: the primitives (varint, string, sums) and the envelope `version | fields | CRC32C` of every small value.
 * Promises: a reader never reads beyond its bytes, never allocates by a length it did not check, and throws `BadBytes` for anything
 * that the writer could not have written (I9). A writer throws plain errors: what it is given was checked by its caller.
 */
import { isUtf8 } from 'node:buffer';
import { crc32cRange, storedSum } from './crc.js';

/** Longest string in a stored value, in bytes of UTF-8. Everything that comes from a request header is shorter. */
export const STRING_BYTES_MAX = 16_384;
/** A varint of 53 bits. */
const VARINT_BYTES_MAX = 8;
/** The size that a writer shrinks back to after a larger value. */
const SCRATCH_KEPT_BYTES_MAX = 1_048_576;

/** Stored bytes are not what the format allows: damage, or another program's. Never data (I9). */
export class BadBytes extends Error {
  constructor(readonly what: string, readonly why: string) {
    super(`${what}: ${why}`);
    this.name = 'BadBytes';
  }
}

/** Collects one value at a time in a buffer that grows and is used again; `take` copies the value out. */
export class ByteWriter {
  private buffer: Buffer;
  private at = 0;
  private readonly startBytes: number;

  constructor(startBytes = 1_024) {
    this.startBytes = startBytes;
    this.buffer = Buffer.allocUnsafeSlow(startBytes);
  }

  /** Bytes written since the last `reset` or `take`. */
  get length(): number {
    return this.at;
  }

  reset(): this {
    this.at = 0;
    if (this.buffer.length > SCRATCH_KEPT_BYTES_MAX) this.buffer = Buffer.allocUnsafeSlow(this.startBytes);
    return this;
  }

  u8(value: number): void {
    if (!(value >= 0 && value <= 0xff)) throw new RangeError(`not a byte: ${value}`);
    this.room(1);
    this.buffer[this.at++] = value;
  }

  u16(value: number): void {
    this.room(2);
    this.at = this.buffer.writeUInt16LE(value, this.at);
  }

  u32(value: number): void {
    this.room(4);
    this.at = this.buffer.writeUInt32LE(value, this.at);
  }

  bool(value: boolean): void {
    this.u8(value ? 1 : 0);
  }

  /** 0 .. 2^53-1 in groups of 7 bits, lowest first. */
  varint(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not a count: ${value}`);
    this.room(VARINT_BYTES_MAX);
    const buffer = this.buffer;
    let at = this.at;
    let rest = value;
    while (rest > 0x7fff_ffff) {
      buffer[at++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    while (rest > 0x7f) {
      buffer[at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    buffer[at++] = rest;
    this.at = at;
  }

  /** A whole number that may be negative, |value| < 2^52. */
  zigzag(value: number): void {
    this.varint(value >= 0 ? value * 2 : -value * 2 - 1);
  }

  /** Length and UTF-8. */
  string(value: string, bytesMax = STRING_BYTES_MAX): void {
    const length = Buffer.byteLength(value, 'utf8');
    if (length > bytesMax) throw new RangeError(`a string of ${length} bytes, at most ${bytesMax}`);
    this.varint(length);
    this.room(length);
    this.at += this.buffer.write(value, this.at, length, 'utf8');
  }

  /** Exactly `bytes` bytes from lower-case hex digits. */
  hex(value: string, bytes: number): void {
    this.room(bytes);
    if (value.length !== bytes * 2 || this.buffer.write(value, this.at, bytes, 'hex') !== bytes) throw new RangeError(`not ${bytes} bytes of hex digits`);
    this.at += bytes;
  }

  /** The bytes alone, without their length. */
  raw(bytes: Uint8Array): void {
    this.room(bytes.length);
    this.buffer.set(bytes, this.at);
    this.at += bytes.length;
  }

  /** Length and bytes. */
  bytes(bytes: Uint8Array): void {
    this.varint(bytes.length);
    this.raw(bytes);
  }

  /** The stored form of CRC32C over everything since `from`. */
  sum(from = 0): void {
    this.u32(storedSum(crc32cRange(this.buffer, from, this.at)));
  }

  /** Copies what was written to `target` and empties the writer. */
  takeInto(target: Buffer, at: number): number {
    this.buffer.copy(target, at, 0, this.at);
    const end = at + this.at;
    this.reset();
    return end;
  }

  /** A copy of what was written; empties the writer. */
  take(): Buffer {
    const value = Buffer.allocUnsafe(this.at);
    this.buffer.copy(value, 0, 0, this.at);
    this.reset();
    return value;
  }

  private room(bytes: number): void {
    const needed = this.at + bytes;
    if (needed <= this.buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.buffer.length * 2));
    this.buffer.copy(larger, 0, 0, this.at);
    this.buffer = larger;
  }
}

/** Reads a value front to back within `buffer[from, to)`. `what` names the value in errors. */
export class ByteReader {
  at: number;

  constructor(readonly buffer: Buffer, readonly what: string, from = 0, readonly to: number = buffer.length) {
    if (from < 0 || to > buffer.length || from > to) throw new RangeError(`no range ${from}..${to} in ${buffer.length} bytes`);
    this.at = from;
  }

  get left(): number {
    return this.to - this.at;
  }

  bad(why: string): BadBytes {
    return new BadBytes(this.what, why);
  }

  u8(): number {
    this.need(1);
    return this.buffer[this.at++] as number;
  }

  u16(): number {
    this.need(2);
    const value = this.buffer.readUInt16LE(this.at);
    this.at += 2;
    return value;
  }

  u32(): number {
    this.need(4);
    const value = this.buffer.readUInt32LE(this.at);
    this.at += 4;
    return value;
  }

  bool(): boolean {
    const value = this.u8();
    if (value > 1) throw this.bad(`${value} is not a truth value`);
    return value === 1;
  }

  /** A varint of at most `max`; only the shortest form is taken. */
  varint(max: number = Number.MAX_SAFE_INTEGER): number {
    let value = 0;
    let scale = 1;
    for (let index = 0; ; index++) {
      const byte = this.u8();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (byte === 0 && index > 0) throw this.bad('a number in a longer form than needed');
        break;
      }
      if (index === VARINT_BYTES_MAX - 1) throw this.bad('a number beyond 2^53-1');
      scale *= 128;
    }
    if (value > max) throw this.bad(`${value} where at most ${max} is allowed`);
    return value;
  }

  zigzag(): number {
    const value = this.varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  string(bytesMax = STRING_BYTES_MAX): string {
    const bytes = this.raw(this.varint(bytesMax));
    if (!isUtf8(bytes)) throw this.bad('text that is not UTF-8');
    return bytes.toString('utf8');
  }

  hex(bytes: number): string {
    return this.raw(bytes).toString('hex');
  }

  /** A view of the next `length` bytes, no copy. */
  raw(length: number): Buffer {
    this.need(length);
    const view = this.buffer.subarray(this.at, this.at + length);
    this.at += length;
    return view;
  }

  /** A view of bytes with their length before them. */
  bytes(bytesMax: number): Buffer {
    return this.raw(this.varint(bytesMax));
  }

  /** A count of things that each take at least `bytesEach` bytes: checked before anything is allocated for them. */
  count(max: number, bytesEach = 1): number {
    const count = this.varint(max);
    if (count * bytesEach > this.left) throw this.bad(`${count} items in ${this.left} bytes`);
    return count;
  }

  /** A count and so many items, each of at least `bytesEach` bytes. */
  many<T>(bytesEach: number, read: (reader: ByteReader) => T): T[] {
    const items: T[] = [];
    for (let left = this.count(Number.MAX_SAFE_INTEGER, bytesEach); left > 0; left--) items.push(read(this));
    return items;
  }

  /** Nothing may be left. */
  end(): void {
    if (this.at !== this.to) throw this.bad(`${this.to - this.at} bytes too many`);
  }

  private need(bytes: number): void {
    if (this.to - this.at < bytes) throw this.bad('cut short');
  }
}

/** One scratch for all small values: encoders are synchronous and do not nest through `encodeStored`. */
const shared = new ByteWriter(4_096);

/** A stored value: `version | what `write` writes | stored sum of all that` (docs/formats.md). `write` must be synchronous and must not call `encodeStored` itself. */
export function encodeStored<T>(version: number, value: T, write: (writer: ByteWriter, value: T) => void): Buffer {
  const writer = shared.reset();
  writer.u8(version);
  write(writer, value);
  writer.sum();
  return writer.take();
}

/** Checks version and sum of a value made by `encodeStored` and reads its fields, all of them. */
export function decodeStored<T>(buffer: Buffer, what: string, version: number, read: (reader: ByteReader) => T): T {
  const reader = openStored(buffer, what, version);
  const value = read(reader);
  reader.end();
  return value;
}

/** The reader over the fields of a value made by `encodeStored`, its version and sum already checked. */
export function openStored(buffer: Buffer, what: string, version: number): ByteReader {
  if (buffer.length < 5) throw new BadBytes(what, 'cut short');
  const sumAt = buffer.length - 4;
  // The version first: an unknown one may have its sum elsewhere.
  if (buffer[0] !== version) throw new BadBytes(what, `format version ${buffer[0]} is not known`);
  if (storedSum(crc32cRange(buffer, 0, sumAt)) !== buffer.readUInt32LE(sumAt)) throw new BadBytes(what, 'checksum does not match');
  return new ByteReader(buffer, what, 1, sumAt);
}
