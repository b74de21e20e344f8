/**
 * What a stretch of log does to the subscriptions of a partition, kept by id, and the merge with those of a checkpoint.
 *
 * Owns: the meaning of their log deltas for whoever rebuilds state from objects alone. Promises: a whole delta stands for everything before it; the newest cursor of a stream counts, so that one which a
 * restore took back stays back; an increment to a subscription that ended says nothing. As much memory as the stretch of log and one subscription take (I11).
 */
import type { Incarnation, StreamKey } from '../../protocol/types.js';
import { compareSubscriptionIds, GROUP_MAX, type CheckpointItem } from '../checkpoint-item.js';
import type { LinkCursor, LogDelta, NamedLink, SubscriptionConfig } from '../records/types.js';
import type { BaseItems } from './base-items.js';

export interface SubscriptionChange {
  /** null: it ended. */
  readonly config: SubscriptionConfig | null;
  /** What came before this stretch counts no more. */
  readonly whole: boolean;
  /** null: not named any more. */
  readonly links: Map<StreamKey, LinkCursor | null>;
  readonly cursors: Map<Incarnation, number>;
}

export class SubscriptionOverlay {
  readonly byId = new Map<string, SubscriptionChange>();

  put({ id, config, whole, links, unlinked, cursors }: Extract<LogDelta, { kind: 'subscription' }>): void {
    let change = this.byId.get(id);
    if (whole || change === undefined) this.byId.set(id, (change = { config, whole, links: new Map(), cursors: new Map() }));
    if (change.config === null) return;
    for (const key of unlinked) change.links.set(key, null);
    for (const { key, incarnation, acked } of links) change.links.set(key, { incarnation, acked });
    for (const { incarnation, acked } of cursors) change.cursors.set(incarnation, acked);
  }

  end(id: string): void {
    this.byId.set(id, { config: null, whole: true, links: new Map(), cursors: new Map() });
  }
}

/** Takes the subscriptions off the front of a checkpoint's items and gives them merged with a stretch of log, in the order of a checkpoint. */
export async function* mergeSubscriptions(items: BaseItems, overlay: SubscriptionOverlay): AsyncGenerator<CheckpointItem> {
  const changed = [...overlay.byId.keys()].sort(compareSubscriptionIds);
  let at = 0;
  for (let item = await items.peek(); item?.kind === 'subscription'; item = await items.peek()) {
    await items.take();
    while (at < changed.length && compareSubscriptionIds(changed[at] as string, item.id) < 0) yield* fresh(overlay, changed[at++] as string);
    if (changed[at] !== item.id) {
      yield item;
      yield* items.rest();
      continue;
    }
    at++;
    yield* together(item.id, items, overlay.byId.get(item.id) as SubscriptionChange);
  }
  while (at < changed.length) yield* fresh(overlay, changed[at++] as string);
}

function fresh(overlay: SubscriptionOverlay, id: string): Generator<CheckpointItem> {
  return itemsOf(id, overlay.byId.get(id) as SubscriptionChange, new Map(), new Map());
}

async function* together(id: string, items: BaseItems, change: SubscriptionChange): AsyncGenerator<CheckpointItem> {
  const links = new Map<StreamKey, LinkCursor>();
  const cursors = new Map<Incarnation, number>();
  for await (const more of items.rest()) {
    if (change.whole) continue;
    if (more.kind === 'links') for (const { key, incarnation, acked } of more.links) links.set(key, { incarnation, acked });
    else if (more.kind === 'cursors') for (const { incarnation, acked } of more.cursors) cursors.set(incarnation, acked);
  }
  yield* itemsOf(id, change, links, cursors);
}

function* itemsOf(id: string, change: SubscriptionChange, links: Map<StreamKey, LinkCursor>, cursors: Map<Incarnation, number>): Generator<CheckpointItem> {
  if (change.config === null) return;
  for (const [key, link] of change.links) {
    if (link === null) links.delete(key);
    else links.set(key, link);
  }
  for (const [incarnation, acked] of change.cursors) cursors.set(incarnation, acked);
  yield* subscriptionItems(id, change.config, [...links].map(([key, link]) => ({ key, ...link })), [...cursors].map(([incarnation, acked]) => ({ incarnation, acked })));
}

/** The items of one whole subscription. */
export function* subscriptionItems(id: string, config: SubscriptionConfig, links: readonly NamedLink[], cursors: readonly LinkCursor[]): Generator<CheckpointItem> {
  yield { kind: 'subscription', id, config };
  for (let at = 0; at < links.length; at += GROUP_MAX) yield { kind: 'links', links: links.slice(at, at + GROUP_MAX) };
  for (let at = 0; at < cursors.length; at += GROUP_MAX) yield { kind: 'cursors', cursors: cursors.slice(at, at + GROUP_MAX) };
}
