/**
 * One entry of a partition's log: a record with its changes, or the fence that ends a session (architecture section 7, I10).
 *
 * Owns: its bytes: version | kind | compression | partition, session, seq | body length | body | CRC32C of everything before. The body of a record
 * is compressed when that makes it shorter.
 */
import { BadBytes, ByteReader, ByteWriter, encodeStored, openStored } from '../codec.js';
import { SEQ_MAX } from '../keys.js';
import type { Offset, StreamKey } from '../../protocol/types.js';
import { PARTITIONS_MAX } from '../slots.js';
import { compressNow, decompressNow } from '../zstd.js';
import { COMPACTED_RANGE_BYTES_MIN, readBlockRef, readCompactedRange, readRefs, writeBlockRef, writeCompactedRange, writeRefs } from './cold-ref.js';
import { OBJECT_ID_BYTES_MIN, OBJECT_INFO_BYTES_MIN, PLAN_MAX, SESSION_MAX, readObjectId, readObjectInfo, writeObjectId, writeObjectInfo } from './object-id.js';
import { NAMED_PRODUCER_BYTES_MIN, readNamedProducer, writeNamedProducer } from './producer-record.js';
import { readSnapshotRecord, writeSnapshotRecord } from './snapshot-record.js';
import { LINK_CURSOR_BYTES_MIN, NAMED_LINK_BYTES_MIN, readLinkCursor, readNamedLink, readSubscriptionConfig, writeLinkCursor, writeNamedLink, writeSubscriptionConfig } from './subscription-config.js';
import { readIncarnation, readStreamRecord, writeStreamRecord } from './stream-record.js';
import type { CompactedSnapshot, LogDelta, LogEntry, LogRecord } from './types.js';

const VERSION = 1;
const WHAT = 'log entry';
const RECORD = 0;
const FENCE = 1;
const STORED = 0;
const ZSTD = 1;

/** A log entry goes up in a single PUT. */
const LOG_ENTRY_BYTES_MAX = 67_108_864;
/** Its body in memory: what one plan may hold stays well below. */
const LOG_ENTRY_RAW_BYTES_MAX = 268_435_456;
/** Shorter bodies are left as they are. */
const COMPRESS_FROM_BYTES = 512;

/** Numbers of changes: never given to another one. */
const CODES: Readonly<Record<LogDelta['kind'], number>> = { seal: 0, offload: 1, delete: 2, purge: 3, collect: 4, compact: 5, subscription: 7, unsubscribe: 8 };
const KINDS = new Map(Object.entries(CODES).map(([kind, code]) => [code, kind as LogDelta['kind']]));

/** Scratch for the body, apart from that of the envelope. */
const body = new ByteWriter(16_384);

/** Throws RangeError beyond the limits of a single PUT, Error for a record that breaks an invariant. */
export function encodeLogEntry(entry: LogEntry): Buffer {
  if (entry.kind === 'fence') {
    return encodeStored(VERSION, entry, (writer, fence) => {
      writeHead(writer, FENCE, STORED, fence);
      writer.varint(fence.fencedBy);
    });
  }
  const raw = writeBody(entry);
  if (raw.length > LOG_ENTRY_RAW_BYTES_MAX) throw new RangeError(`a log record of ${raw.length} bytes`);
  const packed = raw.length >= COMPRESS_FROM_BYTES ? compressNow(raw) : raw;
  const stored = packed.length < raw.length ? packed : raw;
  const bytes = encodeStored(VERSION, entry, (writer, record) => {
    writeHead(writer, RECORD, stored === raw ? STORED : ZSTD, record);
    writer.varint(raw.length);
    writer.bytes(stored);
  });
  if (bytes.length > LOG_ENTRY_BYTES_MAX) throw new RangeError(`a log entry of ${bytes.length} bytes`);
  return bytes;
}

/** Throws `BadBytes`. */
export function decodeLogEntry(buffer: Buffer): LogEntry {
  if (buffer.length > LOG_ENTRY_BYTES_MAX) throw new BadBytes(WHAT, `${buffer.length} bytes`);
  const reader = openStored(buffer, WHAT, VERSION);
  const kind = reader.u8();
  const compression = reader.u8();
  const position = { partition: reader.varint(PARTITIONS_MAX - 1), session: reader.varint(SESSION_MAX), seq: reader.varint(SEQ_MAX) };
  if (kind === FENCE) {
    const fencedBy = reader.varint(SESSION_MAX);
    reader.end();
    if (compression !== STORED) throw reader.bad('a compressed fence');
    return { kind: 'fence', ...position, fencedBy };
  }
  if (kind !== RECORD) throw reader.bad(`unknown kind ${kind}`);
  const rawBytes = reader.varint(LOG_ENTRY_RAW_BYTES_MAX);
  const stored = reader.bytes(LOG_ENTRY_BYTES_MAX);
  reader.end();
  return { kind: 'record', ...position, ...readBody(new ByteReader(bodyOf(reader, compression, stored, rawBytes), WHAT)) };
}

function bodyOf(reader: ByteReader, compression: number, stored: Buffer, rawBytes: number): Buffer {
  if (compression === ZSTD) return decompressNow(stored, rawBytes);
  if (compression !== STORED) throw reader.bad(`unknown compression ${compression}`);
  if (stored.length !== rawBytes) throw reader.bad(`a body of ${stored.length} bytes, ${rawBytes} expected`);
  return stored;
}

function writeHead(writer: ByteWriter, kind: number, compression: number, { partition, session, seq }: LogEntry): void {
  if (partition >= PARTITIONS_MAX || session > SESSION_MAX || seq > SEQ_MAX) throw new RangeError(`no log position ${partition}/${session}/${seq}`);
  writer.u8(kind);
  writer.u8(compression);
  writer.varint(partition);
  writer.varint(session);
  writer.varint(seq);
}

function writeBody(record: LogRecord): Buffer {
  const writer = body.reset();
  writer.bool(record.plan !== null);
  if (record.plan !== null) writer.varint(record.plan);
  writer.varint(record.writtenAtMs);
  writer.varint(record.objects.length);
  for (const object of record.objects) writeObjectInfo(writer, object);
  writer.varint(record.deltas.length);
  for (const delta of record.deltas) writeDelta(writer, delta);
  return writer.take();
}

function readBody(reader: ByteReader): Omit<LogRecord, 'kind' | 'partition' | 'session' | 'seq'> {
  const plan = reader.bool() ? reader.varint(PLAN_MAX) : null;
  const writtenAtMs = reader.varint();
  const objects = reader.many(OBJECT_INFO_BYTES_MIN, readObjectInfo);
  const deltas = reader.many(2, readDelta);
  reader.end();
  return { plan, writtenAtMs, objects, deltas };
}

/** One change alone. */
export function writeDelta(writer: ByteWriter, delta: LogDelta): void {
  writer.u8(CODES[delta.kind]);
  switch (delta.kind) {
    case 'seal':
      writer.string(delta.key);
      writeStreamRecord(writer, delta.state);
      writer.varint(delta.producers.length);
      for (const producer of delta.producers) writeNamedProducer(writer, producer);
      writeRefs(writer, delta.refs);
      return;
    case 'offload':
      writer.string(delta.key);
      writer.varint(delta.incarnation);
      writeSnapshotRecord(writer, delta.snapshot);
      return;
    case 'delete':
      writer.string(delta.key);
      writer.varint(delta.incarnation);
      return;
    case 'purge':
      writer.string(delta.bucket);
      return;
    case 'collect':
      writer.varint(delta.objects.length);
      for (const object of delta.objects) writeObjectId(writer, object);
      return;
    case 'compact':
      writer.string(delta.key);
      writer.varint(delta.incarnation);
      writer.varint(delta.ranges.length);
      for (const range of delta.ranges) writeCompactedRange(writer, range);
      writer.bool(delta.snapshot !== null);
      if (delta.snapshot !== null) writeCompactedSnapshot(writer, delta.snapshot);
      return;
    case 'subscription':
      return writeSubscription(writer, delta);
    case 'unsubscribe':
      writer.string(delta.id);
      return;
    default:
      throw new Error(`unknown change ${(delta satisfies never as LogDelta).kind}`);
  }
}

/** Throws `BadBytes`. */
export function readDelta(reader: ByteReader): LogDelta {
  const kind = KINDS.get(reader.u8());
  switch (kind) {
    case 'seal':
      return { kind, key: reader.string() as StreamKey, state: readStreamRecord(reader), producers: reader.many(NAMED_PRODUCER_BYTES_MIN, readNamedProducer), refs: readRefs(reader) };
    case 'offload':
      return { kind, key: reader.string() as StreamKey, incarnation: readIncarnation(reader), snapshot: readSnapshotRecord(reader) };
    case 'delete':
      return { kind, key: reader.string() as StreamKey, incarnation: readIncarnation(reader) };
    case 'purge':
      return { kind, bucket: reader.string() };
    case 'collect':
      return { kind, objects: reader.many(OBJECT_ID_BYTES_MIN, readObjectId) };
    case 'compact':
      return {
        kind,
        key: reader.string() as StreamKey,
        incarnation: readIncarnation(reader),
        ranges: reader.many(COMPACTED_RANGE_BYTES_MIN, readCompactedRange),
        snapshot: reader.bool() ? readCompactedSnapshot(reader) : null,
      };
    case 'subscription':
      return {
        kind, id: reader.string(), config: readSubscriptionConfig(reader), whole: reader.bool(), links: reader.many(NAMED_LINK_BYTES_MIN, readNamedLink),
        unlinked: reader.many(1, (each) => each.string() as StreamKey), cursors: reader.many(LINK_CURSOR_BYTES_MIN, readLinkCursor),
      };
    case 'unsubscribe':
      return { kind, id: reader.string() };
    default:
      throw reader.bad('unknown change');
  }
}

function writeCompactedSnapshot(writer: ByteWriter, { offset, was, ref }: CompactedSnapshot): void {
  writer.varint(offset);
  writeBlockRef(writer, was);
  writeBlockRef(writer, ref);
}

function readCompactedSnapshot(reader: ByteReader): CompactedSnapshot {
  return { offset: reader.varint() as Offset, was: readBlockRef(reader), ref: readBlockRef(reader) };
}

function writeSubscription(writer: ByteWriter, { id, config, whole, links, unlinked, cursors }: Extract<LogDelta, { kind: 'subscription' }>): void {
  writer.string(id);
  writeSubscriptionConfig(writer, config);
  writer.bool(whole);
  writer.varint(links.length);
  for (const link of links) writeNamedLink(writer, link);
  writer.varint(unlinked.length);
  for (const key of unlinked) writer.string(key);
  writer.varint(cursors.length);
  for (const cursor of cursors) writeLinkCursor(writer, cursor);
}
