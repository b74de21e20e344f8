/**
 * How keys of the hot store are put together.
 *
 * Owns: the kind bytes and the fixed-width pieces. Promises: numbers are big-endian and of fixed width, so that the order of keys is the order of
 * numbers; a kind byte is used once and never again for something else; a key that was not built here does not decode (`BadBytes`, I9).
 * Building a key is on the path of every append: bytes are written straight into a pooled buffer.
 */
import type { Incarnation, Offset, StreamKey } from '../../../../shared/protocol/types.js';
import { BadBytes } from '../../../../shared/storage/codec.js';
import { isUtf8 } from 'node:buffer';

/** First byte of every key. Numbers of kinds that are gone stay taken: 0x23 and 0x27 (plans). */
export const KIND = {
  meta: 0x01,
  marker: 0x02,
  journal: 0x03,
  stream: 0x10,
  name: 0x11,
  data: 0x12,
  producer: 0x13,
  ref: 0x14,
  snapshot: 0x15,
  body: 0x16,
  doomed: 0x17,
  unpin: 0x18,
  part: 0x19,
  expiry: 0x20,
  dirty: 0x21,
  evict: 0x22,
  object: 0x24,
  applied: 0x25,
  bucketFence: 0x26,
  subscription: 0x30,
  subscriptionEnd: 0x31,
  subscriptionBase: 0x32,
  subscriptionCursor: 0x33,
  subscriptionLink: 0x34,
  subscriptionKeys: 0x35,
  subscriptionLogged: 0x36,
} as const;

if (new Set<number>(Object.values(KIND)).size !== Object.keys(KIND).length) throw new Error('two kinds of rows share a kind byte');

/** Bounds of a scan: `from` inclusive, `to` exclusive, always made together. */
export interface KeyRange {
  readonly from: Buffer;
  readonly to: Buffer;
}

/** Value of rows that are nothing but a key. */
export const EMPTY = Buffer.alloc(0);

/** Slots are 0 .. 65535; an exclusive bound of slots goes up to this. */
export const SLOTS_END = 65_536;
/** Exclusive bound of everything counted in 53 bits. */
export const U64_END = 2 ** 53;
const INCARNATION_MIN = 2 ** 52;

/** `kind` and room for `bytes` more. */
export function newKey(kind: number, bytes: number): Buffer {
  const key = Buffer.allocUnsafe(1 + bytes);
  key[0] = kind;
  return key;
}

export function putU16(key: Buffer, value: number, at: number): void {
  if ((value & 0xffff) !== value) throw new RangeError(`not 16 bits: ${value}`);
  key[at] = value >>> 8;
  key[at + 1] = value & 0xff;
}

export function putU32(key: Buffer, value: number, at: number): void {
  if (value >>> 0 !== value) throw new RangeError(`not 32 bits: ${value}`);
  key[at] = value >>> 24;
  key[at + 1] = (value >>> 16) & 0xff;
  key[at + 2] = (value >>> 8) & 0xff;
  key[at + 3] = value & 0xff;
}

/** Eight bytes; 0 .. 2^53 (the last only as a bound). */
export function putU64(key: Buffer, value: number, at: number): void {
  if (!(value >= 0 && value <= U64_END && Number.isInteger(value))) throw new RangeError(`not a count: ${value}`);
  putU32(key, Math.floor(value / 0x1_0000_0000), at);
  putU32(key, value >>> 0, at + 4);
}

/** `kind | slot | incarnation` and room for `bytes` more. */
export function newIncarnationKey(kind: number, slot: number, incarnation: Incarnation, bytes: number): Buffer {
  const key = newKey(kind, 10 + bytes);
  putU16(key, slot, 1);
  putU64(key, incarnation, 3);
  return key;
}

/** `kind | slot | incarnation | offset`: 19 bytes. */
export function newOffsetKey(kind: number, slot: number, incarnation: Incarnation, offset: number): Buffer {
  const key = newIncarnationKey(kind, slot, incarnation, 8);
  putU64(key, offset, 11);
  return key;
}

/** `kind | partition | time` and room for `bytes` more. Times before 1970 sort as 1970. */
export function newTimeKey(kind: number, partition: number, atMs: number, bytes: number): Buffer {
  const key = newKey(kind, 10 + bytes);
  putU16(key, partition, 1);
  putU64(key, Math.max(0, atMs), 3);
  return key;
}

/** `key` with the UTF-8 of `text` behind its first `at` bytes: `key` has room for `textBytes(text)`. */
export function putText(key: Buffer, text: string, at: number): Buffer {
  key.write(text, at, 'utf8');
  return key;
}

export function textBytes(text: string): number {
  return Buffer.byteLength(text, 'utf8');
}

/** Every key that begins with `prefix`. */
export function within(prefix: Buffer): KeyRange {
  return { from: prefix, to: successor(prefix) };
}

/** Every key of a kind whose slot (or partition) is in [from, to). */
export function withinSlots(kind: number, from: number, to: number): KeyRange {
  return { from: slotBound(kind, from), to: slotBound(kind, to) };
}

function slotBound(kind: number, slot: number): Buffer {
  if (slot === SLOTS_END) return Buffer.from([kind + 1]);
  const key = newKey(kind, 2);
  putU16(key, slot, 1);
  return key;
}

/** The lowest key above every key that begins with `prefix`. */
export function successor(prefix: Buffer): Buffer {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length--;
  if (length === 0) throw new Error('no key lies above this prefix');
  const next = Buffer.from(prefix.subarray(0, length));
  next[length - 1] = (next[length - 1] as number) + 1;
  return next;
}

/** Reads a key front to back. */
export class KeyReader {
  private at = 1;

  /** Throws `BadBytes` when the key is of another kind or shorter than `bytesMin`. */
  constructor(private readonly key: Buffer, private readonly what: string, kind: number, bytesMin: number) {
    if (key[0] !== kind) throw this.bad('is of another kind');
    if (key.length < 1 + bytesMin) throw this.bad('cut short');
  }

  u8(): number {
    return this.key[this.at++] as number;
  }

  u16(): number {
    this.at += 2;
    return this.key.readUInt16BE(this.at - 2);
  }

  u32(): number {
    this.at += 4;
    return this.key.readUInt32BE(this.at - 4);
  }

  u64(): number {
    const value = this.u32() * 0x1_0000_0000 + this.u32();
    if (!Number.isSafeInteger(value)) throw this.bad('a number beyond 2^53-1');
    return value;
  }

  offset(): Offset {
    return this.u64() as Offset;
  }

  incarnation(): Incarnation {
    const value = this.u64();
    if (value < INCARNATION_MIN) throw this.bad(`${value} is no incarnation`);
    return value as Incarnation;
  }

  /** The rest of the key. */
  text(): string {
    const bytes = this.key.subarray(this.at);
    if (!isUtf8(bytes)) throw this.bad('text that is not UTF-8');
    this.at = this.key.length;
    return bytes.toString('utf8');
  }

  streamKey(): StreamKey {
    const text = this.text();
    if (text === '') throw this.bad('an empty stream key');
    return text as StreamKey;
  }

  /** Nothing may be left. */
  end(): void {
    if (this.at !== this.key.length) throw this.bad(`${this.key.length - this.at} bytes too many`);
  }

  private bad(why: string): BadBytes {
    return new BadBytes(`${this.what} key`, why);
  }
}
