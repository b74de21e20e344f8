/**
 * The manifest of a checkpoint: what it covers, its parts, and the table of data objects (architecture section 6 "Checkpoint").
 *
 * Owns: version | compression u8 | raw length | body | stored sum of everything before. Written last, by create-once, so a checkpoint whose manifest exists is whole.
 * Promises: it is made from objects alone and says for every object whether a reference names it still, or which record dropped the last one (I8).
 */
import { BadBytes, ByteReader, ByteWriter, encodeStored, openStored } from './codec.js';
import type { CheckpointPartInfo } from './checkpoint-parts.js';
import { SEQ_MAX, checkpointPartKey } from './keys.js';
import { ATTEMPT_MAX, OBJECT_INFO_BYTES_MIN, PART_MAX, SESSION_MAX, readObjectInfo, writeObjectInfo } from './records/object-id.js';
import type { ObjectInfo } from './records/types.js';
import { PARTITIONS_MAX } from './slots.js';
import { compressNow, decompressNow } from './zstd.js';

export * from './checkpoint-item.js';
export * from './checkpoint-parts.js';

const VERSION = 1;
const WHAT = 'checkpoint';
const STORED = 0;
const ZSTD = 1;
const MANIFEST_BYTES_MAX = 67_108_864;
const MANIFEST_RAW_BYTES_MAX = 268_435_456;
const BUCKET_BYTES_MAX = 122;

/** Up to and with which log entry something holds. */
export interface LogPoint {
  readonly session: number;
  readonly seq: number;
}

/** A data object that the log has named and that was not collected yet. */
export interface CheckpointObject extends ObjectInfo {
  /** References and snapshots that name it. */
  readonly refs: number;
  /** The record that dropped the last of them; null while there are any. */
  readonly droppedAt: LogPoint | null;
}

/** A purged bucket, whose id takes no new streams. */
export interface BucketFence {
  readonly bucket: string;
  readonly atMs: number;
}

export interface CheckpointManifest {
  readonly partition: number;
  /** Covers the log up to and with this entry; seq 0: none of that session. */
  readonly session: number;
  readonly seq: number;
  /** Tells the parts of this writer from those of another that did not finish. */
  readonly attempt: number;
  readonly writtenAtMs: number;
  readonly streams: number;
  readonly parts: readonly CheckpointPartInfo[];
  readonly objects: readonly CheckpointObject[];
  readonly fences: readonly BucketFence[];
}

const body = new ByteWriter(16_384);

/** Throws RangeError when it does not fit into a single PUT. */
export function encodeCheckpointManifest(manifest: CheckpointManifest): Buffer {
  checkManifest(manifest);
  const writer = body.reset();
  writeBody(writer, manifest);
  const raw = writer.take();
  const packed = compressNow(raw);
  const stored = packed.length < raw.length ? packed : raw;
  if (raw.length > MANIFEST_RAW_BYTES_MAX || stored.length > MANIFEST_BYTES_MAX - 64) throw new RangeError(`a checkpoint's manifest of ${stored.length} bytes`);
  return encodeStored(VERSION, stored, (envelope, bytes) => {
    envelope.u8(stored === raw ? STORED : ZSTD);
    envelope.varint(raw.length);
    envelope.bytes(bytes);
  });
}

/** Throws `BadBytes`. */
export function decodeCheckpointManifest(buffer: Buffer): CheckpointManifest {
  if (buffer.length > MANIFEST_BYTES_MAX) throw new BadBytes(WHAT, `${buffer.length} bytes`);
  const envelope = openStored(buffer, WHAT, VERSION);
  const compression = envelope.u8();
  const rawBytes = envelope.varint(MANIFEST_RAW_BYTES_MAX);
  const stored = envelope.bytes(MANIFEST_BYTES_MAX);
  envelope.end();
  if (compression > ZSTD || (compression === STORED && stored.length !== rawBytes)) throw envelope.bad('unknown compression or length');
  const reader = new ByteReader(compression === ZSTD ? decompressNow(stored, rawBytes) : stored, WHAT);
  const manifest = readBody(reader);
  reader.end();
  const fault = manifestFault(manifest);
  if (fault !== null) throw reader.bad(fault);
  return manifest;
}

/** Keys of a checkpoint's parts, in order. */
export function checkpointPartKeys(manifest: CheckpointManifest): string[] {
  const { partition, session, seq, attempt } = manifest;
  return manifest.parts.map(({ part }) => checkpointPartKey({ partition, session, seq, attempt, part }));
}

function writeBody(writer: ByteWriter, manifest: CheckpointManifest): void {
  writer.varint(manifest.partition);
  writer.varint(manifest.session);
  writer.varint(manifest.seq);
  writer.varint(manifest.attempt);
  writer.varint(manifest.writtenAtMs);
  writer.varint(manifest.streams);
  writer.varint(manifest.parts.length);
  for (const part of manifest.parts) {
    writer.varint(part.part);
    writer.varint(part.bytes);
    writer.u32(part.crc);
    writer.varint(part.streams);
  }
  writer.varint(manifest.objects.length);
  for (const object of manifest.objects) writeObject(writer, object);
  writer.varint(manifest.fences.length);
  for (const fence of manifest.fences) {
    writer.string(fence.bucket, BUCKET_BYTES_MAX);
    writer.varint(fence.atMs);
  }
}

function readBody(reader: ByteReader): CheckpointManifest {
  return {
    partition: reader.varint(PARTITIONS_MAX - 1),
    session: reader.varint(SESSION_MAX),
    seq: reader.varint(SEQ_MAX),
    attempt: reader.varint(ATTEMPT_MAX),
    writtenAtMs: reader.varint(),
    streams: reader.varint(),
    parts: reader.many(7, () => ({ part: reader.varint(PART_MAX), bytes: reader.varint(), crc: reader.u32(), streams: reader.varint() })),
    objects: reader.many(OBJECT_INFO_BYTES_MIN + 2, readObject),
    fences: reader.many(2, () => ({ bucket: reader.string(BUCKET_BYTES_MAX), atMs: reader.varint() })),
  };
}

function writeObject(writer: ByteWriter, object: CheckpointObject): void {
  writeObjectInfo(writer, object);
  writer.varint(object.refs);
  writer.bool(object.droppedAt !== null);
  if (object.droppedAt === null) return;
  writer.varint(object.droppedAt.session);
  writer.varint(object.droppedAt.seq);
}

function readObject(reader: ByteReader): CheckpointObject {
  const info = readObjectInfo(reader);
  const refs = reader.varint();
  const droppedAt = reader.bool() ? { session: reader.varint(SESSION_MAX), seq: reader.varint(SEQ_MAX) } : null;
  return { ...info, refs, droppedAt };
}

function checkManifest(manifest: CheckpointManifest): void {
  const { partition, session, seq, attempt } = manifest;
  if (partition >= PARTITIONS_MAX || session > SESSION_MAX || seq > SEQ_MAX || attempt > ATTEMPT_MAX) throw new RangeError('a checkpoint beyond the limits of its name');
  const fault = manifestFault(manifest);
  if (fault !== null) throw new Error(`checkpoint: ${fault}`);
}

function manifestFault(manifest: CheckpointManifest): string | null {
  let streams = 0;
  for (const [place, part] of manifest.parts.entries()) {
    if (part.part !== place) return `part ${part.part} at place ${place}`;
    streams += part.streams;
  }
  if (streams !== manifest.streams) return `${streams} streams in its parts, ${manifest.streams} in all`;
  for (const object of manifest.objects) {
    if ((object.refs === 0) !== (object.droppedAt !== null)) return 'an object that is neither named nor dropped, or both';
  }
  return null;
}
