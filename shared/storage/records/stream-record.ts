/**
 * The record of one stream: the whole of its state but its bytes, producers and references.
 *
 * Owns: its bytes, alone (a row of the hot store) and embedded in log records, plans and checkpoints.
 * Promises: what is written and what is read both satisfy the order of the frontiers (I1).
 */
import type { Incarnation, Offset, StreamKey } from '../../protocol/types.js';
import { decodeStored, encodeStored, type ByteReader, type ByteWriter } from '../codec.js';
import { readSnapshotRecord, writeSnapshotRecord } from './snapshot-record.js';
import type { ClosedBy, ForkOrigin, StreamRecord } from './types.js';

const VERSION = 1;
/** Tokens are 2^52 .. 2^53-1 (INC-24). */
const INCARNATION_MIN = 2 ** 52;

const CLOSED = 1;
const CLOSED_BY = 2;
const TTL = 4;
const EXPIRES = 8;
const LAST_SEQ = 16;
const SNAPSHOT = 32;
const FLOOR = 64;
const FORKS = 128;


export function encodeStreamRecord(record: StreamRecord): Buffer {
  return encodeStored(VERSION, record, writeStreamRecord);
}

export function decodeStreamRecord(buffer: Buffer): StreamRecord {
  return decodeStored(buffer, 'stream record', VERSION, readStreamRecord);
}

export function writeStreamRecord(writer: ByteWriter, record: StreamRecord): void {
  const fault = recordFault(record);
  if (fault !== null) throw new Error(`stream record: ${fault}`);
  writer.u8(flagsOf(record));
  writer.varint(record.incarnation);
  writer.string(record.contentType);
  writer.varint(record.createdAtMs);
  writer.varint(record.tail);
  writer.varint(record.retained);
  writer.varint(record.sealed);
  writer.varint(record.hotStart);
  writer.varint(record.touchedAtMs);
  writer.varint(record.producers);
  writer.varint(record.change);
  writer.varint(record.loggedChange);
  if (record.closedBy !== null) writeClosedBy(writer, record.closedBy);
  if (record.ttl !== null) writer.string(record.ttl);
  // Years before 1970 are valid instants.
  if (record.expiresAtMs !== null) writer.zigzag(record.expiresAtMs);
  if (record.lastSeq !== null) writer.string(record.lastSeq);
  if (record.producerFloor !== -1) writer.varint(record.producerFloor);
  if (record.snapshot !== null) writeSnapshotRecord(writer, record.snapshot);
  if (hasForks(record)) writeForks(writer, record);
}

export function readStreamRecord(reader: ByteReader): StreamRecord {
  const flags = reader.u8();
  const incarnation = readIncarnation(reader);
  const contentType = reader.string();
  const createdAtMs = reader.varint();
  const tail = reader.varint() as Offset;
  const retained = reader.varint() as Offset;
  const sealedTo = reader.varint() as Offset;
  const hotStart = reader.varint() as Offset;
  const touchedAtMs = reader.varint();
  const producers = reader.varint();
  const change = reader.varint();
  const loggedChange = reader.varint();
  const record: Mutable<StreamRecord> = {
    incarnation,
    contentType,
    createdAtMs,
    tail,
    retained,
    sealed: sealedTo,
    hotStart,
    closed: (flags & CLOSED) !== 0,
    closedBy: (flags & CLOSED_BY) !== 0 ? readClosedBy(reader) : null,
    ttl: (flags & TTL) !== 0 ? reader.string() : null,
    expiresAtMs: (flags & EXPIRES) !== 0 ? reader.zigzag() : null,
    touchedAtMs,
    lastSeq: (flags & LAST_SEQ) !== 0 ? reader.string() : null,
    producers,
    producerFloor: (flags & FLOOR) !== 0 ? reader.varint() : -1,
    snapshot: (flags & SNAPSHOT) !== 0 ? readSnapshotRecord(reader) : null,
    change,
    loggedChange,
    origin: null,
    forks: 0,
    softDeleted: false,
  };
  if ((flags & FORKS) !== 0) readForks(reader, record);
  const fault = recordFault(record);
  if (fault !== null) throw reader.bad(fault);
  return record;
}

/**
 * A copy to be changed before anyone else sees it. Written out, since records are copied at every append: with one list of members for all of them the
 * engine keeps them in one shape, which a spread does not.
 */
export function copyStreamRecord(record: StreamRecord): Mutable<StreamRecord> {
  return {
    incarnation: record.incarnation,
    contentType: record.contentType,
    createdAtMs: record.createdAtMs,
    tail: record.tail,
    retained: record.retained,
    sealed: record.sealed,
    hotStart: record.hotStart,
    closed: record.closed,
    closedBy: record.closedBy,
    ttl: record.ttl,
    expiresAtMs: record.expiresAtMs,
    touchedAtMs: record.touchedAtMs,
    lastSeq: record.lastSeq,
    producers: record.producers,
    producerFloor: record.producerFloor,
    snapshot: record.snapshot,
    change: record.change,
    loggedChange: record.loggedChange,
    origin: record.origin,
    forks: record.forks,
    softDeleted: record.softDeleted,
  };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** A token that could have been issued. */
export function readIncarnation(reader: ByteReader): Incarnation {
  const value = reader.varint();
  if (value < INCARNATION_MIN) throw reader.bad(`${value} is not an incarnation`);
  return value as Incarnation;
}

function flagsOf(record: StreamRecord): number {
  return (
    (record.closed ? CLOSED : 0) |
    (record.closedBy !== null ? CLOSED_BY : 0) |
    (record.ttl !== null ? TTL : 0) |
    (record.expiresAtMs !== null ? EXPIRES : 0) |
    (record.lastSeq !== null ? LAST_SEQ : 0) |
    (record.producerFloor !== -1 ? FLOOR : 0) |
    (record.snapshot !== null ? SNAPSHOT : 0) |
    (hasForks(record) ? FORKS : 0)
  );
}

/** What makes the record impossible, null when it is sound. */
function recordFault(record: StreamRecord): string | null {
  if (record.incarnation < INCARNATION_MIN) return `${record.incarnation} is not an incarnation`;
  if (record.retained > record.tail) return `retained ${record.retained} beyond tail ${record.tail}`;
  if (record.sealed > record.tail) return `sealed ${record.sealed} beyond tail ${record.tail}`;
  if (record.hotStart > record.sealed && record.hotStart > record.retained) return `nothing holds the bytes below hot start ${record.hotStart}`;
  if (record.closedBy !== null && !record.closed) return 'closed by a producer, but open';
  if (record.ttl !== null && record.expiresAtMs !== null) return 'two lifetimes';
  if (record.softDeleted && record.forks === 0) return 'kept for forks that are not there';
  if (record.origin !== null && (record.origin.at > record.sealed || record.origin.at > record.hotStart)) return `a fork from ${record.origin.at} on that holds bytes below`;
  return null;
}

function writeClosedBy(writer: ByteWriter, closedBy: ClosedBy): void {
  writer.string(closedBy.producerId);
  writer.varint(closedBy.epoch);
  writer.varint(closedBy.seq);
}

function readClosedBy(reader: ByteReader): ClosedBy {
  return { producerId: reader.string(), epoch: reader.varint(), seq: reader.varint() };
}

/** Lowest offset of the bytes that the stream itself has to hold: a fork has those above its beginning, and a stream with forks keeps what they read. */
export function heldFrom(record: Pick<StreamRecord, 'retained' | 'origin' | 'forks'>): Offset {
  const own = record.origin?.at ?? (0 as Offset);
  return record.forks > 0 || record.retained < own ? own : record.retained;
}

const SOFT_DELETED = 1;
const ORIGIN = 2;

function hasForks(record: StreamRecord): boolean {
  return record.origin !== null || record.forks > 0 || record.softDeleted;
}

function writeForks(writer: ByteWriter, record: StreamRecord): void {
  const { origin, forks, softDeleted } = record;
  writer.u8((softDeleted ? SOFT_DELETED : 0) | (origin !== null ? ORIGIN : 0));
  writer.varint(forks);
  if (origin === null) return;
  writer.string(origin.key);
  writer.varint(origin.incarnation);
  writer.varint(origin.offset);
  writer.varint(origin.sub);
  writer.varint(origin.at);
  writer.varint(origin.depth);
}

function readForks(reader: ByteReader, record: Mutable<StreamRecord>): void {
  const flags = reader.u8();
  if ((flags & ~(SOFT_DELETED | ORIGIN)) !== 0) throw reader.bad(`unknown flags ${flags} of forks`);
  record.softDeleted = (flags & SOFT_DELETED) !== 0;
  record.forks = reader.varint();
  if ((flags & ORIGIN) !== 0) record.origin = readOrigin(reader);
}

function readOrigin(reader: ByteReader): ForkOrigin {
  return {
    key: reader.string() as StreamKey,
    incarnation: readIncarnation(reader),
    offset: reader.varint() as Offset,
    sub: reader.varint(),
    at: reader.varint() as Offset,
    depth: reader.varint(),
  };
}
