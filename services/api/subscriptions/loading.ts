/**
 * Subscriptions as a directory holds them, back into memory (P7.1: a freshly loaded one honors its schedule).
 *
 * Promises: every wake, lease and back-off goes on from where it stood; what was appended while nobody looked is found, since cursors are compared with tails; rows that belong to nothing any more go.
 */
import type { Incarnation } from '../../../shared/protocol/types.js';
import { subscriptionBaseRow, subscriptionCursorRow, subscriptionLinkRow, subscriptionRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { DELETED_ROWS_AT_ONCE } from './limits.js';
import type { LinkedStream, PatternGroup } from './links.js';
import type { Parts } from './parts.js';
import { Subscription } from './subscription.js';

/** The subscriptions alone: what they are linked to follows. */
export async function readSubscriptions({ core, byId, streams }: Parts): Promise<void> {
  for await (const page of core.store.scan(subscriptionRow.range())) {
    for (const { key, value } of page) {
      const { id } = subscriptionRow.decodeKey(key);
      const subscription = new Subscription(id, subscriptionRow.decode(value));
      byId.set(id, subscription);
      if (subscription.pattern !== null) {
        subscription.group = streams.group(subscription.pattern);
        streams.join(subscription.group, subscription);
      }
    }
  }
}

/** Links and cursors of all; changes of streams have to be told to `streams` by now. */
export async function readLinks(parts: Parts, signal: AbortSignal): Promise<void> {
  const { byId, scan, wakes, core } = parts;
  const looked = scan.all(signal);
  for (const { group } of byId.values()) if (group !== null) group.complete = looked;
  await looked;
  const members = new Map<PatternGroup<Subscription>, ReadonlyMap<Incarnation, LinkedStream<Subscription>>>();
  let gone: HotOp[] = [];
  for (const subscription of Array.from(byId.values())) {
    signal.throwIfAborted();
    await readExplicit(parts, subscription);
    const { group } = subscription;
    if (group !== null) {
      if (!members.has(group)) members.set(group, membersOf(group));
      for (const op of await readCursors(parts, subscription, group, members.get(group)!)) gone.push(op);
    }
    if (gone.length >= DELETED_ROWS_AT_ONCE) {
      await core.stageOps(gone);
      gone = [];
    }
    wakes.settle(subscription);
  }
  if (gone.length > 0) await core.stageOps(gone);
}

function membersOf(group: PatternGroup<Subscription>): ReadonlyMap<Incarnation, LinkedStream<Subscription>> {
  const members = new Map<Incarnation, LinkedStream<Subscription>>();
  for (const stream of group.members()) if (stream.incarnation !== null) members.set(stream.incarnation, stream);
  return members;
}

/** Returns the removal of cursors to streams that are gone. */
async function readCursors({ core }: Parts, subscription: Subscription, group: PatternGroup<Subscription>, members: ReadonlyMap<Incarnation, LinkedStream<Subscription>>): Promise<HotOp[]> {
  const { number } = subscription;
  const gone: HotOp[] = [];
  const advance = (incarnation: Incarnation, acked: number): boolean => {
    const stream = members.get(incarnation);
    // It may have ended since.
    if (stream === undefined || stream.incarnation !== incarnation) return false;
    // A restore may have taken a tail back behind its cursors.
    subscription.advanceAt(stream.places.get(group)!, Math.min(acked, stream.tail));
    return true;
  };
  for await (const page of core.store.scan(subscriptionBaseRow.range(number))) {
    for (const { value } of page) for (const { incarnation, acked } of subscriptionBaseRow.decode(value)) advance(incarnation, acked);
  }
  for await (const page of core.store.scan(subscriptionCursorRow.range(number))) {
    for (const { key, value } of page) {
      const { incarnation } = subscriptionCursorRow.decodeKey(key);
      if (!advance(incarnation, subscriptionCursorRow.decode(value))) gone.push({ type: 'del', key });
    }
  }
  return gone;
}

async function readExplicit({ core, streams, scan }: Parts, subscription: Subscription): Promise<void> {
  for await (const page of core.store.scan(subscriptionLinkRow.range(subscription.number))) {
    for (const { key: row, value } of page) {
      const { key } = subscriptionLinkRow.decodeKey(row);
      const { incarnation, acked } = subscriptionLinkRow.decode(value);
      // A start that failed is repeated.
      const link = subscription.explicit.get(key) ?? subscription.name(streams.follow(key));
      await scan.look(key);
      if (link.stream.incarnation === incarnation) link.acked = Math.max(link.acked, Math.min(acked, link.stream.tail));
    }
  }
}
