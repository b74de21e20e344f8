/**
 * Reads cold bytes: references, whole frames, checked blocks (architecture section 6, "Cold reads").
 *
 * Owns: the way from a range to its frames. Promises: exactly the bytes asked for, contiguous, every checksum proven before the first byte of a block
 * leaves; never an early end; damage is counted, logged and thrown as COLD_STORE_FAILED (I9). A range without a reference throws `HotGap`: the
 * caller looks at the stream's state again before it calls that damage.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { advance, type Incarnation, type Offset } from '../../../shared/protocol/types.js';
import { checkBlock, decodeBlockSpan, entryEndIn } from '../../../shared/storage/block.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { crc32c } from '../../../shared/storage/crc.js';
import { blockIn, FRAME_OVERHEAD_BYTES } from '../../../shared/storage/frame.js';
import { ObjectDamaged, ObjectMissing, StoreUnavailable, type ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey, sameObject } from '../../../shared/storage/records/object-id.js';
import type { BlockRef, ColdRef, SnapshotObjectRef, SnapshotRecord } from '../../../shared/storage/records/types.js';
import { decodeSnapshotBody } from '../../../shared/storage/snapshot-body.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { HotGap } from '../hot/errors.js';
import { refRow } from '../hot/keys/index.js';
import type { HotReads } from '../hot/store.js';
import { DeadlinePassed, JoinedSignal } from '../../../shared/time/joined-signal.js';
import type { ColdMetrics } from './cold-metrics.js';
import { ReaderCut, type ReaderPins } from './collect/reader-pins.js';
import type { FrameCache, FrameOf } from './frame-cache.js';
import { COALESCE_BYTES_MAX, FOLLOW_BYTES_MIN, OPEN_AHEAD_BYTES, REF_PAGE } from './limits.js';

export interface ColdReaderOptions {
  readonly hot: HotReads;
  readonly store: ObjectStore;
  readonly frames: FrameCache;
  /** What readers hold cannot be collected. */
  readonly pins: ReaderPins;
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
}

/** References whose frames lie one behind the other in one object. */
interface Group {
  readonly refs: ColdRef[];
  readonly frames: FrameOf[];
  /** For each reference, which of `frames` holds it. */
  readonly frameOf: number[];
  bytes: number;
}

/** A group on its way: its first frame is asked for, the others follow as they are taken. */
interface Opened {
  readonly group: Group;
  readonly raws: AsyncGenerator<Buffer, void>;
  /** null: taken, so that it is not held until the last one is. */
  first: Promise<IteratorResult<Buffer, void>> | null;
}

export class ColdReader {
  readonly #options: ColdReaderOptions;

  constructor(options: ColdReaderOptions) {
    this.#options = options;
  }

  /** Bytes [from, to) of an incarnation, in pieces of at most one block. */
  async *read(slot: number, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): AsyncGenerator<Buffer> {
    const opened: Opened[] = [];
    // What is on its way ends with the reader, not with the client's signal alone.
    const end = new JoinedSignal([signal]);
    let page: readonly ColdRef[] = [];
    const pin = this.#options.pins.open({ cut: (why) => end.abort(why), objects: () => [...page, ...opened.map(({ group }) => group.refs[0] as ColdRef)].map((ref) => ref.object) });
    let at = from;
    try {
      const groups = this.#groups(slot, incarnation, from, to, (refs) => {
        page = refs;
        pin.renew();
      });
      const openNext = async (): Promise<void> => {
        const { done, value: group } = await groups.next();
        if (done !== true) opened.push(this.#open(group, end.signal));
      };
      await openNext();
      for (let current = opened[0]; current !== undefined; opened.shift(), current = opened[0]) {
        for await (const { ref, payload } of payloadsOf(current)) {
          const piece = payload.subarray(Math.max(0, at - ref.start), Math.min(payload.length, to - ref.start));
          at = advance(at, piece.length);
          if (opened.length === 1 && endOf(current.group) - at < OPEN_AHEAD_BYTES) await openNext();
          yield piece;
        }
      }
      if (at !== to) throw new Error(`a cold read of ${incarnation} ended at ${at} of ${to}`);
    } catch (error) {
      throw this.#failure(error, `stream bytes ${incarnation} from ${at}`, signal);
    } finally {
      pin.close();
      end.abort(new Error('the read is over'));
      for (const { raws } of opened) void raws.return();
    }
  }

  #open(group: Group, signal: AbortSignal): Opened {
    const raws = this.#options.frames.read(group.frames, signal);
    const first = raws.next();
    first.catch(() => undefined);
    return { group, raws, first };
  }

  /** References that cover [from, to), without a gap, in groups of neighbouring frames. `onPage`: told of the references that were looked up. */
  async *#groups(slot: number, incarnation: Incarnation, from: Offset, to: Offset, onPage: (refs: readonly ColdRef[]) => void): AsyncGenerator<Group, void> {
    let group: Group | null = null;
    for await (const ref of this.#refs(slot, incarnation, from, to, onPage)) {
      if (group !== null && !joins(group, ref)) {
        yield group;
        group = null;
      }
      group ??= { refs: [], frames: [], frameOf: [], bytes: 0 };
      add(group, ref);
    }
    if (group === null) return;
    if (to - from >= FOLLOW_BYTES_MIN) {
      for (const ref of await this.#page(slot, incarnation, to)) {
        if (!joins(group, ref)) break;
        addFrame(group, ref);
      }
    }
    yield group;
  }

  async *#refs(slot: number, incarnation: Incarnation, from: Offset, to: Offset, onPage: (refs: readonly ColdRef[]) => void): AsyncGenerator<ColdRef> {
    let at = from;
    while (at < to) {
      const page = await this.#page(slot, incarnation, at);
      onPage(page);
      for (const ref of page) {
        if (ref.start > at || ref.end <= at) throw new HotGap(incarnation, at);
        at = ref.end;
        yield ref;
        if (at >= to) return;
      }
      if (page.length === 0) throw new HotGap(incarnation, at);
    }
  }

  /** Where the entry that holds `at` ends in its block; `whole`: the append ends there. */
  async entryEnd(slot: number, incarnation: Incarnation, at: Offset): Promise<{ readonly end: Offset; readonly whole: boolean }> {
    let ref: ColdRef | undefined;
    const end = new JoinedSignal([]);
    const pin = this.#options.pins.open({ cut: (why) => end.abort(why), objects: () => (ref === undefined ? [] : [ref.object]) });
    try {
      [ref] = await this.#page(slot, incarnation, at);
      if (ref === undefined || ref.start > at) throw new HotGap(incarnation, at);
      const raw = await onlyOne(this.#options.frames.read([ref], end.signal));
      payloadOf(raw, ref);
      return entryEndIn(blockIn(raw, ref), at);
    } catch (error) {
      throw this.#failure(error, `the entries of ${incarnation} at ${at}`);
    } finally {
      pin.close();
    }
  }

  /** The next references that end behind an offset. */
  async #page(slot: number, incarnation: Incarnation, from: Offset): Promise<ColdRef[]> {
    const page: ColdRef[] = [];
    for await (const rows of this.#options.hot.scan({ ...refRow.range(slot, incarnation, from + 1), limit: REF_PAGE })) for (const { value } of rows) page.push(refRow.decode(value));
    return page;
  }

  /** Bytes [from, from+length) of a snapshot's cold copy. */
  async *snapshot(snapshot: SnapshotRecord, from: number, length: number, signal?: AbortSignal): AsyncGenerator<Buffer> {
    const { cold } = snapshot;
    if (cold === null) throw new Error(`the snapshot at ${snapshot.offset} has no cold copy`);
    if (length === 0) return;
    const end = new JoinedSignal([signal]);
    const pin = this.#options.pins.open({ cut: (why) => end.abort(why), objects: () => [cold.ref.object] });
    try {
      if (cold.at === 'block') yield (await this.#small(snapshot, cold.ref, end.signal)).subarray(from, from + length);
      else yield* this.#large(cold.ref, from, length, end.signal);
    } catch (error) {
      throw this.#failure(error, `the snapshot at ${snapshot.offset}`, signal);
    } finally {
      pin.close();
      end.release();
    }
  }

  async #small(snapshot: SnapshotRecord, ref: BlockRef, signal?: AbortSignal): Promise<Buffer> {
    const raw = await onlyOne(this.#options.frames.read([ref], signal));
    const packed = decodeSnapshotBody(blockIn(raw, ref));
    if (packed.digest !== snapshot.digest || packed.crc !== snapshot.crc || packed.bytes !== snapshot.bytes) throw new ObjectDamaged(objectKey(ref.object), 'holds another snapshot');
    return packed.body;
  }

  /** A whole body is checked at its end; of a part only the length can be. */
  async *#large(ref: SnapshotObjectRef, from: number, length: number, signal: AbortSignal): AsyncGenerator<Buffer> {
    const key = objectKey(ref.object);
    const whole = from === 0 && length === ref.bytes;
    let sent = 0;
    let crc = 0;
    let held: Buffer | null = null;
    for await (const piece of this.#options.store.stream(key, { from, length }, signal)) {
      // One piece is held back, so that a body that fails its sum never ends as if it were whole.
      if (held !== null) yield held;
      // A reader that was cut while it did not take what it had gets no more, whatever the store still gives.
      signal.throwIfAborted();
      held = piece;
      sent += piece.length;
      if (whole) crc = crc32c(piece, crc);
    }
    if (sent !== length) throw new ObjectDamaged(key, `${sent} bytes of ${length}`);
    if (whole && crc !== ref.crc) throw new ObjectDamaged(key, 'checksum of the body does not match');
    if (held !== null) yield held;
  }

  #failure(error: unknown, what: string, signal?: AbortSignal): unknown {
    if (signal?.aborted === true || error instanceof HotGap || error instanceof FirnError) return error;
    const { logger, metrics } = this.#options;
    if (error instanceof ObjectMissing || error instanceof ObjectDamaged || error instanceof BadBytes) {
      metrics.damage('object');
      logger.error({ err: error, event: 'damage', tier: 'cold', what }, 'cold bytes are missing or damaged');
    } else if (error instanceof ReaderCut) {
      metrics.readerCut();
      logger.warn({ err: error, event: 'cold-reader-cut', what }, 'a reader of what was deleted long ago was cut, so that its object can go');
    } else if (error instanceof StoreUnavailable || error instanceof DeadlinePassed) {
      metrics.storeError();
      logger.warn({ err: error, event: 'cold-read-failed', what }, 'the object store did not answer a read');
    } else {
      return error;
    }
    return new FirnError('COLD_STORE_FAILED', { cause: error });
  }
}

/** The payload that a reference means, checked. Throws `BadBytes`. */
export function payloadOf(raw: Buffer, ref: ColdRef): Buffer {
  const block = blockIn(raw, ref);
  // The frame's sum, which the reference holds, was taken of the bytes as they are stored: of a frame that is stored as it is, these very bytes, and once is enough.
  const span = raw.length === ref.frameBytes - FRAME_OVERHEAD_BYTES ? decodeBlockSpan(block) : checkBlock(block);
  if (span.start !== ref.start || span.end !== ref.end) throw new BadBytes('cold block', `holds [${span.start}, ${span.end}), the reference says [${ref.start}, ${ref.end})`);
  return block.subarray(span.payloadAt);
}

async function onlyOne(raws: AsyncIterable<Buffer>): Promise<Buffer> {
  for await (const raw of raws) return raw;
  throw new Error('no frame came');
}

/** What the references of a group mean, in order, each as soon as its frame is there. */
async function* payloadsOf(opened: Opened): AsyncGenerator<{ readonly ref: ColdRef; readonly payload: Buffer }> {
  const { group, raws } = opened;
  let frame = 0;
  let raw = await opened.first;
  opened.first = null;
  for (const [index, ref] of group.refs.entries()) {
    for (; frame < (group.frameOf[index] as number); frame++) raw = await raws.next();
    if (raw === null || raw.done === true) throw new Error('a group of frames ended early');
    yield { ref, payload: payloadOf(raw.value, ref) };
  }
  await raws.return();
}

function endOf(group: Group): Offset {
  return (group.refs.at(-1) as ColdRef).end;
}

/** Whether a reference's frame is the last one of the group or lies right behind it. */
function joins(group: Group, ref: ColdRef): boolean {
  const last = group.frames.at(-1);
  if (last === undefined || !sameObject(last.object, ref.object)) return false;
  if (last.frameAt === ref.frameAt) return true;
  return last.frameAt + last.frameBytes === ref.frameAt && group.bytes + ref.frameBytes <= COALESCE_BYTES_MAX;
}

function add(group: Group, ref: ColdRef): void {
  addFrame(group, ref);
  group.refs.push(ref);
  group.frameOf.push(group.frames.length - 1);
}

function addFrame(group: Group, ref: ColdRef): void {
  if (group.frames.at(-1)?.frameAt === ref.frameAt) return;
  group.frames.push(ref);
  group.bytes += ref.frameBytes;
}
