/**
 * What a deleted subscription leaves behind (SUB-20, SUB-57).
 *
 * Owns: the rows `subscriptionEndRow`. Promises: the rows of its links go in bounded batches, now or after a restart; its generation is remembered longer than any token of it is good.
 */
import { subscriptionBaseRow, subscriptionCursorRow, subscriptionEndRow, subscriptionLinkRow, subscriptionLoggedRow, subscriptionRow } from '../hot/keys/index.js';
import type { HotEntry, HotOp } from '../hot/store.js';
import type { LogCore } from '../log/core.js';
import { DELETED_ROWS_AT_ONCE, END_KEPT_MS } from './limits.js';

/** The last generation of an id; 0: none is remembered. */
export async function lastGeneration(core: LogCore, id: string): Promise<number> {
  const value = await core.store.get(subscriptionEndRow.key(id));
  return value === undefined ? 0 : subscriptionEndRow.decode(value).generation;
}

export function endOp(id: string, generation: number, number: number, atMs: number): HotOp {
  return { type: 'put', key: subscriptionEndRow.key(id), value: subscriptionEndRow.encode({ generation, number, atMs }) };
}

/** Removes rows of links of a subscription that is gone. */
export async function removeLinks(core: LogCore, number: number): Promise<void> {
  for (const range of [subscriptionBaseRow.range(number), subscriptionCursorRow.range(number), subscriptionLinkRow.range(number)]) {
    for (;;) {
      const ops: HotOp[] = [];
      for await (const page of core.store.scan({ ...range, limit: DELETED_ROWS_AT_ONCE, values: false })) for (const { key } of page) ops.push({ type: 'del', key });
      if (ops.length === 0) break;
      await core.stageOps(ops);
    }
  }
}

/** Goes on with removals that a crash broke off, and forgets what nobody can refer to any more, and what the log holds where there is one (`logged`). */
export async function clearEnded(core: LogCore, logged: boolean, nowMs: number): Promise<void> {
  const rows: HotEntry[] = [];
  for await (const page of core.store.scan(subscriptionEndRow.range())) rows.push(...page);
  for (const { key, value } of rows) {
    const end = subscriptionEndRow.decode(value);
    const { id } = subscriptionEndRow.decodeKey(key);
    if (end.number !== 0) await removeLinks(core, end.number);
    if (nowMs - end.atMs >= END_KEPT_MS && (!logged || (await isLogged(core, id)))) await core.stageOps(await forgetting(core, id));
    else if (end.number !== 0) await core.stageOps([{ type: 'put', key, value: subscriptionEndRow.encode({ ...end, number: 0 }) }]);
  }
}

async function isLogged(core: LogCore, id: string): Promise<boolean> {
  return (await core.store.get(subscriptionLoggedRow.key(id))) !== undefined;
}

async function forgetting(core: LogCore, id: string): Promise<HotOp[]> {
  const gone: HotOp[] = [{ type: 'del', key: subscriptionEndRow.key(id) }];
  // Of an id that is taken again the row speaks of the later subscription.
  if ((await core.store.get(subscriptionRow.key(id))) === undefined) gone.push({ type: 'del', key: subscriptionLoggedRow.key(id) });
  return gone;
}
