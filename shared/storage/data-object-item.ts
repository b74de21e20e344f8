/**
 * An item in the raw bytes of a frame: `kind u8 | incarnation | key | value length | value`, the value an encoded block or snapshot body.
 *
 * Owns: the header before each value, which lets a frame be read without any index.
 */
import type { Incarnation, Offset, StreamKey } from '../protocol/types.js';
import { checkBlock } from './block.js';
import { ByteReader, ByteWriter } from './codec.js';
import { FRAME_RAW_BYTES_MAX } from './frame.js';
import { readIncarnation } from './records/stream-record.js';
import type { BlockRef } from './records/types.js';
import { decodeSnapshotBody } from './snapshot-body.js';

const WHAT = 'data object';
const BLOCK = 1;
const SNAPSHOT = 2;
/** Longest key in an item. Keys of streams have at most 122 bytes. */
const KEY_BYTES_MAX = 1_024;
export const ITEM_HEADER_BYTES_MAX = 1 + 8 + 2 + KEY_BYTES_MAX + 4;

/** A reference without the name of its object. */
export type RefInObject = Omit<BlockRef, 'object'>;

export interface FrameItem {
  readonly kind: 'block' | 'snapshot';
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
  /** Range of a block; a snapshot has its offset twice. */
  readonly start: Offset;
  readonly end: Offset;
  /** Where the value begins in the raw bytes. */
  readonly blockAt: number;
  /** Checked; a view of the raw bytes. */
  readonly value: Buffer;
}

const writer = new ByteWriter(256);

export function encodeItemHeader(kind: FrameItem['kind'], key: StreamKey, incarnation: Incarnation, valueBytes: number): Buffer {
  const head = writer.reset();
  head.u8(kind === 'block' ? BLOCK : SNAPSHOT);
  head.varint(incarnation);
  head.string(key, KEY_BYTES_MAX);
  head.varint(valueBytes);
  return head.take();
}

/** Items of a frame, each value decoded once. Throws `BadBytes`. */
export function* itemsOf(raw: Buffer): Generator<FrameItem> {
  const reader = new ByteReader(raw, WHAT);
  while (reader.left > 0) {
    const kind = reader.u8();
    const incarnation = readIncarnation(reader);
    const key = reader.string(KEY_BYTES_MAX) as StreamKey;
    const bytes = reader.varint(FRAME_RAW_BYTES_MAX);
    const blockAt = reader.at;
    const value = reader.raw(bytes);
    yield { ...rangeOf(reader, kind, value), key, incarnation, value, blockAt };
  }
}

function rangeOf(reader: ByteReader, kind: number, value: Buffer): Pick<FrameItem, 'kind' | 'start' | 'end'> {
  if (kind === BLOCK) {
    const { start, end } = checkBlock(value);
    return { kind: 'block', start, end };
  }
  if (kind !== SNAPSHOT) throw reader.bad(`unknown kind ${kind} of an item`);
  const { offset } = decodeSnapshotBody(value);
  return { kind: 'snapshot', start: offset, end: offset };
}
