/**
 * Purge of a bucket: an operator's action that erases every stream of it and fences its id for good (BKT-07 .. BKT-10).
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import { nameRow } from '../hot/keys/index.js';
import type { LogContext } from './context.js';

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
  await ctx.cold.logPurge(bucket);
  return { bucket, streams: await eraseStreams(ctx, bucket) };
}

/** Goes on with purges that a crash broke off: their fences are durable, streams of them may be left. */
export async function resumePurges(ctx: LogContext): Promise<void> {
  for (const bucket of ctx.fences.all()) {
    const streams = await eraseStreams(ctx, bucket);
    if (streams > 0) ctx.logger.info({ event: 'purge-resumed', bucket, streams }, 'erased what a broken-off purge had left');
  }
}

/** Deletes every stream of a fenced bucket; how many there were. */
async function eraseStreams(ctx: LogContext, bucket: string): Promise<number> {
  let streams = 0;
  for (;;) {
    const keys: StreamKey[] = [];
    for await (const page of ctx.core.store.scan({ ...nameRow.range(`${bucket}/`), limit: STEP, values: false })) for (const entry of page) keys.push(nameRow.decodeKey(entry.key).key);
    if (keys.length === 0) return streams;
    await Promise.all(keys.map((key) => ctx.core.using(key, async (slot) => {
      const record = slot.pending;
      if (record === null) return ctx.core.settled(slot);
      await ctx.core.stage({ slot, next: null });
      if (record.snapshot?.hot?.at === 'staging') await ctx.staging.remove(record.snapshot.hot.file);
    })));
    streams += keys.length;
  }
}
