/**
 * What is on record about one producer of one stream (PROD-03 .. PROD-25).
 *
 * Owns: its bytes, alone (a row of the hot store, the id in its key) and with its id in log records, plans and checkpoints.
 */
import type { Offset } from '../../protocol/types.js';
import { decodeStored, encodeStored, type ByteReader, type ByteWriter } from '../codec.js';
import type { NamedProducer, ProducerRecord } from './types.js';

const VERSION = 1;
const DIGEST_BYTES = 32;
export const NAMED_PRODUCER_BYTES_MIN = 8;

const FIRST_DIGEST = 1;
const LAST_DIGEST = 2;
const LAST_CLOSED = 4;
const REPLACED = 8;
const SAME_DIGEST = 16;
const REPLACED_EMPTY = 32;
const FLAGS_ALL = 63;

export function encodeProducerRecord(record: ProducerRecord): Buffer {
  return encodeStored(VERSION, record, writeProducerRecord);
}

export function decodeProducerRecord(buffer: Buffer): ProducerRecord {
  return decodeStored(buffer, 'producer record', VERSION, readProducerRecord);
}

export function writeNamedProducer(writer: ByteWriter, producer: NamedProducer): void {
  writer.string(producer.id);
  writeProducerRecord(writer, producer);
}

export function readNamedProducer(reader: ByteReader): NamedProducer {
  return { id: reader.string(), ...readProducerRecord(reader) };
}

function writeProducerRecord(writer: ByteWriter, record: ProducerRecord): void {
  if (record.lastEnd < record.lastStart) throw new Error(`producer record: newest write from ${record.lastStart} to ${record.lastEnd}`);
  if (record.closedEpoch === -1 && record.closedSeq !== -1) throw new Error('producer record: a replaced seq without its epoch');
  writer.u8(flagsOf(record));
  writer.varint(record.epoch);
  writer.varint(record.lastSeq);
  writer.varint(record.lastStart);
  writer.varint(record.lastEnd - record.lastStart);
  writer.varint(record.lastAtMs);
  writer.varint(record.change);
  if (record.closedEpoch !== -1) {
    writer.varint(record.closedEpoch);
    if (record.closedSeq !== -1) writer.varint(record.closedSeq);
  }
  if (record.firstDigest !== null) writer.hex(record.firstDigest, DIGEST_BYTES);
  if (record.lastDigest !== null && record.lastDigest !== record.firstDigest) writer.hex(record.lastDigest, DIGEST_BYTES);
}

function readProducerRecord(reader: ByteReader): ProducerRecord {
  const flags = reader.u8();
  if ((flags & ~FLAGS_ALL) !== 0 || (flags & (LAST_DIGEST | SAME_DIGEST)) === (LAST_DIGEST | SAME_DIGEST)) throw reader.bad(`unknown flags ${flags}`);
  if ((flags & SAME_DIGEST) !== 0 && (flags & FIRST_DIGEST) === 0) throw reader.bad('a repeated digest without a first');
  const epoch = reader.varint();
  const lastSeq = reader.varint();
  const lastStart = reader.varint();
  const lastBytes = reader.varint();
  if (lastStart + lastBytes > Number.MAX_SAFE_INTEGER) throw reader.bad(`a write of ${lastBytes} bytes at ${lastStart}`);
  const lastAtMs = reader.varint();
  const change = reader.varint();
  const replaced = (flags & REPLACED) !== 0;
  if (!replaced && (flags & REPLACED_EMPTY) !== 0) throw reader.bad(`unknown flags ${flags}`);
  const closedEpoch = replaced ? reader.varint() : -1;
  const closedSeq = replaced && (flags & REPLACED_EMPTY) === 0 ? reader.varint() : -1;
  const firstDigest = (flags & FIRST_DIGEST) !== 0 ? reader.hex(DIGEST_BYTES) : null;
  const ownDigest = (flags & LAST_DIGEST) !== 0 ? reader.hex(DIGEST_BYTES) : null;
  return {
    epoch,
    lastSeq,
    firstDigest,
    lastDigest: (flags & SAME_DIGEST) !== 0 ? firstDigest : ownDigest,
    lastStart: lastStart as Offset,
    lastEnd: (lastStart + lastBytes) as Offset,
    lastClosed: (flags & LAST_CLOSED) !== 0,
    closedEpoch,
    closedSeq,
    lastAtMs,
    change,
  };
}

function flagsOf(record: ProducerRecord): number {
  const lastDigest = record.lastDigest === null ? 0 : record.lastDigest === record.firstDigest ? SAME_DIGEST : LAST_DIGEST;
  return (
    (record.firstDigest !== null ? FIRST_DIGEST : 0) |
    lastDigest |
    (record.lastClosed ? LAST_CLOSED : 0) |
    (record.closedEpoch !== -1 ? REPLACED | (record.closedSeq === -1 ? REPLACED_EMPTY : 0) : 0)
  );
}
