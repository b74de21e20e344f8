/**
 * Subscriptions on their way into the log (architecture section 6): what seals take along, and what a restart has to know of it.
 *
 * Owns: the rows `subscriptionLoggedRow`, and which subscriptions wait, by partition. Promises: a change takes the row away in its own batch, so after a restart whatever has no row is written whole; a cursor
 * that moves often is written once a seal; with a log that cannot be written this grows by one entry a subscription and one bit a link.
 */
import type { LogDelta } from '../../../shared/storage/records/types.js';
import type { SubscriptionBatch, UnloggedSubscriptions } from '../cold/types.js';
import { subscriptionEndRow, subscriptionLoggedRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import type { LogCore } from '../log/core.js';
import { BATCH_LINKS_MAX, LOGGED_ROWS_AT_ONCE } from './limits.js';
import type { Subscription } from './subscription.js';

interface Waiting {
  readonly sinceMs: number;
  /** null: it ended. */
  readonly subscription: Subscription | null;
}

export class ColdLog implements UnloggedSubscriptions {
  readonly #core: LogCore;
  readonly #now: () => number;
  readonly #partitionOf: (id: string) => number;
  /** By partition, then by id, the oldest first. */
  readonly #waiting = new Map<number, Map<string, Waiting>>();
  /** Cursors of all are in memory. */
  #ready = false;

  constructor(core: LogCore, partitionOf: (id: string) => number, now: () => number) {
    this.#core = core;
    this.#partitionOf = partitionOf;
    this.#now = now;
  }

  /** Rows for the batch of a change: what memory marks as not logged is not logged on disk either. */
  changed(subscription: Subscription): HotOp[] {
    if (!subscription.unlogged.dirty || subscription.ended) return [];
    const waiting = this.#of(subscription.id);
    if (!waiting.has(subscription.id)) waiting.set(subscription.id, { sinceMs: this.#now(), subscription });
    if (!subscription.mayBeLogged) return [];
    subscription.mayBeLogged = false;
    return [removal(subscription.id)];
  }

  /** Rows for the batch that ends a subscription. */
  ended(id: string): HotOp[] {
    this.#of(id).set(id, { sinceMs: this.#now(), subscription: null });
    return [removal(id)];
  }

  /** Rows for the batch that begins one: what waited of one of the same id is told by it. */
  begun(subscription: Subscription): HotOp[] {
    subscription.unlogged.all();
    subscription.mayBeLogged = false;
    this.#of(subscription.id).set(subscription.id, { sinceMs: this.#now(), subscription });
    return [removal(subscription.id)];
  }

  /** After a start: what the log may not hold. The cursors follow (`loaded`). */
  async load(byId: ReadonlyMap<string, Subscription>): Promise<void> {
    const logged = new Set<string>();
    for await (const page of this.#core.store.scan(subscriptionLoggedRow.range())) for (const { key } of page) logged.add(subscriptionLoggedRow.decodeKey(key).id);
    for (const subscription of byId.values()) {
      subscription.mayBeLogged = logged.has(subscription.id);
      if (!subscription.mayBeLogged) this.begun(subscription);
    }
    for await (const page of this.#core.store.scan(subscriptionEndRow.range())) {
      for (const { key } of page) {
        const { id } = subscriptionEndRow.decodeKey(key);
        if (!logged.has(id) && !byId.has(id)) this.#of(id).set(id, { sinceMs: this.#now(), subscription: null });
      }
    }
  }

  loaded(): void {
    this.#ready = true;
  }

  sinceMs(partition: number): number | null {
    if (!this.#ready) return null;
    for (const { sinceMs } of this.#waiting.get(partition)?.values() ?? []) return sinceMs;
    return null;
  }

  async take(partition: number): Promise<SubscriptionBatch> {
    const waiting = this.#waiting.get(partition);
    if (!this.#ready || waiting === undefined || waiting.size === 0) return NOTHING;
    // The log says nothing that this directory may not know: what a subscription is made of is durable before its cursors are read.
    await Promise.allSettled(Array.from(waiting.values(), ({ subscription }) => subscription?.durable));
    const taken = new Map<string, Waiting>();
    const deltas: LogDelta[] = [];
    let room = BATCH_LINKS_MAX;
    for (const [id, one] of waiting) {
      if (room <= 0) break;
      waiting.delete(id);
      taken.set(id, one);
      const delta: LogDelta = one.subscription === null ? { kind: 'unsubscribe', id } : one.subscription.takeUnlogged();
      room -= delta.kind === 'subscription' ? 1 + delta.links.length + delta.cursors.length : 1;
      deltas.push(delta);
    }
    return { deltas, more: waiting.size > 0, settle: (logged) => (logged ? this.#logged(waiting, taken) : this.#again(partition, taken)) };
  }

  /** What changed meanwhile waits again already, and stays so. */
  #logged(waiting: ReadonlyMap<string, Waiting>, taken: ReadonlyMap<string, Waiting>): void {
    const ops: HotOp[] = [];
    for (const [id, { subscription }] of taken) {
      if (waiting.has(id)) continue;
      if (subscription !== null) subscription.mayBeLogged = true;
      ops.push({ type: 'put', key: subscriptionLoggedRow.key(id), value: subscriptionLoggedRow.encode() });
    }
    // Rows that fail are missing after a restart: then more is written than needed.
    for (let at = 0; at < ops.length; at += LOGGED_ROWS_AT_ONCE) this.#core.stageOps(ops.slice(at, at + LOGGED_ROWS_AT_ONCE)).catch(() => undefined);
  }

  /** It may or may not be in the log. */
  #again(partition: number, taken: ReadonlyMap<string, Waiting>): void {
    const since = this.#waiting.get(partition) ?? new Map<string, Waiting>();
    const all = new Map(taken);
    for (const [id, one] of since) {
      const before = taken.get(id);
      all.set(id, before === undefined ? one : { ...one, sinceMs: before.sinceMs });
    }
    for (const { subscription } of all.values()) subscription?.unlogged.all();
    this.#waiting.set(partition, all);
  }

  #of(id: string): Map<string, Waiting> {
    const partition = this.#partitionOf(id);
    let waiting = this.#waiting.get(partition);
    if (waiting === undefined) this.#waiting.set(partition, (waiting = new Map()));
    return waiting;
  }
}

const NOTHING: SubscriptionBatch = { deltas: [], more: false, settle: () => undefined };

function removal(id: string): HotOp {
  return { type: 'del', key: subscriptionLoggedRow.key(id) };
}
