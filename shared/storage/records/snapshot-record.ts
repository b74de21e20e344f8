/**
 * A snapshot of a stream as stored: identity, sums, and where its body lies (SNAP-30 .. SNAP-35).
 *
 * Owns: its bytes, alone (a superseded snapshot's row) and embedded in a stream record or a log record.
 */
import type { Offset } from '../../protocol/types.js';
import { decodeStored, encodeStored, type ByteReader, type ByteWriter } from '../codec.js';
import { readBlockRef, writeBlockRef } from './cold-ref.js';
import { readObjectId, writeObjectId } from './object-id.js';
import type { SnapshotRecord } from './types.js';

const VERSION = 1;
const DIGEST_BYTES = 32;

const Hot = { none: 0, inline: 1, staging: 2 } as const;
const Cold = { none: 0, block: 1, object: 2 } as const;

export function encodeSnapshotRecord(record: SnapshotRecord): Buffer {
  return encodeStored(VERSION, record, writeSnapshotRecord);
}

export function decodeSnapshotRecord(buffer: Buffer): SnapshotRecord {
  return decodeStored(buffer, 'snapshot record', VERSION, readSnapshotRecord);
}

export function writeSnapshotRecord(writer: ByteWriter, record: SnapshotRecord): void {
  writer.varint(record.offset);
  writer.string(record.contentType);
  writer.hex(record.digest, DIGEST_BYTES);
  writer.varint(record.bytes);
  writer.u32(record.crc);
  writer.varint(record.publishedAtMs);
  writeHot(writer, record.hot);
  writeCold(writer, record.cold);
}

export function readSnapshotRecord(reader: ByteReader): SnapshotRecord {
  return {
    offset: reader.varint() as Offset,
    contentType: reader.string(),
    digest: reader.hex(DIGEST_BYTES),
    bytes: reader.varint(),
    crc: reader.u32(),
    publishedAtMs: reader.varint(),
    hot: readHot(reader),
    cold: readCold(reader),
  };
}

function writeHot(writer: ByteWriter, hot: SnapshotRecord['hot']): void {
  if (hot === null) return writer.u8(Hot.none);
  if (hot.at === 'inline') return writer.u8(Hot.inline);
  writer.u8(Hot.staging);
  writer.string(hot.file);
}

function readHot(reader: ByteReader): SnapshotRecord['hot'] {
  const at = reader.u8();
  if (at === Hot.none) return null;
  if (at === Hot.inline) return { at: 'inline' };
  if (at === Hot.staging) return { at: 'staging', file: reader.string() };
  throw reader.bad(`unknown place ${at} of a hot snapshot`);
}

function writeCold(writer: ByteWriter, cold: SnapshotRecord['cold']): void {
  if (cold === null) return writer.u8(Cold.none);
  if (cold.at === 'block') {
    writer.u8(Cold.block);
    writeBlockRef(writer, cold.ref);
    return;
  }
  writer.u8(Cold.object);
  writeObjectId(writer, cold.ref.object);
  writer.varint(cold.ref.bytes);
  writer.u32(cold.ref.crc);
}

function readCold(reader: ByteReader): SnapshotRecord['cold'] {
  const at = reader.u8();
  if (at === Cold.none) return null;
  if (at === Cold.block) return { at: 'block', ref: readBlockRef(reader) };
  if (at === Cold.object) return { at: 'object', ref: { object: readObjectId(reader), bytes: reader.varint(), crc: reader.u32() } };
  throw reader.bad(`unknown place ${at} of a cold snapshot`);
}
