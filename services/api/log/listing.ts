/**
 * Pages of streams by name, for operators (architecture section 3).
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { nameRow } from '../hot/keys/index.js';
import { durableOf, type LogContext } from './context.js';

export interface ListedStream {
  readonly key: StreamKey;
  readonly record: StreamRecord;
}

/** Streams whose key begins with `prefix`, after the key `after`, in key order. */
export async function list(ctx: LogContext, prefix: string, after: string | null, limit: number): Promise<ListedStream[]> {
  const keys: StreamKey[] = [];
  for await (const page of ctx.core.store.scan({ ...nameRow.range(prefix, after ?? undefined), limit, values: false })) for (const entry of page) keys.push(nameRow.decodeKey(entry.key).key);
  const found: ListedStream[] = [];
  for (const key of keys) {
    const record = await ctx.core.using(key, (slot) => durableOf(ctx, slot));
    if (record !== null) found.push({ key, record });
  }
  return found;
}
