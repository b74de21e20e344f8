/**
 * The contents of a seal or compaction plan on their way from the node to a worker (docs/formats.md, "The way to a worker").
 *
 * Owns: magic, then frames `length u32 | kind u8 | fields | stored sum of everything before u32`; the last one says how many items came. Promises: the same items give
 * the same bytes; what was cut, altered or left out on the way is an error, never a shorter plan (I9); a reader holds one frame.
 */
import type { Incarnation, StreamKey } from '../../shared/protocol/types.js';
import { BadBytes, ByteReader, ByteWriter } from '../../shared/storage/codec.js';
import { crc32cRange, storedSum } from '../../shared/storage/crc.js';
import { decodeSnapshotBody, encodeSnapshotBody } from '../../shared/storage/snapshot-body.js';
import { readBlockRef, readRefs, writeBlockRef, writeRefs } from '../../shared/storage/records/cold-ref.js';
import type { PlanItem, PlanSource } from './node-port.js';

const WHAT = 'plan stream';
/** `FIRN`, `W`, layout 1. */
export const PLAN_STREAM_MAGIC = Buffer.from('4649524e57010d0a', 'hex');
/** Longest frame behind its length, bytes: a small snapshot, or a block with its table of entries, and the key. */
export const FRAME_BYTES_MAX = 2_097_152;
const LENGTH_BYTES = 4;
const SUM_BYTES = 4;
/** Longest key, bytes of UTF-8. */
const KEY_BYTES_MAX = 1_024;

const KINDS = { block: 1, snapshot: 2, end: 3, range: 4, copy: 5 } as const;

/** What such a stream carries. */
type Piece = PlanItem | PlanSource;

const head = new ByteWriter(2_048);

/** One item as a frame. */
export function encodePlanItem(item: PlanItem): Buffer {
  head.reset();
  head.u8(KINDS[item.kind]);
  head.varint(item.stream);
  head.varint(item.incarnation);
  head.string(item.key, KEY_BYTES_MAX);
  return frame(item.kind === 'block' ? item.block : encodeSnapshotBody(item.record, item.body));
}

/** One source of a compaction as a frame. */
function encodePlanSource({ source, key, incarnation, refs, snapshot }: PlanSource): Buffer {
  head.reset();
  head.u8(snapshot === null ? KINDS.range : KINDS.copy);
  head.varint(source);
  head.varint(incarnation);
  head.string(key, KEY_BYTES_MAX);
  if (snapshot === null) writeRefs(head, refs);
  else writeBlockRef(head, snapshot);
  return frame(Buffer.alloc(0));
}

/** The frame behind the last item. */
export function encodePlanEnd(items: number): Buffer {
  head.reset();
  head.u8(KINDS.end);
  head.varint(items);
  return frame(Buffer.alloc(0));
}

/** What stands in `head`, and what follows it. */
function frame(rest: Buffer): Buffer {
  const length = head.length + rest.length + SUM_BYTES;
  if (length > FRAME_BYTES_MAX) throw new RangeError(`a frame of ${length} bytes`);
  const bytes = Buffer.allocUnsafe(LENGTH_BYTES + length);
  bytes.writeUInt32LE(length, 0);
  const at = head.takeInto(bytes, LENGTH_BYTES);
  rest.copy(bytes, at);
  bytes.writeUInt32LE(storedSum(crc32cRange(bytes, 0, bytes.length - SUM_BYTES)), bytes.length - SUM_BYTES);
  return bytes;
}

/** The whole answer, in pieces of one frame. Not even the magic comes before the first item was read: what is wrong from the start is an error of the first piece. */
export async function* encodePlanStream(items: AsyncIterable<Piece>): AsyncGenerator<Buffer> {
  let count = 0;
  for await (const item of items) {
    if (count === 0) yield PLAN_STREAM_MAGIC;
    count++;
    yield 'source' in item ? encodePlanSource(item) : encodePlanItem(item);
  }
  if (count === 0) yield PLAN_STREAM_MAGIC;
  yield encodePlanEnd(count);
}

/** The items of an answer, each as soon as it is there. Throws `BadBytes`, also when the answer ends before its end. A reader that leaves ends the source. */
export async function* decodePlanStream(source: AsyncIterable<Uint8Array>): AsyncGenerator<PlanItem> {
  for await (const piece of decodePieces(source)) {
    if ('source' in piece) throw new BadBytes(WHAT, 'a source of a compaction in a seal');
    yield piece;
  }
}

/** The same of a compaction. */
export async function* decodeSourceStream(source: AsyncIterable<Uint8Array>): AsyncGenerator<PlanSource> {
  for await (const piece of decodePieces(source)) {
    if (!('source' in piece)) throw new BadBytes(WHAT, 'bytes of a seal in a compaction');
    yield piece;
  }
}

async function* decodePieces(source: AsyncIterable<Uint8Array>): AsyncGenerator<Piece> {
  const pieces = source[Symbol.asyncIterator]();
  try {
    yield* itemsOf(new Gathered(pieces));
  } finally {
    await pieces.return?.();
  }
}

async function* itemsOf(bytes: Gathered): AsyncGenerator<Piece> {
  if (!(await bytes.take(PLAN_STREAM_MAGIC.length)).equals(PLAN_STREAM_MAGIC)) throw new BadBytes(WHAT, 'it begins with something else');
  for (let count = 0; ; count++) {
    const lengthBytes = await bytes.take(LENGTH_BYTES);
    const length = lengthBytes.readUInt32LE(0);
    if (length <= SUM_BYTES || length > FRAME_BYTES_MAX) throw new BadBytes(WHAT, `a frame of ${length} bytes`);
    const item = decodeFrame(Buffer.concat([lengthBytes, await bytes.take(length)]));
    if (typeof item === 'number') {
      if (item !== count) throw new BadBytes(WHAT, `${count} items where ${item} were sent`);
      if (!(await bytes.ended())) throw new BadBytes(WHAT, 'bytes behind its end');
      return;
    }
    yield item;
  }
}

/** An item, or the count that ends the stream. */
function decodeFrame(bytes: Buffer): Piece | number {
  const sumAt = bytes.length - SUM_BYTES;
  if (storedSum(crc32cRange(bytes, 0, sumAt)) !== bytes.readUInt32LE(sumAt)) throw new BadBytes(WHAT, 'checksum does not match');
  const reader = new ByteReader(bytes, WHAT, LENGTH_BYTES, sumAt);
  const kind = reader.u8();
  if (kind === KINDS.end) {
    const count = reader.varint();
    reader.end();
    return count;
  }
  if (kind < KINDS.block || kind > KINDS.copy) throw reader.bad(`unknown kind ${kind}`);
  const stream = reader.varint();
  const incarnation = reader.varint() as Incarnation;
  const key = reader.string(KEY_BYTES_MAX) as StreamKey;
  if (kind === KINDS.range || kind === KINDS.copy) {
    const refs = kind === KINDS.range ? readRefs(reader) : [];
    const snapshot = kind === KINDS.copy ? readBlockRef(reader) : null;
    reader.end();
    if (snapshot === null && refs.length === 0) throw reader.bad('a source of nothing');
    return { source: stream, key, incarnation, refs, snapshot };
  }
  const rest = reader.raw(reader.left);
  if (kind === KINDS.block) return { kind: 'block', stream, key, incarnation, block: rest };
  const { body, ...record } = decodeSnapshotBody(rest);
  return { kind: 'snapshot', stream, key, incarnation, record, body };
}

/** Takes exact lengths from pieces of any length. */
class Gathered {
  readonly #source: AsyncIterator<Uint8Array>;
  #held: Buffer[] = [];
  #bytes = 0;

  constructor(source: AsyncIterator<Uint8Array>) {
    this.#source = source;
  }

  async take(length: number): Promise<Buffer> {
    while (this.#bytes < length) {
      if (!(await this.#more())) throw new BadBytes(WHAT, 'cut short');
    }
    const all = this.#held.length === 1 ? (this.#held[0] as Buffer) : Buffer.concat(this.#held);
    this.#held = [all.subarray(length)];
    this.#bytes -= length;
    return all.subarray(0, length);
  }

  async ended(): Promise<boolean> {
    while (this.#bytes === 0) if (!(await this.#more())) return true;
    return false;
  }

  async #more(): Promise<boolean> {
    const { done, value } = await this.#source.next();
    if (done === true) return false;
    this.#held.push(Buffer.from(value.buffer, value.byteOffset, value.length));
    this.#bytes += value.length;
    return true;
  }
}
