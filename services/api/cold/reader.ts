/**
 * Reads cold bytes: references, whole frames, checked blocks (design section 6, "Cold reads").
 *
 * Owns: the way from a range to its frames. Promises: exactly the bytes asked for, contiguous, every checksum proven before the first byte of a block
 * leaves; never an early end; damage is counted, logged and thrown as COLD_STORE_FAILED (I9). A range without a reference throws `HotGap`: the
 * caller looks at the stream's state again before it calls that damage.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { advance, type Incarnation, type Offset } from '../../../shared/protocol/types.js';
import { decodeBlock } from '../../../shared/storage/block.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { crc32c } from '../../../shared/storage/crc.js';
import { blockIn } from '../../../shared/storage/frame.js';
import { ObjectDamaged, ObjectMissing, StoreUnavailable, type ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey, sameObject } from '../../../shared/storage/records/object-id.js';
import type { BlockRef, ColdRef, SnapshotObjectRef, SnapshotRecord } from '../../../shared/storage/records/types.js';
import { decodeSnapshotBody } from '../../../shared/storage/snapshot-body.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { refRow } from '../hot/keys/index.js';
import type { DurableStore } from '../hot/durable.js';
import { HotGap } from '../log/core.js';
import { DeadlinePassed, JoinedSignal } from '../../../shared/time/joined-signal.js';
import type { ColdMetrics } from './cold-metrics.js';
import type { FrameCache, FrameOf } from './frame-cache.js';
import { COALESCE_BYTES_MAX, COALESCE_RAW_BYTES_MAX, READ_AHEAD_GROUPS, REF_PAGE } from './limits.js';

export interface ColdReaderOptions {
  readonly hot: DurableStore;
  readonly store: ObjectStore;
  readonly frames: FrameCache;
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
}

/** References whose frames are fetched by one GET. */
interface Group {
  readonly refs: ColdRef[];
  readonly frames: FrameOf[];
  /** For each reference, which of `frames` holds it. */
  readonly frameOf: number[];
  bytes: number;
  rawBytes: number;
}

export class ColdReader {
  readonly #options: ColdReaderOptions;

  constructor(options: ColdReaderOptions) {
    this.#options = options;
  }

  /** Bytes [from, to) of an incarnation, in pieces of at most one block. */
  async *read(slot: number, incarnation: Incarnation, from: Offset, to: Offset, signal?: AbortSignal): AsyncGenerator<Buffer> {
    const ahead: { readonly group: Group; readonly raws: Promise<Buffer[]> }[] = [];
    // Read-ahead ends with the reader, not with the client's signal alone.
    const end = new JoinedSignal([signal]);
    let at = from;
    try {
      const groups = this.#groups(slot, incarnation, from, to);
      for (;;) {
        while (ahead.length <= READ_AHEAD_GROUPS) {
          const next = await groups.next();
          if (next.done === true) break;
          const raws = this.#options.frames.get(next.value.frames, end.signal);
          raws.catch(() => undefined);
          ahead.push({ group: next.value, raws });
        }
        const current = ahead.shift();
        if (current === undefined) break;
        const raws = await current.raws;
        for (const [index, ref] of current.group.refs.entries()) {
          const payload = payloadOf(raws[current.group.frameOf[index] as number] as Buffer, ref);
          const piece = payload.subarray(Math.max(0, at - ref.start), Math.min(payload.length, to - ref.start));
          at = advance(at, piece.length);
          yield piece;
        }
      }
      if (at !== to) throw new Error(`a cold read of ${incarnation} ended at ${at} of ${to}`);
    } catch (error) {
      throw this.#failure(error, `stream bytes ${incarnation} from ${at}`, signal);
    } finally {
      end.abort(new Error('the read is over'));
    }
  }

  /** References that cover [from, to), without a gap, in groups of neighbouring frames. */
  async *#groups(slot: number, incarnation: Incarnation, from: Offset, to: Offset): AsyncGenerator<Group, void> {
    let group: Group | null = null;
    for await (const ref of this.#refs(slot, incarnation, from, to)) {
      if (group !== null && !joins(group, ref)) {
        yield group;
        group = null;
      }
      group ??= { refs: [], frames: [], frameOf: [], bytes: 0, rawBytes: 0 };
      add(group, ref);
    }
    if (group !== null) yield group;
  }

  async *#refs(slot: number, incarnation: Incarnation, from: Offset, to: Offset): AsyncGenerator<ColdRef> {
    let at = from;
    while (at < to) {
      let found = 0;
      const range = refRow.range(slot, incarnation, at + 1);
      const page: ColdRef[] = [];
      for await (const rows of this.#options.hot.scan({ ...range, limit: REF_PAGE })) for (const { value } of rows) page.push(refRow.decode(value));
      for (const ref of page) {
        if (ref.start > at || ref.end <= at) throw new HotGap(incarnation, at);
        found++;
        at = ref.end;
        yield ref;
        if (at >= to) return;
      }
      if (found === 0) throw new HotGap(incarnation, at);
    }
  }

  /** Bytes [from, from+length) of a snapshot's cold copy. */
  async *snapshot(snapshot: SnapshotRecord, from: number, length: number, signal?: AbortSignal): AsyncGenerator<Buffer> {
    const { cold } = snapshot;
    if (cold === null) throw new Error(`the snapshot at ${snapshot.offset} has no cold copy`);
    if (length === 0) return;
    try {
      if (cold.at === 'block') yield (await this.#small(snapshot, cold.ref, signal)).subarray(from, from + length);
      else yield* this.#large(cold.ref, from, length, signal);
    } catch (error) {
      throw this.#failure(error, `the snapshot at ${snapshot.offset}`, signal);
    }
  }

  async #small(snapshot: SnapshotRecord, ref: BlockRef, signal?: AbortSignal): Promise<Buffer> {
    const [raw] = await this.#options.frames.get([ref], signal);
    const packed = decodeSnapshotBody(blockIn(raw as Buffer, ref));
    if (packed.digest !== snapshot.digest || packed.crc !== snapshot.crc || packed.bytes !== snapshot.bytes) throw new ObjectDamaged(objectKey(ref.object), 'holds another snapshot');
    return packed.body;
  }

  /** A whole body is checked at its end; of a part only the length can be. */
  async *#large(ref: SnapshotObjectRef, from: number, length: number, signal?: AbortSignal): AsyncGenerator<Buffer> {
    const key = objectKey(ref.object);
    const whole = from === 0 && length === ref.bytes;
    let sent = 0;
    let crc = 0;
    let held: Buffer | null = null;
    for await (const piece of this.#options.store.stream(key, { from, length }, signal)) {
      // One piece is held back, so that a body that fails its sum never ends as if it were whole.
      if (held !== null) yield held;
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
  const block = decodeBlock(blockIn(raw, ref));
  if (block.start !== ref.start || block.end !== ref.end) throw new BadBytes('cold block', `holds [${block.start}, ${block.end}), the reference says [${ref.start}, ${ref.end})`);
  return block.payload;
}

/** Whether a reference's frame is the last one of the group or lies right behind it. */
function joins(group: Group, ref: ColdRef): boolean {
  const last = group.frames.at(-1);
  if (last === undefined || !sameObject(last.object, ref.object) || group.rawBytes + ref.blockBytes > COALESCE_RAW_BYTES_MAX) return false;
  if (last.frameAt === ref.frameAt) return true;
  return last.frameAt + last.frameBytes === ref.frameAt && group.bytes + ref.frameBytes <= COALESCE_BYTES_MAX;
}

function add(group: Group, ref: ColdRef): void {
  const last = group.frames.at(-1);
  if (last === undefined || last.frameAt !== ref.frameAt) {
    group.frames.push(ref);
    group.bytes += ref.frameBytes;
  }
  group.rawBytes += ref.blockBytes;
  group.refs.push(ref);
  group.frameOf.push(group.frames.length - 1);
}
