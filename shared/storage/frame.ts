/**
 * A frame: the unit of compression, of checksum and of a cold read (architecture section 6).
 *
 * Owns: version u8 | compression u8 | raw length u32 | stored length u32 | stored bytes | stored sum of everything before u32.
 * Promises: a frame that reads has exactly the bytes that were written, of the object and place that the reference meant (I4, I9); nothing is allocated by a
 * length before the sum and the limit were checked.
 */
import { BadBytes } from './codec.js';
import { crc32c, crc32cRange, storedSum } from './crc.js';
import { layDown, lengthOf } from './pieces.js';
import type { BlockRef } from './records/types.js';
import { ZSTD_BYTES_MAX, compress, decompress } from './zstd.js';

const VERSION = 1;
const WHAT = 'frame';
const STORED = 0;
const ZSTD = 1;

/** Raw bytes at which a frame is closed: configurable within these, 128 KiB by default. One item more may lie behind the border. */
export const FRAME_TARGET_BYTES_MIN = 65_536;
export const FRAME_TARGET_BYTES_MAX = 262_144;
export const FRAME_TARGET_BYTES = 131_072;
/** Most raw bytes of a frame: a target's worth and the largest item, a snapshot of just below 1 MiB. */
export const FRAME_RAW_BYTES_MAX = 2_097_152;
const FRAME_HEADER_BYTES = 10;
export const FRAME_SUM_BYTES = 4;
export const FRAME_OVERHEAD_BYTES = FRAME_HEADER_BYTES + FRAME_SUM_BYTES;

export interface EncodedFrame {
  readonly bytes: Buffer;
  /** CRC32C of the frame as stored, up to its own sum. */
  readonly crc: number;
  readonly rawBytes: number;
}

/** What a reference says of a frame. */
export type FrameRef = Pick<BlockRef, 'frameAt' | 'frameBytes' | 'frameCrc'>;

/** Compresses, off the main thread when it takes long, what may come in pieces; stored as it is when that is not longer. */
export async function encodeFrame(raw: Buffer | readonly Buffer[]): Promise<EncodedFrame> {
  const pieces = Buffer.isBuffer(raw) ? [raw] : raw;
  const rawBytes = lengthOf(pieces);
  if (rawBytes === 0 || rawBytes > FRAME_RAW_BYTES_MAX) throw new RangeError(`a frame of ${rawBytes} bytes`);
  const packed = await compress(pieces);
  const sumAt = FRAME_HEADER_BYTES + (packed?.length ?? rawBytes);
  const bytes = Buffer.allocUnsafeSlow(sumAt + FRAME_SUM_BYTES);
  bytes[0] = VERSION;
  bytes[1] = packed === null ? STORED : ZSTD;
  bytes.writeUInt32LE(rawBytes, 2);
  bytes.writeUInt32LE(sumAt - FRAME_HEADER_BYTES, 6);
  layDown(packed === null ? pieces : [packed], bytes, FRAME_HEADER_BYTES);
  const crc = crc32cRange(bytes, 0, sumAt);
  bytes.writeUInt32LE(storedSum(crc), sumAt);
  return { bytes, crc, rawBytes };
}

/** Raw bytes of the frame that a reference names, `stored` being exactly the bytes [frameAt, frameAt + frameBytes) of its object. Throws `BadBytes`. */
export async function readFrame(stored: Buffer, ref: FrameRef): Promise<Buffer> {
  if (stored.length !== ref.frameBytes) throw new BadBytes(WHAT, `${stored.length} bytes where the reference says ${ref.frameBytes}`);
  const head = checkFrame(stored);
  if (head.crc !== ref.frameCrc) throw new BadBytes(WHAT, 'checksum is not that of the reference');
  return rawOf(stored, head);
}

/** A view of the block that a reference names in the raw bytes of its frame. Throws `BadBytes`. */
export function blockIn(raw: Buffer, ref: Pick<BlockRef, 'blockAt' | 'blockBytes'>): Buffer {
  const end = ref.blockAt + ref.blockBytes;
  if (end > raw.length) throw new BadBytes(WHAT, `a block up to ${end} in ${raw.length} bytes`);
  return raw.subarray(ref.blockAt, end);
}

export interface FrameHead {
  /** Length of the whole frame as stored. */
  readonly frameBytes: number;
  readonly rawBytes: number;
  readonly compression: number;
  readonly crc: number;
}

/** Length of the frame that begins at `at`, from its header alone. Throws `BadBytes`. */
export function frameLengthAt(buffer: Buffer, at: number): number {
  if (at + FRAME_OVERHEAD_BYTES > buffer.length) throw new BadBytes(WHAT, 'cut short');
  if (buffer[at] !== VERSION) throw new BadBytes(WHAT, `format version ${buffer[at]} is not known`);
  const bytes = buffer.readUInt32LE(at + 6) + FRAME_OVERHEAD_BYTES;
  if (at + bytes > buffer.length) throw new BadBytes(WHAT, 'cut short');
  return bytes;
}

/** Checks header, length and sum of one frame, which `stored` is whole. Throws `BadBytes`. */
export function checkFrame(stored: Buffer): FrameHead {
  const frameBytes = frameLengthAt(stored, 0);
  if (frameBytes !== stored.length) throw new BadBytes(WHAT, `${stored.length} bytes where its header says ${frameBytes}`);
  const crc = crc32c(stored.subarray(0, frameBytes - FRAME_SUM_BYTES));
  if (storedSum(crc) !== stored.readUInt32LE(frameBytes - FRAME_SUM_BYTES)) throw new BadBytes(WHAT, 'checksum does not match');
  const compression = stored[1] as number;
  const rawBytes = stored.readUInt32LE(2);
  if (compression > ZSTD) throw new BadBytes(WHAT, `unknown compression ${compression}`);
  if (rawBytes === 0 || rawBytes > FRAME_RAW_BYTES_MAX) throw new BadBytes(WHAT, `${rawBytes} raw bytes`);
  if (compression === STORED && rawBytes !== frameBytes - FRAME_OVERHEAD_BYTES) throw new BadBytes(WHAT, 'raw and stored length differ');
  return { frameBytes, rawBytes, compression, crc };
}

/** Raw bytes of a frame that `checkFrame` accepted. */
export function rawOf(stored: Buffer, head: FrameHead): Promise<Buffer> {
  const body = stored.subarray(FRAME_HEADER_BYTES, head.frameBytes - FRAME_SUM_BYTES);
  return head.compression === ZSTD ? decompress(body, head.rawBytes) : Promise.resolve(body);
}

if (FRAME_RAW_BYTES_MAX > ZSTD_BYTES_MAX) throw new Error('the largest frame is not compressed at once');
if (FRAME_TARGET_BYTES < FRAME_TARGET_BYTES_MIN || FRAME_TARGET_BYTES > FRAME_TARGET_BYTES_MAX) throw new Error('the target of frames lies outside its limits');
