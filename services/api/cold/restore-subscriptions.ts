/**
 * Subscriptions in a restore (requirements section 29, architecture section 6): each is bound to the streams as they are restored.
 *
 * Owns: their rows and their log records. Promises: no cursor lies beyond the restored tail of its stream, and one to a life that is not there is dropped, so what is appended from now on wakes; no generation
 * that was told before is told again; the log learns of all this before the directory rests on it, so the next restore does not find the old cursors. No secret lies in an object store: tokens and signatures
 * begin anew. Holds the tokens of streams with cursors in memory, and one subscription.
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { CheckpointItem } from '../../../shared/storage/checkpoint.js';
import type { LinkCursor, LogDelta, NamedLink, SubscriptionConfig } from '../../../shared/storage/records/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { subscriptionBaseRow, subscriptionKeysRow, subscriptionLinkRow, subscriptionLoggedRow, subscriptionRow, streamRow } from '../hot/keys/index.js';
import type { HotReads } from '../hot/store.js';
import type { RowWriter } from './row-writer.js';

/** A generation after a restore is the newest session times this, and counts on: nobody told as many wakes in one session. */
export const GENERATIONS_PER_SESSION = 2 ** 32;
/** Links in one row of cursors, about. */
const PAGE_LINKS = 256;
/** Links of one log record, about: a subscription goes into one whole. */
const RECORD_LINKS = 262_144;
const NO_STREAM = 0 as Incarnation;

export interface RestoredSubscriptionsOptions {
  readonly store: HotReads;
  /** `name`: of the subscription, as losses are told. */
  readonly lost: (name: string, what: string) => void;
}

/** A stream as it is there now. */
interface Place {
  readonly incarnation: Incarnation;
  readonly tail: number;
}

interface Open {
  readonly id: string;
  readonly config: SubscriptionConfig;
  readonly links: NamedLink[];
  readonly cursors: LinkCursor[];
}

export type LogDeltas = (deltas: readonly LogDelta[]) => Promise<void>;

export class RestoredSubscriptions {
  readonly #options: RestoredSubscriptionsOptions;
  /** Streams by the tokens that cursors name them by; null: not seen (yet). */
  readonly #keys = new Map<Incarnation, StreamKey | null>();
  readonly #places = new Map<Incarnation, Place | null>();
  #nextNumber = 1;
  #count = 0;

  constructor(options: RestoredSubscriptionsOptions) {
    this.#options = options;
  }

  /** First: which streams cursors name. `items`: merged, subscriptions before streams. */
  async want(items: AsyncIterable<CheckpointItem>): Promise<void> {
    for await (const item of items) {
      if (item.kind === 'stream') return;
      if (item.kind === 'links') for (const { incarnation } of item.links) this.#keys.set(incarnation, null);
      if (item.kind === 'cursors') for (const { incarnation } of item.cursors) this.#keys.set(incarnation, null);
    }
  }

  get wants(): boolean {
    return this.#keys.size > 0;
  }

  /** A token of the life that the log holds under a key. */
  note(key: StreamKey, incarnation: Incarnation): void {
    if (this.#keys.has(incarnation)) this.#keys.set(incarnation, key);
  }

  /** Last: every stream is there. Returns how many subscriptions are. */
  async fill(items: AsyncIterable<CheckpointItem>, floor: number, writer: RowWriter, log: LogDeltas): Promise<number> {
    const before = this.#count;
    let deltas: LogDelta[] = [];
    let links = 0;
    const tell = async (): Promise<void> => {
      if (deltas.length > 0) await log(deltas);
      deltas = [];
      links = 0;
    };
    for await (const open of whole(items)) {
      const bound = await this.#bound(open);
      await this.#write(bound, floor, writer);
      deltas.push({ kind: 'subscription', whole: true, unlinked: [], ...bound });
      links += 1 + bound.links.length + bound.cursors.length;
      if (links >= RECORD_LINKS) await tell();
    }
    await tell();
    return this.#count - before;
  }

  /** What all subscriptions of the directory share. */
  async finish(floor: number, writer: RowWriter): Promise<void> {
    const none = Buffer.alloc(0);
    await writer.put(subscriptionKeysRow.key(), subscriptionKeysRow.encode({ nextNumber: this.#nextNumber, tokenSecret: none, signing: [], generationFloor: floor }));
    await writer.flush();
  }

  /** The same with its links to streams that are there, at their tails at most. */
  async #bound({ id, config, links, cursors }: Open): Promise<Open> {
    const name = `__ds/subscriptions/${id}`;
    const boundLinks: NamedLink[] = [];
    for (const link of links) {
      const place = await this.#placeOf(link.incarnation);
      if (place === null) boundLinks.push({ key: link.key, incarnation: NO_STREAM, acked: -1 });
      else boundLinks.push({ key: link.key, incarnation: place.incarnation, acked: Math.min(link.acked, place.tail) });
    }
    const boundCursors: LinkCursor[] = [];
    let back = 0;
    for (const { incarnation, acked } of cursors) {
      const place = await this.#placeOf(incarnation);
      if (place === null) continue;
      if (place.tail < acked) back++;
      boundCursors.push({ incarnation: place.incarnation, acked: Math.min(acked, place.tail) });
    }
    for (const [n, { key, acked }] of links.entries()) if (acked > boundLinks[n]!.acked) this.#options.lost(name, `its cursor to ${key}: it stood at ${acked}, the restored stream ${boundLinks[n]!.incarnation === NO_STREAM ? 'is not there' : `ends at ${boundLinks[n]!.acked}`}`);
    if (back > 0) this.#options.lost(name, `${back} cursors that stood beyond the restored tails of their streams`);
    if (config.wakeStream !== null && (await this.#record(config.wakeStream)) === undefined) this.#options.lost(name, `its wake stream ${config.wakeStream}: its wakes wait until that is created again`);
    return { id, config, links: boundLinks, cursors: boundCursors };
  }

  async #placeOf(incarnation: Incarnation): Promise<Place | null> {
    const known = this.#places.get(incarnation);
    if (known !== undefined) return known;
    const key = this.#keys.get(incarnation) ?? null;
    const value = key === null ? undefined : await this.#record(key);
    const record = value === undefined ? null : streamRow.decode(value);
    const place = record === null || record.softDeleted ? null : { incarnation: record.incarnation, tail: record.tail };
    this.#places.set(incarnation, place);
    return place;
  }

  #record(key: StreamKey): Promise<Buffer | undefined> {
    return this.#options.store.get(streamRow.key(slotOf(key), key));
  }

  async #write({ id, config, links, cursors }: Open, generation: number, writer: RowWriter): Promise<void> {
    const number = this.#nextNumber++;
    const pages = Math.max(1, Math.ceil(cursors.length / PAGE_LINKS));
    this.#count++;
    await writer.put(subscriptionRow.key(id), subscriptionRow.encode({ ...config, number, pages, generation, wake: null, failures: 0, nextAttemptAtMs: null }));
    for (const { key, ...link } of links) await writer.put(subscriptionLinkRow.key(number, key), subscriptionLinkRow.encode(link));
    const byPage = new Map<number, LinkCursor[]>();
    for (const cursor of cursors) {
      const page = cursor.incarnation % pages;
      const some = byPage.get(page);
      if (some === undefined) byPage.set(page, [cursor]);
      else some.push(cursor);
    }
    for (const [page, some] of byPage) await writer.put(subscriptionBaseRow.key(number, page), subscriptionBaseRow.encode(some));
    await writer.put(subscriptionLoggedRow.key(id), subscriptionLoggedRow.encode());
  }
}

/** Joins the items of subscriptions, up to the first stream. */
async function* whole(items: AsyncIterable<CheckpointItem>): AsyncGenerator<Open> {
  let open: Open | null = null;
  for await (const item of items) {
    if (item.kind === 'stream') break;
    if (item.kind === 'subscription') {
      if (open !== null) yield open;
      open = { id: item.id, config: item.config, links: [], cursors: [] };
    } else if (item.kind === 'links') {
      open?.links.push(...item.links);
    } else if (item.kind === 'cursors') {
      open?.cursors.push(...item.cursors);
    }
  }
  if (open !== null) yield open;
}
