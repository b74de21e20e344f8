/**
 * Streams that subscriptions are linked to, as they are durably, and through which patterns (P6.1, P6.2).
 *
 * Owns: the streams in memory, their places in the groups of patterns, and who hears that something is pending. Promises: an append costs one look-up for a stream that nobody follows, and one addition a
 * pattern (not a subscription) for one that is followed, unless somebody was waiting for it; memory is bounded by GLOB_LINKS_MAX and LINKED_STREAMS_MAX.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { GLOB_LINKS_MAX, LINKED_STREAMS_MAX } from './limits.js';
import { LinkedStream, PatternGroup, type ExplicitLink, type Follower } from './links.js';
import { PatternIndex } from './pattern-index.js';

export interface LinkedStreamsOptions<S> {
  /** A subscription that waited has something pending. Called within the turn that made it durable. */
  readonly onPending: (subscription: S) => void;
  /** A stream is gone: cursors of these subscriptions to that life of it mean nothing any more. */
  readonly onGone: (incarnation: Incarnation, subscriptions: readonly S[]) => void;
  /** A stream could not be linked for lack of room. */
  readonly onFull: (key: StreamKey) => void;
}

export class LinkedStreams<S extends Follower> {
  readonly #options: LinkedStreamsOptions<S>;
  readonly #byKey = new Map<StreamKey, LinkedStream<S>>();
  readonly #groups = new Map<string, PatternGroup<S>>();
  readonly #index = new PatternIndex<PatternGroup<S>>();
  /** What was found for a stream's slot in memory; null: nobody follows it. */
  #known = new WeakMap<object, LinkedStream<S> | null>();
  #globLinks = 0;

  constructor(options: LinkedStreamsOptions<S>) {
    this.#options = options;
  }

  /** Links through patterns. */
  get globLinks(): number {
    return this.#globLinks;
  }

  get size(): number {
    return this.#byKey.size;
  }

  get(key: StreamKey): LinkedStream<S> | undefined {
    return this.#byKey.get(key);
  }

  all(): Iterable<LinkedStream<S>> {
    return this.#byKey.values();
  }

  get hasPatterns(): boolean {
    return this.#groups.size > 0;
  }

  isMatched(key: StreamKey): boolean {
    return this.#index.match(key).length > 0;
  }

  /** Whether nothing has to be followed. */
  get isEmpty(): boolean {
    return this.#groups.size === 0 && this.#byKey.size === 0;
  }

  /** Something durable happened to a stream; `record` null: it is gone. `slot`: its key in memory. */
  changed(slot: { readonly key: StreamKey }, record: StreamRecord | null): void {
    let stream = this.#known.get(slot);
    if (stream === undefined) {
      stream = this.#find(slot.key, record);
      // Nothing is remembered of a key that is followed but has no stream yet.
      if (stream === undefined) return;
      this.#known.set(slot, stream);
    }
    if (stream !== null) this.observe(stream, record);
  }

  /** What was read of a stream by a look at it. Only durable states may be given, each in the turn in which it was read. */
  sighted(key: StreamKey, record: StreamRecord | null): LinkedStream<S> | null {
    const stream = this.#find(key, record) ?? null;
    if (stream !== null) this.observe(stream, record);
    return stream;
  }

  /** null: nobody follows the key; undefined: somebody would, but there is no stream. */
  #find(key: StreamKey, record: StreamRecord | null): LinkedStream<S> | null | undefined {
    const stream = this.#byKey.get(key);
    if (stream !== undefined) return stream;
    if (this.#index.size === 0 || this.#index.match(key).length === 0) return null;
    return record === null || record.softDeleted ? undefined : this.#add(key);
  }

  #add(key: StreamKey): LinkedStream<S> | null {
    if (this.#byKey.size >= LINKED_STREAMS_MAX) {
      for (const group of this.#index.match(key)) group.isPartial = true;
      this.#options.onFull(key);
      return null;
    }
    const stream = new LinkedStream<S>(key);
    this.#byKey.set(key, stream);
    return stream;
  }

  observe(stream: LinkedStream<S>, record: StreamRecord | null): void {
    const alive = record !== null && !record.softDeleted;
    if (stream.incarnation !== null && (!alive || record.incarnation !== stream.incarnation)) this.#end(stream);
    if (!alive) {
      this.#forgetUnused(stream);
      return;
    }
    if (stream.incarnation === null) this.#begin(stream, record);
    if (record.tail <= stream.tail) return;
    stream.tail = record.tail;
    for (const [group, place] of stream.places) {
      group.tails[place] = record.tail;
      if (group.waiting.size === 0) continue;
      const waiting = Array.from(group.waiting);
      for (const subscription of waiting) if (stream.key !== subscription.wakeStream) this.#options.onPending(subscription);
    }
    for (const { subscription } of stream.explicit) if (subscription.isWaiting) this.#options.onPending(subscription);
  }

  #begin(stream: LinkedStream<S>, { incarnation }: StreamRecord): void {
    stream.incarnation = incarnation;
    stream.tail = 0;
    if (!this.#byKey.has(stream.key)) this.#byKey.set(stream.key, stream);
    for (const group of this.#index.match(stream.key)) this.#place(stream, group);
  }

  #place(stream: LinkedStream<S>, group: PatternGroup<S>): void {
    if (stream.places.has(group)) return;
    if (this.#globLinks + group.subscriptions.size > GLOB_LINKS_MAX) {
      group.isPartial = true;
      this.#options.onFull(stream.key);
      return;
    }
    stream.places.set(group, group.add(stream));
    this.#globLinks += group.subscriptions.size;
  }

  /** This life of the stream is over: pattern links go, explicit ones wait at the beginning of the next one (SUB-52). */
  #end(stream: LinkedStream<S>): void {
    const subscriptions: S[] = [];
    for (const [group, place] of stream.places) {
      for (const subscription of group.subscriptions) if (subscription.forgetPlace(place)) subscriptions.push(subscription);
      group.remove(place);
      this.#globLinks -= group.subscriptions.size;
    }
    stream.places.clear();
    for (const link of stream.explicit) link.acked = -1;
    const { incarnation } = stream;
    stream.incarnation = null;
    stream.tail = 0;
    if (subscriptions.length > 0) this.#options.onGone(incarnation!, subscriptions);
  }

  #forgetUnused(stream: LinkedStream<S>): void {
    if (stream.places.size > 0 || stream.explicit.size > 0) return;
    this.#byKey.delete(stream.key);
    // Whoever remembers it by its slot looks it up again.
    this.#known = new WeakMap();
  }

  /** The group of a pattern, made when it is new: then `complete` is null until its streams were sighted. */
  group(pattern: string): PatternGroup<S> {
    const found = this.#groups.get(pattern);
    if (found !== undefined) return found;
    const group = new PatternGroup<S>(pattern);
    this.#groups.set(pattern, group);
    this.#index.add(pattern, group);
    // Streams that nobody followed may be followed now, and those of other patterns are streams of this one too.
    this.#known = new WeakMap();
    for (const stream of this.#byKey.values()) if (stream.incarnation !== null && this.#index.match(stream.key).includes(group)) this.#place(stream, group);
    return group;
  }

  /** Throws SUBSCRIPTION_LIMIT. */
  join(group: PatternGroup<S>, subscription: S): void {
    if (group.isPartial || this.#globLinks + group.count > GLOB_LINKS_MAX) throw new FirnError('SUBSCRIPTION_LIMIT', { detail: `patterns link at most ${GLOB_LINKS_MAX} streams to subscriptions` });
    group.subscriptions.add(subscription);
    this.#globLinks += group.count;
  }

  leave(group: PatternGroup<S>, subscription: S): void {
    group.waiting.delete(subscription);
    if (group.subscriptions.delete(subscription)) this.#globLinks -= group.count;
    this.dropUnused(group);
  }

  /** A group that nobody has joined, or is about to, goes. */
  dropUnused(group: PatternGroup<S>): void {
    if (group.subscriptions.size > 0 || group.claims > 0 || this.#groups.get(group.pattern) !== group) return;
    this.#groups.delete(group.pattern);
    this.#index.remove(group.pattern);
    for (const stream of group.members()) {
      stream.places.delete(group);
      this.#forgetUnused(stream);
    }
  }

  /** A stream that a subscription names, in memory from now on: the caller links it in the same turn. */
  follow(key: StreamKey): LinkedStream<S> {
    const found = this.#byKey.get(key);
    if (found !== undefined) return found;
    const stream = new LinkedStream<S>(key);
    this.#byKey.set(key, stream);
    this.#known = new WeakMap();
    return stream;
  }

  unfollow(stream: LinkedStream<S>, link: ExplicitLink<S>): void {
    stream.explicit.delete(link);
    this.#forgetUnused(stream);
  }
}
