/**
 * Parts of a checkpoint: objects of at most 32 MiB that hold its items in order, as frames.
 *
 * Owns: magic | frames | frame count u32 | stored sum of all before u32 | magic, the writer that cuts them and the reader that joins them.
 * Promises: one part in memory at a time on both sides (I11); the reader gives exactly the items that were written or throws `BadBytes` (I9).
 */
import { BadBytes, ByteReader, ByteWriter } from './codec.js';
import { CheckpointOrder, readCheckpointItem, writeCheckpointItem, type CheckpointItem } from './checkpoint-item.js';
import { crc32c, crc32cOf, storedSum } from './crc.js';
import { FRAME_OVERHEAD_BYTES, FRAME_RAW_BYTES_MAX, FRAME_TARGET_BYTES_MAX, checkFrame, encodeFrame, frameLengthAt, rawOf, type EncodedFrame } from './frame.js';
import { lengthOf } from './pieces.js';

const WHAT = 'part of a checkpoint';
const CHECKPOINT_PART_BYTES_MAX = 33_554_432;
/** "FIRN", "K" for checkpoint, layout 1. */
const MAGIC = Buffer.from([0x46, 0x49, 0x52, 0x4e, 0x4b, 0x01, 0x0d, 0x0a]);
const TRAILER_BYTES = 16;
/** Raw bytes at which a frame is closed. Items are at most about 128 KiB, so a frame keeps within FRAME_RAW_BYTES_MAX. */
const FRAME_BYTES = FRAME_TARGET_BYTES_MAX;

/** What the manifest says of a part. */
export interface CheckpointPartInfo {
  /** From 0 on, without gaps. */
  readonly part: number;
  readonly bytes: number;
  /** CRC32C of the part. */
  readonly crc: number;
  /** Streams that begin in it. */
  readonly streams: number;
}

export interface CheckpointPart extends CheckpointPartInfo {
  readonly body: readonly Buffer[];
}

/** Takes items in order, gives parts when they are full. The caller uploads them before it goes on, so no more than one and a bit is in memory. */
export class CheckpointWriter {
  private readonly order = new CheckpointOrder();
  private readonly open = new ByteWriter(FRAME_BYTES);
  private frames: Promise<EncodedFrame>[] = [];
  /** Stored bytes of the open part if nothing shrinks. */
  private bytesMax = MAGIC.length + TRAILER_BYTES;
  private streams = 0;
  private part = 0;
  private readonly partBytesMax: number;

  /** `partBytesMax`: smaller parts for tests. */
  constructor(options: { readonly partBytesMax?: number } = {}) {
    this.partBytesMax = options.partBytesMax ?? CHECKPOINT_PART_BYTES_MAX;
    if (this.partBytesMax > CHECKPOINT_PART_BYTES_MAX) throw new RangeError(`parts of ${this.partBytesMax} bytes`);
  }

  /** Adds the next item; the part that it completed, if any. Throws Error out of order. */
  async add(item: CheckpointItem): Promise<CheckpointPart | null> {
    const fault = this.order.fault(item);
    if (fault !== null) throw new Error(`checkpoint: ${fault}`);
    writeCheckpointItem(this.open, item);
    if (item.kind === 'stream') this.streams++;
    if (this.open.length < FRAME_BYTES) return null;
    this.closeFrame();
    return this.bytesMax + FRAME_RAW_BYTES_MAX > this.partBytesMax ? this.closePart() : null;
  }

  /** The last part; null when everything was given out, or nothing was added. */
  async finish(): Promise<CheckpointPart | null> {
    this.closeFrame();
    return this.frames.length === 0 ? null : this.closePart();
  }

  private closeFrame(): void {
    if (this.open.length === 0) return;
    const raw = this.open.take();
    const frame = encodeFrame(raw);
    // Its failure is thrown where the part is closed.
    frame.catch(() => undefined);
    this.frames.push(frame);
    this.bytesMax += raw.length + FRAME_OVERHEAD_BYTES;
  }

  private async closePart(): Promise<CheckpointPart> {
    const { part, streams } = this;
    const frames = this.frames;
    this.frames = [];
    this.part++;
    this.streams = 0;
    this.bytesMax = MAGIC.length + TRAILER_BYTES;
    const body: Buffer[] = [MAGIC, ...(await Promise.all(frames)).map((frame) => frame.bytes)];
    body.push(trailerOf(body, frames.length));
    const bytes = lengthOf(body);
    return { part, bytes, crc: crc32cOf(body), streams, body };
  }
}

/**
 * Items of a checkpoint from its parts, in order. `load` fetches one part; it is called once for each, one after the other. Throws `BadBytes`, and what
 * `load` throws.
 */
export async function* readCheckpointParts(parts: readonly CheckpointPartInfo[], load: (part: CheckpointPartInfo) => Promise<Buffer>): AsyncGenerator<CheckpointItem> {
  const order = new CheckpointOrder();
  for (const [number, info] of parts.entries()) {
    if (info.part !== number) throw new BadBytes(WHAT, `part ${info.part} at place ${number}`);
    const bytes = await load(info);
    if (bytes.length !== info.bytes || crc32c(bytes) !== info.crc) throw new BadBytes(WHAT, `part ${number} is not the one that the checkpoint names`);
    let streams = 0;
    for await (const item of readCheckpointPart(bytes)) {
      const fault = order.fault(item);
      if (fault !== null) throw new BadBytes(WHAT, fault);
      if (item.kind === 'stream') streams++;
      yield item;
    }
    if (streams !== info.streams) throw new BadBytes(WHAT, `${streams} streams in part ${number}, ${info.streams} expected`);
  }
}

/** Items of one part, without a look at the others. Throws `BadBytes`. */
export async function* readCheckpointPart(bytes: Buffer): AsyncGenerator<CheckpointItem> {
  const count = framesOf(bytes);
  const end = bytes.length - TRAILER_BYTES;
  let at = MAGIC.length;
  let frames = 0;
  for (; at < end; frames++) {
    const length = frameLengthAt(bytes, at);
    if (at + length > end) throw new BadBytes(WHAT, 'a frame reaches into the end');
    const stored = bytes.subarray(at, at + length);
    const reader = new ByteReader(await rawOf(stored, checkFrame(stored)), WHAT);
    while (reader.left > 0) yield readCheckpointItem(reader);
    at += length;
  }
  if (frames !== count) throw new BadBytes(WHAT, `${frames} frames, ${count} expected`);
}

function trailerOf(before: readonly Buffer[], frames: number): Buffer {
  const trailer = Buffer.alloc(TRAILER_BYTES);
  trailer.writeUInt32LE(frames, 0);
  trailer.writeUInt32LE(storedSum(crc32c(trailer.subarray(0, 4), crc32cOf(before))), 4);
  trailer.set(MAGIC, 8);
  return trailer;
}

/** Count of frames, from an end that was checked. */
function framesOf(bytes: Buffer): number {
  if (bytes.length < MAGIC.length + TRAILER_BYTES || bytes.length > CHECKPOINT_PART_BYTES_MAX) throw new BadBytes(WHAT, `${bytes.length} bytes`);
  const sumAt = bytes.length - MAGIC.length - 4;
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC) || !bytes.subarray(sumAt + 4).equals(MAGIC)) throw new BadBytes(WHAT, 'not a part of a checkpoint');
  if (storedSum(crc32c(bytes.subarray(0, sumAt))) !== bytes.readUInt32LE(sumAt)) throw new BadBytes(WHAT, 'checksum does not match');
  return bytes.readUInt32LE(sumAt - 4);
}
