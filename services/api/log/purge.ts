/**
 * Purge of a bucket: an operator's action that erases every stream of it and fences its id for good (BKT-07 .. BKT-10).
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import { nameRow } from '../hot/keys/index.js';
import type { LogContext } from './context.js';
import { removeStream } from './delete.js';

/** Streams deleted at a time. */
const STEP = 256;

export interface PurgeReport {
  readonly bucket: string;
  readonly streams: number;
}

/** Repeatable; when it resolves nothing of the bucket is readable or creatable, also after a restart. */
export async function purge(ctx: LogContext, bucket: string): Promise<PurgeReport> {
  // Fenced in memory first: no create that starts from here on can slip in behind the walk.
  await ctx.core.stageOps([ctx.fences.add(bucket, ctx.now())]);
  // An object store that is away delays the answer, not the erasure.
  const [streams] = await Promise.all([eraseStreams(ctx, bucket), ctx.cold.logPurge(bucket)]);
  return { bucket, streams };
}

/** Goes on with purges that a crash broke off: their fences are durable, streams of them may be left. */
export async function resumePurges(ctx: LogContext): Promise<void> {
  for (const bucket of ctx.fences.all()) {
    const streams = await eraseStreams(ctx, bucket).catch((error: unknown) => {
      ctx.logger.error({ err: error, event: 'purge-not-resumed', bucket }, 'a broken-off purge could not be finished');
      return 0;
    });
    if (streams > 0) ctx.logger.info({ event: 'purge-resumed', bucket, streams }, 'erased what a broken-off purge had left');
  }
}

/** Deletes every stream of a fenced bucket; how many there were. Streams that cannot be removed are left for the next purge, and reported. */
async function eraseStreams(ctx: LogContext, bucket: string): Promise<number> {
  let streams = 0;
  let after: StreamKey | undefined;
  for (;;) {
    const keys: StreamKey[] = [];
    for await (const page of ctx.core.store.scan({ ...nameRow.range(`${bucket}/`, after), limit: STEP, values: false })) for (const entry of page) keys.push(nameRow.decodeKey(entry.key).key);
    if (keys.length === 0) return streams;
    after = keys.at(-1);
    const erased = await Promise.all(keys.map((key) => eraseStream(ctx, key)));
    streams += erased.filter(Boolean).length;
  }
}

async function eraseStream(ctx: LogContext, key: StreamKey): Promise<boolean> {
  try {
    return await ctx.core.using(key, async (slot) => {
      const record = slot.pending;
      if (record?.softDeleted === true) return false;
      if (record !== null) await removeStream(ctx, slot, record);
      else if (slot.staged > 0) await ctx.core.settled(slot);
      else await ctx.core.stageOps([{ type: 'del', key: nameRow.key(key) }]);
      return record !== null;
    });
  } catch (error) {
    if (error instanceof FirnError) throw error;
    ctx.logger.error({ err: error, event: 'purge-left', stream: key }, 'a stream of a purged bucket could not be removed');
    return false;
  }
}
