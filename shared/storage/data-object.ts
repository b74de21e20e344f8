/**
 * A data object: ranges of many streams and small snapshots in one immutable object (architecture section 6).
 *
 * Owns: the layout `magic | frames | footer` and its writer. The raw bytes of a frame are a row of items (`data-object-item`). Promises: nothing goes in that does not decode (I3); every item gets the reference by which a cold read finds it without the
 * footer; the object can be read knowing nothing else (`parseDataObject`).
 */
import type { Incarnation, Offset, StreamKey } from '../protocol/types.js';
import { BLOCK_PAYLOAD_MAX, checkBlock } from './block.js';
import { crc32c, crc32cCombine } from './crc.js';
import { DATA_OBJECT_MAGIC, FOOTER_BYTES_MAX, ITEMS_MAX, encodeFooter, type ItemEntry } from './data-object-footer.js';
import { ITEM_HEADER_BYTES_MAX, encodeItemHeader, type RefInObject } from './data-object-item.js';
import { FRAME_OVERHEAD_BYTES, FRAME_RAW_BYTES_MAX, FRAME_SUM_BYTES, FRAME_TARGET_BYTES, FRAME_TARGET_BYTES_MAX, FRAME_TARGET_BYTES_MIN, encodeFrame, type EncodedFrame } from './frame.js';
import { lengthOf } from './pieces.js';
import { SMALL_SNAPSHOT_BYTES_MAX, encodeSnapshotBody, type SnapshotIdentity } from './snapshot-body.js';

export { blockIn, readFrame } from './frame.js';
export { parseDataObject, type DataObjectItem } from './data-object-reader.js';
export type { RefInObject } from './data-object-item.js';
export { decodeSnapshotBody } from './snapshot-body.js';

/** Ranges of one object. */
export const DATA_OBJECT_RANGES_MAX = ITEMS_MAX;
/** Raw bytes of one object, item headers included. Stored bytes stay below the 64 MiB of a single PUT even when nothing shrinks. */
export const DATA_OBJECT_RAW_BYTES_MAX = 62_914_560;
/** Stored bytes of one object: a single PUT. */
export const DATA_OBJECT_BYTES_MAX = 67_108_864;

export interface PackedItem {
  readonly kind: 'block' | 'snapshot';
  readonly key: StreamKey;
  readonly incarnation: Incarnation;
  /** Range of a block; a snapshot has its offset twice. */
  readonly start: Offset;
  readonly end: Offset;
  readonly ref: RefInObject;
}

export interface PackedObject {
  /** The object in pieces. */
  readonly body: readonly Buffer[];
  readonly bytes: number;
  /** CRC32C of the whole object. */
  readonly crc: number;
  /** In the order in which they were added. */
  readonly items: readonly PackedItem[];
}

interface PlacedItem extends ItemEntry {
  readonly key: StreamKey;
}

/** Builds one object. Blocks come in the order of incarnation and offset, snapshots whenever; what is added is not copied, and does not change until the end. Not used again after `finish`. */
export class DataObjectWriter {
  private readonly items: PlacedItem[] = [];
  private readonly frames: Promise<EncodedFrame>[] = [];
  private open: Buffer[] = [];
  private openBytes = 0;
  private raw = 0;
  private last: PlacedItem | null = null;
  private finished = false;
  private readonly frameBytes: number;

  /** `frameBytes`: raw bytes at which a frame is closed. */
  constructor(options: { readonly frameBytes?: number } = {}) {
    this.frameBytes = options.frameBytes ?? FRAME_TARGET_BYTES;
    if (this.frameBytes < FRAME_TARGET_BYTES_MIN || this.frameBytes > FRAME_TARGET_BYTES_MAX) throw new RangeError(`a target of ${this.frameBytes} bytes for frames`);
  }

  /** Raw bytes so far. */
  get rawBytes(): number {
    return this.raw;
  }

  get ranges(): number {
    return this.items.length;
  }

  /** Whether one more value of `bytes` bytes keeps within the limits. */
  fits(bytes: number): boolean {
    return this.items.length < DATA_OBJECT_RANGES_MAX && this.raw + bytes + ITEM_HEADER_BYTES_MAX <= DATA_OBJECT_RAW_BYTES_MAX;
  }

  /** Throws `BadBytes` for a damaged block, Error out of order, RangeError when it does not fit. */
  addBlock(key: StreamKey, incarnation: Incarnation, block: Buffer): void {
    const { start, end } = checkBlock(block);
    const before = this.last;
    if (before !== null && (before.incarnation > incarnation || (before.incarnation === incarnation && before.end > start))) {
      throw new Error(`a data object with block ${incarnation}@${start} behind ${before.incarnation}@${before.start}`);
    }
    this.last = this.add(key, { kind: 'block', incarnation, start, end }, block);
  }

  /** Throws `BadBytes` when the body is not that of the record. */
  addSnapshot(key: StreamKey, incarnation: Incarnation, record: SnapshotIdentity, body: Buffer): void {
    this.add(key, { kind: 'snapshot', incarnation, start: record.offset, end: record.offset }, encodeSnapshotBody(record, body));
  }

  /** Closes the object. Throws Error when nothing was added. */
  async finish(): Promise<PackedObject> {
    if (this.finished || this.items.length === 0) throw new Error('a data object finished twice or without ranges');
    this.finished = true;
    this.closeFrame();
    const frames = await Promise.all(this.frames);
    const footer = encodeFooter(
      frames.map((frame) => ({ frameBytes: frame.bytes.length, rawBytes: frame.rawBytes, crc: frame.crc })),
      this.items,
    );
    const body = [DATA_OBJECT_MAGIC, ...frames.map((frame) => frame.bytes), ...footer];
    const bytes = lengthOf(body);
    if (bytes > DATA_OBJECT_BYTES_MAX) throw new Error(`a data object of ${bytes} bytes`);
    return { body, bytes, crc: objectSum(frames, footer), items: withRefs(this.items, frames) };
  }

  private add(key: StreamKey, range: Pick<ItemEntry, 'kind' | 'incarnation' | 'start' | 'end'>, value: Buffer): PlacedItem {
    if (this.finished) throw new Error('a data object was added to after its end');
    if (!this.fits(value.length)) throw new RangeError('the data object is full');
    const header = encodeItemHeader(range.kind, key, range.incarnation, value.length);
    if (this.openBytes > 0 && this.openBytes + header.length + value.length > this.frameBytes) this.closeFrame();
    const item = { ...range, key, frame: this.frames.length, blockAt: this.openBytes + header.length, blockBytes: value.length };
    this.open.push(header, value);
    this.openBytes += header.length + value.length;
    this.raw += header.length + value.length;
    this.items.push(item);
    return item;
  }

  /** Starts the compression of the open frame; the next item opens another. */
  private closeFrame(): void {
    if (this.openBytes === 0) return;
    const frame = encodeFrame(this.open);
    // A failure is thrown by `finish`, if it is ever called.
    frame.catch(() => undefined);
    this.frames.push(frame);
    this.open = [];
    this.openBytes = 0;
  }
}

/** CRC32C of the whole object: that of each frame is known, all but its last bytes. */
function objectSum(frames: readonly EncodedFrame[], footer: readonly Buffer[]): number {
  let sum = crc32c(DATA_OBJECT_MAGIC);
  for (const { bytes, crc } of frames) sum = crc32cCombine(sum, crc32c(bytes.subarray(-FRAME_SUM_BYTES), crc), bytes.length);
  for (const part of footer) sum = crc32c(part, sum);
  return sum;
}

function withRefs(items: readonly PlacedItem[], frames: readonly EncodedFrame[]): PackedItem[] {
  const places: Omit<RefInObject, 'blockAt' | 'blockBytes'>[] = [];
  let at = DATA_OBJECT_MAGIC.length;
  for (const frame of frames) {
    places.push({ frameAt: at, frameBytes: frame.bytes.length, frameCrc: frame.crc });
    at += frame.bytes.length;
  }
  return items.map(({ kind, key, incarnation, start, end, frame, blockAt, blockBytes }) => {
    const place = places[frame];
    if (place === undefined) throw new Error(`no frame ${frame} in this object`);
    return { kind, key, incarnation, start, end, ref: { ...place, blockAt, blockBytes } };
  });
}

/** The head of a block with 16,384 entries of the longest kind stays below 200 KiB. */
const BLOCK_BYTES_MAX = BLOCK_PAYLOAD_MAX + 204_800;
if (FRAME_TARGET_BYTES_MAX + Math.max(BLOCK_BYTES_MAX, SMALL_SNAPSHOT_BYTES_MAX + 32_768) + ITEM_HEADER_BYTES_MAX > FRAME_RAW_BYTES_MAX) throw new Error('the largest item does not fit into a frame');
if (DATA_OBJECT_RAW_BYTES_MAX + ITEMS_MAX * FRAME_OVERHEAD_BYTES + FOOTER_BYTES_MAX + DATA_OBJECT_MAGIC.length > DATA_OBJECT_BYTES_MAX) throw new Error('a full data object does not fit into a single PUT');
