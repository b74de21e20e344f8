/**
 * Bootstrap: snapshot plus hot updates from one moment (requirements section 21). Update parts never come from cold storage.
 */
import { isJson } from '../../../shared/protocol/content-type.js';
import { advance, type Offset, type StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { checkIncarnation, durableOf, missing, renew, type LogContext } from './context.js';
import { lastBoundary, nextBoundary } from './cut.js';
import { rangeBytes } from './range.js';
import { snapshotRead } from './snapshot-read.js';
import { BOOTSTRAP_BYTES_MAX, type BootstrapRead, type Precondition } from './types.js';

const LF = 0x0a;

export async function bootstrap(ctx: LogContext, key: StreamKey, precondition: Precondition): Promise<BootstrapRead> {
  return ctx.core.using(key, async (slot) => {
    const record = durableOf(ctx, slot);
    if (record === null) throw missing(ctx, slot);
    checkIncarnation(record, precondition);
    renew(ctx, slot, record);
    // In the same turn as the look at the state: the body of this snapshot stays (BOOT-26).
    const snapshot = record.snapshot === null ? null : snapshotRead(ctx, slot, record, record.snapshot);
    const start = record.snapshot?.offset ?? record.retained;
    const end = (await isHot(ctx, record, start)) ? await endOfParts(ctx, key, record, start) : start;
    const upToDate = end === record.tail;
    return {
      record,
      snapshot,
      start,
      end,
      upToDate,
      closed: upToDate && record.closed,
      parts: (signal) => {
        const bytes = rangeBytes(ctx, key, record.incarnation, start, end, signal);
        return isJson(record.contentType) ? messages(bytes) : bytes;
      },
    };
  });
}

/** Whether everything from `start` on has a hot copy, what a fork inherits included. */
async function isHot(ctx: LogContext, record: StreamRecord, start: Offset): Promise<boolean> {
  if (start >= record.hotStart) return true;
  const { origin } = record;
  if (origin === null || record.hotStart > origin.at) return false;
  const source = await ctx.core.using(origin.key, (slot) => slot.durable);
  return source?.incarnation === origin.incarnation && isHot(ctx, source, start);
}

/** The tail, or as many whole messages as fit into the cap, at least one (BOOT-21 .. BOOT-23). */
async function endOfParts(ctx: LogContext, key: StreamKey, record: StreamRecord, start: Offset): Promise<Offset> {
  if (record.tail - start <= BOOTSTRAP_BYTES_MAX) return record.tail;
  if (!isJson(record.contentType)) return start;
  const limit = advance(start, BOOTSTRAP_BYTES_MAX);
  return (await lastBoundary(ctx, key, record.incarnation, start, limit)) ?? (await nextBoundary(ctx, key, record.incarnation, limit, record.tail));
}

/** Joins pieces to whole messages, each with its LF. */
async function* messages(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  for await (const piece of pieces) {
    let from = 0;
    for (let at = piece.indexOf(LF); at >= 0; at = piece.indexOf(LF, from)) {
      const rest = piece.subarray(from, at + 1);
      yield held.length === 0 ? rest : Buffer.concat([...held, rest]);
      held = [];
      from = at + 1;
    }
    if (from < piece.length) held.push(piece.subarray(from));
  }
  if (held.length > 0) throw new Error('a JSON stream does not end in a message end');
}
