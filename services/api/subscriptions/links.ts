/**
 * How streams and subscriptions hang together in memory.
 *
 * Owns: the places of streams in the group of a pattern: a subscription's cursor to the stream at a place is one number in an array of its own, so that a link costs eight bytes, and a look for what is
 * pending is one walk over two arrays of numbers.
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';

/** What a stream has to know of a subscription `S`. */
export interface Follower {
  readonly wakeStream: StreamKey | null;
  /** Nothing to do until something is pending. */
  readonly isWaiting: boolean;
  /** The stream at a place of its group is gone. True: a cursor to it is on record. */
  forgetPlace(place: number): boolean;
}

/** A stream that a subscription names itself. */
export interface ExplicitLink<S> {
  readonly subscription: S;
  readonly stream: LinkedStream<S>;
  /** -1: nothing. */
  acked: number;
}

/** A stream that some subscription is linked to, as it is durably. */
export class LinkedStream<S> {
  /** null: there is no such stream (any more); links to it wait for the next one. */
  incarnation: Incarnation | null = null;
  tail = 0;
  readonly places = new Map<PatternGroup<S>, number>();
  readonly explicit = new Set<ExplicitLink<S>>();
  /** The look at all streams that saw it last. */
  seen = 0;

  constructor(readonly key: StreamKey) {}
}

const PLACES_MIN = 16;

/** All subscriptions of one pattern, and the streams that it matches. */
export class PatternGroup<S> {
  readonly subscriptions = new Set<S>();
  /** Those that have nothing to do until something is pending. */
  readonly waiting = new Set<S>();
  /** Durable tail of the stream at each place; 0 where there is none. */
  tails = new Float64Array(PLACES_MIN);
  readonly #streams: (LinkedStream<S> | null)[] = [];
  readonly #free: number[] = [];
  #count = 0;
  /** Some stream that the pattern matches could not be linked for lack of room. */
  isPartial = false;
  /** Requests that are about to join. */
  claims = 0;
  /** Resolves when every stream that the pattern matches is in; null: nobody has looked for them. */
  complete: Promise<void> | null = null;

  constructor(readonly pattern: string) {}

  /** Streams in it. */
  get count(): number {
    return this.#count;
  }

  /** Places below this may be taken. */
  get end(): number {
    return this.#streams.length;
  }

  at(place: number): LinkedStream<S> | null {
    return this.#streams[place] ?? null;
  }

  *members(): Generator<LinkedStream<S>> {
    for (const stream of this.#streams) if (stream !== null) yield stream;
  }

  /** Returns the place. */
  add(stream: LinkedStream<S>): number {
    const place = this.#free.pop() ?? this.#streams.length;
    if (place === this.tails.length) {
      const larger = new Float64Array(this.tails.length * 2);
      larger.set(this.tails);
      this.tails = larger;
    }
    this.#streams[place] = stream;
    this.tails[place] = stream.tail;
    this.#count++;
    return place;
  }

  remove(place: number): void {
    this.#streams[place] = null;
    this.tails[place] = 0;
    this.#free.push(place);
    this.#count--;
  }
}
