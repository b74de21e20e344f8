/**
 * A small snapshot as an item of a data object: body and identity together, so that the object tells alone what it holds.
 *
 * Owns: version u8 | offset | content type | digest | time | body length | CRC32C of the body u32 | stored sum of everything before u32 | body.
 */
import type { Offset } from '../protocol/types.js';
import { BadBytes, ByteReader, ByteWriter } from './codec.js';
import { crc32c, crc32cRange, storedSum } from './crc.js';
import type { SnapshotRecord } from './records/types.js';

const VERSION = 1;
const WHAT = 'snapshot body';
const DIGEST_BYTES = 32;

/** Larger snapshots are objects of their own (architecture section 6). */
export const SMALL_SNAPSHOT_BYTES_MAX = 1_048_576;

export type SnapshotIdentity = Pick<SnapshotRecord, 'offset' | 'contentType' | 'digest' | 'bytes' | 'crc' | 'publishedAtMs'>;

/** Whether two are one snapshot of a stream, its bytes included. */
export function sameSnapshot(a: Omit<SnapshotIdentity, 'publishedAtMs'>, b: Omit<SnapshotIdentity, 'publishedAtMs'>): boolean {
  return a.offset === b.offset && a.digest === b.digest && a.crc === b.crc && a.bytes === b.bytes && a.contentType === b.contentType;
}

export interface SnapshotBody extends SnapshotIdentity {
  /** A view of the input, no copy. */
  readonly body: Buffer;
}

const writer = new ByteWriter(1_024);

/** Throws `BadBytes` when the body is not the one that the record was made of (I3), RangeError when it is too large. */
export function encodeSnapshotBody(record: SnapshotIdentity, body: Buffer): Buffer {
  if (body.length > SMALL_SNAPSHOT_BYTES_MAX) throw new RangeError(`a small snapshot of ${body.length} bytes`);
  if (body.length !== record.bytes || crc32c(body) !== record.crc) throw new BadBytes(WHAT, 'not the body that was published');
  const head = writer.reset();
  head.u8(VERSION);
  head.varint(record.offset);
  head.string(record.contentType);
  head.hex(record.digest, DIGEST_BYTES);
  head.varint(record.publishedAtMs);
  head.varint(body.length);
  head.u32(record.crc);
  head.sum();
  const value = Buffer.allocUnsafe(head.length + body.length);
  value.set(body, head.takeInto(value, 0));
  return value;
}

/** Checks everything. Throws `BadBytes`. */
export function decodeSnapshotBody(buffer: Buffer): SnapshotBody {
  const reader = new ByteReader(buffer, WHAT);
  const version = reader.u8();
  if (version !== VERSION) throw reader.bad(`format version ${version} is not known`);
  const offset = reader.varint() as Offset;
  const contentType = reader.string();
  const digest = reader.hex(DIGEST_BYTES);
  const publishedAtMs = reader.varint();
  const bytes = reader.varint(SMALL_SNAPSHOT_BYTES_MAX);
  const crc = reader.u32();
  const sum = storedSum(crc32cRange(buffer, 0, reader.at));
  if (reader.u32() !== sum) throw reader.bad('checksum of the head does not match');
  const body = reader.raw(bytes);
  reader.end();
  if (crc32c(body) !== crc) throw reader.bad('checksum of the body does not match');
  return { offset, contentType, digest, bytes, crc, publishedAtMs, body };
}
