/**
 * A cold reference: which block of which data object holds a range of a stream (architecture section 6).
 *
 * Owns: its bytes, alone (a row of the hot store) and embedded in log records and checkpoints.
 */
import type { Offset } from '../../protocol/types.js';
import { ByteWriter, decodeStored, encodeStored, type ByteReader } from '../codec.js';
import { crc32c } from '../crc.js';
import { readObjectId, sameObject, writeObjectId } from './object-id.js';
import type { BlockRef, ColdRef, CompactedRange } from './types.js';

const VERSION = 1;
const COLD_REF_BYTES_MIN = 16;

export function encodeColdRef(ref: ColdRef): Buffer {
  return encodeStored(VERSION, ref, (writer, value) => writeColdRef(writer, value));
}

export function decodeColdRef(buffer: Buffer): ColdRef {
  return decodeStored(buffer, 'cold reference', VERSION, readColdRef);
}

function writeColdRef(writer: ByteWriter, ref: ColdRef): void {
  if (!(ref.end > ref.start)) throw new RangeError(`a cold reference from ${ref.start} to ${ref.end}`);
  writer.varint(ref.start);
  writer.varint(ref.end - ref.start);
  writeBlockRef(writer, ref);
}

function readColdRef(reader: ByteReader): ColdRef {
  const start = reader.varint();
  const bytes = reader.varint();
  if (bytes === 0 || start + bytes > Number.MAX_SAFE_INTEGER) throw reader.bad(`a range of ${bytes} bytes at ${start}`);
  const ref = readBlockRef(reader);
  return {
    start: start as Offset,
    end: (start + bytes) as Offset,
    object: ref.object,
    frameAt: ref.frameAt,
    frameBytes: ref.frameBytes,
    frameCrc: ref.frameCrc,
    blockAt: ref.blockAt,
    blockBytes: ref.blockBytes,
  };
}

/** A row of references without a gap (I3). */
export function writeRefs(writer: ByteWriter, refs: readonly ColdRef[]): void {
  writer.varint(refs.length);
  for (const [index, ref] of refs.entries()) {
    if (index > 0 && refs[index - 1]?.end !== ref.start) throw new Error(`a gap before the cold reference at ${ref.start}`);
    writeColdRef(writer, ref);
  }
}

export function readRefs(reader: ByteReader): ColdRef[] {
  const refs = reader.many(COLD_REF_BYTES_MIN, readColdRef);
  for (const [index, ref] of refs.entries()) {
    if (index > 0 && refs[index - 1]?.end !== ref.start) throw reader.bad(`a gap before the cold reference at ${ref.start}`);
  }
  return refs;
}

const summed = new ByteWriter(256);

/** Tells one row of references from another: CRC32C of their bytes, which name objects that never change (I4). */
export function refsSum(refs: Iterable<ColdRef>): number {
  let sum = 0;
  for (const ref of refs) {
    summed.reset();
    writeColdRef(summed, ref);
    sum = crc32c(summed.take(), sum);
  }
  return sum;
}

export function sameBlock(a: BlockRef, b: BlockRef): boolean {
  return a.frameAt === b.frameAt && a.blockAt === b.blockAt && a.blockBytes === b.blockBytes && a.frameBytes === b.frameBytes && a.frameCrc === b.frameCrc && sameObject(a.object, b.object);
}

/** A range of a compaction; its references cover it exactly. */
export function writeCompactedRange(writer: ByteWriter, { from, to, was, refs }: CompactedRange): void {
  if (refs[0]?.start !== from || refs.at(-1)?.end !== to || was.refs < 1) throw new Error(`references that do not cover [${from}, ${to})`);
  writer.varint(was.refs);
  writer.u32(was.sum);
  writeRefs(writer, refs);
}

export function readCompactedRange(reader: ByteReader): CompactedRange {
  const was = { refs: reader.varint(), sum: reader.u32() };
  const refs = readRefs(reader);
  const [first, last] = [refs[0], refs.at(-1)];
  if (first === undefined || last === undefined || was.refs === 0) throw reader.bad('a compaction of nothing');
  return { from: first.start, to: last.end, was, refs };
}

/** At least: two numbers and one reference. */
export const COMPACTED_RANGE_BYTES_MIN = 6 + COLD_REF_BYTES_MIN;

export function writeBlockRef(writer: ByteWriter, ref: BlockRef): void {
  writeObjectId(writer, ref.object);
  writer.varint(ref.frameAt);
  writer.varint(ref.frameBytes);
  writer.u32(ref.frameCrc);
  writer.varint(ref.blockAt);
  writer.varint(ref.blockBytes);
}

export function readBlockRef(reader: ByteReader): BlockRef {
  return {
    object: readObjectId(reader),
    frameAt: reader.varint(),
    frameBytes: reader.varint(0xffff_ffff),
    frameCrc: reader.u32(),
    blockAt: reader.varint(0xffff_ffff),
    blockBytes: reader.varint(0xffff_ffff),
  };
}
