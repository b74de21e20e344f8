/**
 * The subscriptions of a node (P6, P7; requirements section 29).
 *
 * Owns: which subscriptions there are, their creation, links and end; the other modules here own how wakes go (`wakes`), what tokens allow (`tickets`), which streams are followed (`linked-streams`).
 * Promises: nothing of all this costs an append more than one `if` while there is no subscription; everything that is answered is durable (I2); what a restart or a failed batch hid is found by looking (I5).
 */
import { isJson } from '../../../shared/protocol/content-type.js';
import { FirnError } from '../../../shared/protocol/errors.js';
import type { StreamKey } from '../../../shared/protocol/types.js';
import { subscriptionCursorRow, subscriptionLinkRow, subscriptionRow, subscriptionEndRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { ColdLog } from './cold-log.js';
import { configurationDigest } from './configuration.js';
import { endOp, lastGeneration, removeLinks } from './ended.js';
import { Keyring, type PublicJwk } from './keyring.js';
import { EXPLICIT_LINKS_MAX, LINKED_STREAMS_MAX, SUBSCRIPTIONS_MAX } from './limits.js';
import { LinkedStreams } from './linked-streams.js';
import type { Parts, SubscriptionsOptions } from './parts.js';
import { literalPrefix } from './pattern-index.js';
import { StreamScan } from './stream-scan.js';
import { Subscription } from './subscription.js';
import { acknowledge, claim, release } from './tickets.js';
import type { Claim, CreateSubscription, SubscriptionsApi, SubscriptionView, Ticket } from './types.js';
import { Upkeep } from './upkeep.js';
import { Wakes } from './wakes.js';

/** Links that find no room are logged no more often, ms. */
const FULL_LOG_MS = 60_000;

export class Subscriptions implements SubscriptionsApi {
  readonly #parts: Parts;
  readonly #upkeep: Upkeep;
  #keyring: Promise<Keyring> | null = null;
  /** Work on one id goes one after the other. */
  readonly #busy = new Map<string, Promise<unknown>>();
  /** Subscriptions being made. */
  #making = 0;
  #fullAtMs = 0;

  constructor(options: SubscriptionsOptions) {
    const { core, now, cold } = options;
    const coldLog = cold === null ? null : new ColdLog(core, (id) => this.#partitionOf(id), now);
    const keyring = (): Promise<Keyring> => this.#keys();
    const wakes = new Wakes({ ...options, keyring, coldLog, isRefused: (id) => this.#refusal(id) !== null });
    const streams = new LinkedStreams<Subscription>({
      onPending: (subscription) => wakes.noticed(subscription),
      onGone: (incarnation, of) => void core.stageOps(of.map(({ number }) => ({ type: 'del', key: subscriptionCursorRow.key(number, incarnation) }))).catch(() => undefined),
      onFull: (key) => this.#full(key),
    });
    this.#parts = { ...options, byId: new Map(), streams, scan: new StreamScan(core, streams), wakes, keyring, coldLog };
    this.#upkeep = new Upkeep(this.#parts, () => this.#follow());
  }

  /** Reads what the directory holds. Links and their wakes follow in the background; requests wait for them. */
  async start(): Promise<void> {
    const { cold, coldLog } = this.#parts;
    await this.#upkeep.start();
    if (coldLog !== null) cold?.followSubscriptions(coldLog);
  }

  #partitionOf(id: string): number {
    return this.#parts.core.partitionOf(id as StreamKey);
  }

  /** A node that lost its session says so here too: what it wrote would be lost with its directory. */
  #checkWritable(id: string): void {
    const refusal = this.#refusal(id);
    if (refusal !== null) throw refusal;
  }

  #refusal(id: string): Error | null {
    return this.#parts.cold?.refusal(this.#partitionOf(id)) ?? null;
  }

  get counts(): { readonly subscriptions: number; readonly links: number; readonly delivering: number; readonly waiting: number } {
    const { byId, streams, wakes } = this.#parts;
    return { subscriptions: byId.size, links: streams.globLinks, delivering: wakes.load.running, waiting: wakes.load.waiting };
  }

  async create(request: CreateSubscription): Promise<{ readonly created: boolean; readonly subscription: SubscriptionView }> {
    await this.#upkeep.ready();
    this.#checkWritable(request.id);
    if (request.webhookUrl !== null) this.#parts.deliveries.targets.check(request.webhookUrl);
    if (new Set(request.streams).size > EXPLICIT_LINKS_MAX) throw tooMany(`a subscription names at most ${EXPLICIT_LINKS_MAX} streams`);
    return this.#alone(request.id, async () => {
      const found = this.#parts.byId.get(request.id);
      if (found === undefined) return { created: true, subscription: await this.#view(await this.#make(request)) };
      await settled(found);
      if (found.digest !== configurationDigest(request)) throw new FirnError('SUBSCRIPTION_ALREADY_EXISTS');
      return { created: false, subscription: await this.#view(found) };
    });
  }

  async #make(request: CreateSubscription): Promise<Subscription> {
    this.#making++;
    try {
      return await this.#add(request);
    } finally {
      this.#making--;
      this.#unfollowUnused();
    }
  }

  async #add(request: CreateSubscription): Promise<Subscription> {
    const { byId, core, now, wakes, coldLog } = this.#parts;
    await this.#checkWakeStream(request);
    const keys = await this.#keys();
    const generation = Math.max(keys.generationFloor, await lastGeneration(core, request.id));
    if (byId.size >= SUBSCRIPTIONS_MAX) throw tooMany(`there are at most ${SUBSCRIPTIONS_MAX} subscriptions`);
    const { number, op } = keys.takeNumber();
    const subscription = new Subscription(request.id, {
      ...request, number, pages: 1, digest: configurationDigest(request), createdAtMs: now(), generation, wake: null, failures: 0, nextAttemptAtMs: null,
    });
    this.#follow();
    try {
      for (const key of new Set(request.streams)) await this.#name(subscription, key);
      await this.#join(subscription);
    } catch (error) {
      this.#unlinkAll(subscription);
      throw error;
    }
    subscription.startAtTails();
    byId.set(subscription.id, subscription);
    void wakes.save(subscription, [op, { type: 'del', key: subscriptionEndRow.key(subscription.id) }, ...subscription.allOps(), ...(coldLog?.begun(subscription) ?? [])]);
    wakes.settle(subscription);
    await settled(subscription);
    return subscription;
  }

  /** Into the group of its pattern, once that holds every stream that matches. */
  async #join(subscription: Subscription): Promise<void> {
    const { pattern } = subscription;
    if (pattern === null) return;
    const { streams, scan } = this.#parts;
    const group = streams.group(pattern);
    group.claims++;
    try {
      group.complete ??= scan.names(literalPrefix(pattern)).catch((error: unknown) => {
        group.complete = null;
        throw error;
      });
      await group.complete;
      streams.join(group, subscription);
      subscription.group = group;
    } finally {
      group.claims--;
      streams.dropUnused(group);
    }
  }

  /** It has to be there and to hold JSON: wakes would be lost (SUB-54); the server does not make it (SUB-38). */
  async #checkWakeStream({ wakeStream, streams }: CreateSubscription): Promise<void> {
    if (wakeStream === null) return;
    if (streams.includes(wakeStream)) throw new FirnError('INVALID_REQUEST', { detail: 'a subscription is not linked to its own wake_stream' });
    try {
      const { contentType } = await this.#parts.log.head(wakeStream, null);
      if (!isJson(contentType)) throw new FirnError('INVALID_REQUEST', { detail: 'wake_stream is not a JSON stream' });
    } catch (error) {
      if (!(error instanceof FirnError) || (error.status !== 404 && error.status !== 410)) throw error;
      throw new FirnError('INVALID_REQUEST', { detail: 'wake_stream does not exist: create it first' });
    }
  }

  async get(id: string): Promise<SubscriptionView> {
    return this.#view(await this.#find(id));
  }

  /** Nothing for an id that there is not (SUB-49). */
  async delete(id: string): Promise<void> {
    await this.#upkeep.ready();
    this.#checkWritable(id);
    const number = await this.#alone(id, () => this.#end(id));
    if (number !== null) void removeLinks(this.#parts.core, number).catch(() => undefined);
  }

  async #end(id: string): Promise<number | null> {
    const { byId, core, now, wakes, coldLog } = this.#parts;
    const subscription = byId.get(id);
    if (subscription === undefined) return null;
    subscription.ended = true;
    wakes.takeOver(subscription);
    byId.delete(id);
    this.#unlinkAll(subscription);
    this.#unfollowUnused();
    const ops: HotOp[] = [{ type: 'del', key: subscriptionRow.key(id) }, endOp(id, subscription.generation, subscription.number, now()), ...(coldLog?.ended(id) ?? [])];
    try {
      await core.stageOps(ops);
    } catch (error) {
      this.#upkeep.repeat(ops);
      throw error;
    }
    return subscription.number;
  }

  #unlinkAll(subscription: Subscription): void {
    const { streams } = this.#parts;
    for (const link of subscription.explicit.values()) streams.unfollow(link.stream, link);
    if (subscription.group !== null) streams.leave(subscription.group, subscription);
  }

  async link(id: string, keys: readonly StreamKey[]): Promise<void> {
    this.#checkWritable(id);
    const subscription = await this.#find(id);
    if (subscription.wakeStream !== null && keys.includes(subscription.wakeStream)) throw new FirnError('INVALID_REQUEST', { detail: 'a subscription is not linked to its own wake_stream' });
    const fresh = [...new Set(keys)].filter((key) => !subscription.explicit.has(key));
    if (subscription.explicit.size + fresh.length > EXPLICIT_LINKS_MAX) throw tooMany(`a subscription names at most ${EXPLICIT_LINKS_MAX} streams`);
    for (const key of fresh) if (!subscription.explicit.has(key)) await this.#name(subscription, key);
    if (subscription.ended) throw notFound();
    const ops = fresh.map((key) => subscription.explicit.get(key)).filter((link) => link !== undefined).map((link) => subscription.linkOp(link));
    if (ops.length > 0) void this.#parts.wakes.save(subscription, ops);
    await settled(subscription);
  }

  /** Names a stream: at its tail, at the beginning if there is none yet (SUB-52), or where the pattern's link to it stands (SUB-21). */
  async #name(subscription: Subscription, key: StreamKey): Promise<void> {
    const { core, streams } = this.#parts;
    await core.using(key, (slot) => {
      // It may have been named, or its subscription deleted, while the stream was read.
      if (subscription.explicit.has(key) || subscription.ended) return;
      const before = streams.get(key);
      const acked = before === undefined ? null : subscription.ackedOf(before);
      if (before === undefined && streams.size >= LINKED_STREAMS_MAX) throw tooMany(`subscriptions follow at most ${LINKED_STREAMS_MAX} streams together`);
      const link = subscription.name(streams.follow(key));
      streams.observe(link.stream, slot.durable);
      link.acked = acked ?? (link.stream.incarnation === null ? -1 : link.stream.tail);
    });
  }

  async unlink(id: string, key: StreamKey): Promise<void> {
    this.#checkWritable(id);
    const subscription = await this.#find(id);
    const link = subscription.explicit.get(key);
    if (link !== undefined) {
      const { streams, wakes } = this.#parts;
      const ops: HotOp[] = [{ type: 'del', key: subscriptionLinkRow.key(subscription.number, key) }];
      subscription.explicit.delete(key);
      subscription.unlogged.link(key);
      const place = subscription.group === null ? undefined : link.stream.places.get(subscription.group);
      // The pattern's link goes on from there (SUB-18).
      if (place !== undefined && subscription.advanceAt(place, link.acked)) ops.push(subscription.cursorOp(link.stream, place));
      streams.unfollow(link.stream, link);
      void wakes.save(subscription, ops);
    }
    await settled(subscription);
  }

  callback(id: string, ticket: Ticket): Promise<boolean> {
    return this.#decide(id, (subscription, secret) => acknowledge(this.#parts, secret, subscription, ticket, 'callback'));
  }

  ack(id: string, ticket: Ticket): Promise<boolean> {
    return this.#decide(id, (subscription, secret) => acknowledge(this.#parts, secret, subscription, ticket, 'claim'));
  }

  release(id: string, ticket: Ticket): Promise<void> {
    return this.#decide(id, (subscription, secret) => release(this.#parts, secret, subscription, ticket));
  }

  claim(id: string, worker: string): Promise<Claim> {
    return this.#decide(id, (subscription, secret) => claim(this.#parts, secret, subscription, worker));
  }

  async jwks(): Promise<readonly PublicJwk[]> {
    return (await this.#keys()).jwks();
  }

  /** Replaces the key that signs webhooks; returns the id of the new one. */
  async rotateSigningKey(): Promise<string> {
    const keys = await this.#keys();
    await keys.rotate();
    return keys.activeKid;
  }

  /** Decides in one turn; the answer, a refusal as well, waits for what it rests on (I2). */
  async #decide<T>(id: string, work: (subscription: Subscription, secret: Buffer) => T): Promise<T> {
    this.#checkWritable(id);
    const subscription = await this.#find(id);
    const keys = await this.#keys();
    if (subscription.ended) throw notFound();
    try {
      return work(subscription, keys.tokenSecret);
    } finally {
      await settled(subscription);
    }
  }

  async #find(id: string): Promise<Subscription> {
    await this.#upkeep.ready();
    const subscription = this.#parts.byId.get(id);
    if (subscription === undefined) throw notFound();
    await settled(subscription);
    return subscription;
  }

  async #view(subscription: Subscription): Promise<SubscriptionView> {
    const { activeKid } = await this.#keys();
    const { id, type, pattern, webhookUrl, wakeStream, leaseTtlMs, description, createdAtMs } = subscription;
    return {
      id, type, pattern, webhookUrl, wakeStream, leaseTtlMs, description, createdAtMs, status: subscription.isFailed ? 'failed' : 'active', kid: activeKid, links: () => subscription.links(),
    };
  }

  #keys(): Promise<Keyring> {
    this.#keyring ??= Keyring.open(this.#parts.core, this.#parts.now).catch((error: unknown) => {
      this.#keyring = null;
      throw error;
    });
    return this.#keyring;
  }

  /** From here on changes of streams are told to those who follow them. */
  #follow(): void {
    const { core, streams, logger } = this.#parts;
    core.watchAll((slot, record) => {
      try {
        streams.changed(slot, record);
      } catch (error) {
        logger.error({ err: error, event: 'wake-lost', stream: slot.key }, 'subscriptions could not be told of a change; the next look over all streams finds it');
      }
    });
  }

  #full(key: StreamKey): void {
    const { logger, metrics, now } = this.#parts;
    metrics.subscriptionLinksRefused.add();
    if (now() - this.#fullAtMs < FULL_LOG_MS) return;
    this.#fullAtMs = now();
    logger.warn({ event: 'links-full', stream: key }, 'streams are not linked to the subscriptions that match them: there are too many links');
  }

  #unfollowUnused(): void {
    const { byId, core } = this.#parts;
    if (byId.size === 0 && this.#making === 0) core.watchAll(null);
  }

  async #alone<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.#busy.get(id);
    const running = (before ?? Promise.resolve()).then(work, work);
    this.#busy.set(id, running);
    try {
      return await running;
    } finally {
      if (this.#busy.get(id) === running) this.#busy.delete(id);
    }
  }

  /** Deliveries under way end or are told again at the next start. */
  async stop(): Promise<void> {
    const { byId, core, wakes } = this.#parts;
    core.watchAll(null);
    await Promise.all([this.#upkeep.stop(), wakes.stop(byId.values())]);
  }
}

function tooMany(detail: string): FirnError {
  return new FirnError('SUBSCRIPTION_LIMIT', { detail });
}

function notFound(): FirnError {
  return new FirnError('SUBSCRIPTION_NOT_FOUND');
}

/** What is on its way to the disk is there. Throws OUTCOME_UNKNOWN, or GROUP_RESTARTING while rows are written again. */
async function settled(subscription: Subscription): Promise<void> {
  await subscription.durable;
  if (subscription.doubtful) throw new FirnError('GROUP_RESTARTING');
}
