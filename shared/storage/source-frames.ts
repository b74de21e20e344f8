/**
 * Blocks of many data objects, each object read from its front to its end: what compaction reads, and what its result is compared with.
 *
 * Owns: a window of stored bytes and one unpacked frame for each object. Promises: a block was checked by every sum there is: that of the frame in its reference, those of the block; a
 * stated amount of memory (I11); GETs grow as long as the frames asked for follow each other, so that their number goes with bytes; others get their turn.
 */
import { Pace } from '../time/pace.js';
import { checkBlock } from './block.js';
import { BadBytes } from './codec.js';
import { blockIn, readFrame } from './frame.js';
import { ObjectDamaged, ObjectMissing, type ObjectStore } from './object-store.js';
import { objectKey } from './records/object-id.js';
import type { BlockRef, ColdRef } from './records/types.js';
import { decodeSnapshotBody, type SnapshotIdentity } from './snapshot-body.js';

/** Objects with a window at a time: the one that was not asked for longest gives way. */
export const SOURCE_OBJECTS_MAX = 128;
/** Longest window of an object, bytes. */
const WINDOW_BYTES_MAX = 524_288;
/** A frame may lie so far behind the window and still count as the next one, bytes. */
const SKIP_BYTES_MAX = 262_144;
/** Work between two turns of others: raw bytes, and blocks. */
const TURN_BYTES = 524_288;
const TURN_BLOCKS = 64;

interface Source {
  readonly key: string;
  /** null: not asked for yet. */
  size: number | null;
  windowAt: number;
  window: Buffer;
  frameAt: number;
  raw: Buffer | null;
}

const NOTHING = Buffer.alloc(0);

export class SourceFrames {
  /** Stored bytes that were fetched, and how often. */
  bytesRead = 0;
  gets = 0;
  readonly #store: ObjectStore;
  readonly #signal: AbortSignal;
  /** The one that was asked for last stands last. */
  readonly #sources = new Map<string, Source>();
  readonly #pace = new Pace();
  #bytesToTurn = TURN_BYTES;
  #blocksToTurn = TURN_BLOCKS;

  constructor(store: ObjectStore, signal: AbortSignal) {
    this.#store = store;
    this.#signal = signal;
  }

  /** The blocks that references name, in their order. Throws `ObjectMissing`, `ObjectDamaged`, `BadBytes`, `StoreUnavailable`. */
  async *blocks(refs: readonly ColdRef[]): AsyncGenerator<Buffer> {
    for (const ref of refs) {
      const block = await this.#value(ref);
      const { start, end } = checkBlock(block);
      if (start !== ref.start || end !== ref.end) throw new BadBytes('cold block', `holds [${start}, ${end}), the reference says [${ref.start}, ${ref.end})`);
      yield block;
    }
  }

  /** A small snapshot. Throws like `blocks`. */
  async snapshot(ref: BlockRef): Promise<SnapshotIdentity & { readonly body: Buffer }> {
    return decodeSnapshotBody(await this.#value(ref));
  }

  async #value(ref: BlockRef): Promise<Buffer> {
    this.#bytesToTurn -= ref.blockBytes;
    if (--this.#blocksToTurn <= 0 || this.#bytesToTurn <= 0) {
      this.#bytesToTurn = TURN_BYTES;
      this.#blocksToTurn = TURN_BLOCKS;
      await this.#pace.rest(this.#signal);
    }
    this.#signal.throwIfAborted();
    const source = this.#sourceOf(ref);
    if (source.raw === null || source.frameAt !== ref.frameAt) {
      source.raw = null;
      source.raw = await readFrame(await this.#stored(source, ref), ref);
      source.frameAt = ref.frameAt;
    }
    return blockIn(source.raw, ref);
  }

  #sourceOf(ref: BlockRef): Source {
    const key = objectKey(ref.object);
    const source = this.#sources.get(key) ?? { key, size: null, windowAt: 0, window: NOTHING, frameAt: -1, raw: null };
    this.#sources.delete(key);
    this.#sources.set(key, source);
    if (this.#sources.size > SOURCE_OBJECTS_MAX) {
      const oldest = this.#sources.keys().next().value;
      if (oldest !== undefined) this.#sources.delete(oldest);
    }
    return source;
  }

  /** The stored bytes of a frame. */
  async #stored(source: Source, { frameAt, frameBytes }: BlockRef): Promise<Buffer> {
    const windowEnd = source.windowAt + source.window.length;
    if (frameAt < source.windowAt || frameAt + frameBytes > windowEnd) {
      const follows = source.window.length > 0 && frameAt >= source.windowAt && frameAt - windowEnd <= SKIP_BYTES_MAX;
      // The end of a window cuts a frame as a rule: what is there of it stays.
      const kept = frameAt >= source.windowAt && frameAt < windowEnd ? source.window.subarray(frameAt - source.windowAt) : NOTHING;
      const from = frameAt + kept.length;
      let length = frameBytes - kept.length;
      if (follows) {
        source.size ??= await this.#sizeOf(source.key);
        length = Math.max(length, Math.min(source.window.length * 2, WINDOW_BYTES_MAX, source.size - from));
      }
      const more = await this.#store.get(source.key, { from, length }, this.#signal);
      source.window = kept.length === 0 ? more : Buffer.concat([kept, more]);
      source.windowAt = frameAt;
      this.bytesRead += length;
      this.gets++;
    }
    const at = frameAt - source.windowAt;
    return source.window.subarray(at, at + frameBytes);
  }

  async #sizeOf(key: string): Promise<number> {
    const size = await this.#store.size(key, this.#signal);
    if (size === null) throw new ObjectMissing(key);
    return size;
  }
}

/** The bytes are not there as they were written: no later try finds other ones. */
export function isSourceDamage(error: unknown): error is Error {
  return error instanceof ObjectMissing || error instanceof ObjectDamaged || error instanceof BadBytes;
}
