/**
 * A cold reference: which block of which data object holds a range of a stream (design section 6).
 *
 * Owns: its bytes, alone (a row of the hot store) and embedded in log records and checkpoints.
 */
import type { Offset } from '../../protocol/types.js';
import { sealed, unsealed, type ByteReader, type ByteWriter } from '../codec.js';
import { readObjectId, writeObjectId } from './object-id.js';
import type { BlockRef, ColdRef } from './types.js';

const VERSION = 1;
const COLD_REF_BYTES_MIN = 16;

export function encodeColdRef(ref: ColdRef): Buffer {
  return sealed(VERSION, ref, (writer, value) => writeColdRef(writer, value));
}

export function decodeColdRef(buffer: Buffer): ColdRef {
  return unsealed(buffer, 'cold reference', VERSION, readColdRef);
}

export function writeColdRef(writer: ByteWriter, ref: ColdRef): void {
  if (!(ref.end > ref.start)) throw new RangeError(`a cold reference from ${ref.start} to ${ref.end}`);
  writer.varint(ref.start);
  writer.varint(ref.end - ref.start);
  writeBlockRef(writer, ref);
}

export function readColdRef(reader: ByteReader): ColdRef {
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
