/**
 * Reads: the window of a catch-up read, and the handle of a live one (requirements sections 7, 8, 9, 12, 22).
 */
import { isJson } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { checkIncarnation, durableOf, missing, refusal, renew, resolvePosition, type LogContext } from './context.js';
import { isBoundary, lastBoundary, nextBoundary } from './cut.js';
import { rangeBytes } from './range.js';
import type { Slot } from './slot.js';
import type { LiveHandle, Precondition, ReadRequest, ReadWindow, StreamEvent } from './types.js';

type Cut = 'bytes' | 'messages';

export async function head(ctx: LogContext, key: StreamKey, precondition: Precondition): Promise<StreamRecord> {
  return ctx.core.using(key, (slot) => {
    const record = durableOf(ctx, slot);
    if (record === null) throw missing(ctx, slot);
    checkIncarnation(record, precondition);
    return record;
  });
}

export async function read(ctx: LogContext, request: ReadRequest): Promise<ReadWindow> {
  return ctx.core.using(request.key, async (slot) => {
    const record = durableOf(ctx, slot);
    if (record === null) throw missing(ctx, slot);
    const start = resolvePosition(record, request.from);
    await checkCut(ctx, request.key, record, start, request.cut);
    checkIncarnation(record, request.precondition);
    renew(ctx, slot, record);
    return windowOf(ctx, request.key, record, start, request.from === 'now' ? 0 : request.maxBytes, request.cut);
  });
}

/** An array of messages can only begin at a message (READ-23). Throws INVALID_OFFSET. */
async function checkCut(ctx: LogContext, key: StreamKey, record: StreamRecord, at: Offset, cut: Cut): Promise<void> {
  if (cut === 'messages' && isJson(record.contentType) && !(await isBoundary(ctx, key, record, at))) throw refusal(record, 'INVALID_OFFSET', {}, 'the offset lies inside a message');
}

async function windowOf(ctx: LogContext, key: StreamKey, record: StreamRecord, start: Offset, maxBytes: number, cut: Cut): Promise<ReadWindow> {
  let end = Math.min(record.tail, start + maxBytes) as Offset;
  if (cut === 'messages' && isJson(record.contentType) && end < record.tail && end > start) {
    end = (await lastBoundary(ctx, key, record.incarnation, start, end)) ?? (await nextBoundary(ctx, key, record.incarnation, end, record.tail));
  }
  const upToDate = end === record.tail;
  return {
    record,
    start,
    end,
    upToDate,
    closed: upToDate && record.closed,
    session: end > record.sealed ? ctx.cold.session(ctx.core.partitionOf(key)) : null,
    body: (signal) => {
      ctx.metrics.readBytes[start >= record.hotStart ? 'hot' : 'cold'].add(end - start);
      return rangeBytes(ctx, key, record.incarnation, start, end, signal);
    },
  };
}

export async function openLive(ctx: LogContext, key: StreamKey, precondition: Precondition, from: Offset | 'start' | 'now', cut: Cut): Promise<{ readonly handle: LiveHandle; readonly start: Offset }> {
  const slot = await ctx.core.acquire(key);
  try {
    const record = durableOf(ctx, slot);
    if (record === null) throw missing(ctx, slot);
    const start = resolvePosition(record, from);
    await checkCut(ctx, key, record, start, cut);
    checkIncarnation(record, precondition);
    renew(ctx, slot, record);
    return { handle: new Live(ctx, slot, record), start };
  } catch (error) {
    ctx.core.release(slot);
    throw error;
  }
}

class Live implements LiveHandle {
  readonly key: StreamKey;
  readonly incarnation;
  readonly #ctx: LogContext;
  readonly #slot: Slot;
  #closed = false;

  constructor(ctx: LogContext, slot: Slot, record: StreamRecord) {
    this.#ctx = ctx;
    this.#slot = slot;
    this.key = slot.key;
    this.incarnation = record.incarnation;
    slot.liveReaders++;
  }

  get record(): StreamRecord | null {
    const record = this.#slot.durable;
    return record?.incarnation === this.incarnation && !record.softDeleted ? record : null;
  }

  subscribe(listener: (event: StreamEvent) => void): () => void {
    return this.#ctx.core.watch(this.#slot, listener);
  }

  async read(from: Offset, maxBytes: number, cut: Cut): Promise<ReadWindow> {
    const record = this.record;
    if (record === null) throw new FirnError('STREAM_NOT_FOUND');
    return windowOf(this.#ctx, this.key, record, resolvePosition(record, from), maxBytes, cut);
  }

  /** The countdown of a sliding TTL starts again when a live read ends (TTL-10). */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#slot.liveReaders--;
    try {
      const record = this.record;
      if (record !== null) renew(this.#ctx, this.#slot, record);
    } finally {
      this.#ctx.core.release(this.#slot);
    }
  }
}
