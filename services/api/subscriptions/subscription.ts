/**
 * One subscription in memory: its configuration, its cursors, and where its delivery stands (P6.1, P7).
 *
 * Owns: the rules of cursors. Promises: a cursor never goes back and never passes the tail (SUB-53); a stream counts once, as `explicit` where it is both (SUB-18); its own wake stream is never linked
 * by its pattern (SUB-54). What is changed here is written by whoever changes it, in the same turn.
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import { subscriptionBaseRow, subscriptionCursorRow, subscriptionLinkRow, subscriptionRow, type SubscriptionRecord, type SubscriptionType, type WakePhase } from '../hot/keys/index.js';
import type { LinkCursor, LogDelta, NamedLink } from '../../../shared/storage/records/types.js';
import type { HotOp } from '../hot/store.js';
import { PAGED_FROM, PAGE_LINKS, WAKE_LINKS_MAX, WAKE_LINKS_WHOLE } from './limits.js';
import type { ExplicitLink, Follower, LinkedStream, PatternGroup } from './links.js';
import { UnloggedMarks } from './unlogged.js';

export interface Wake {
  readonly id: string;
  readonly generation: number;
  phase: WakePhase;
  /** Wall clock, ms; null: no lease runs. */
  leaseUntilMs: number | null;
  holder: string | null;
}

/** A link as it is shown. */
export interface LinkView {
  readonly path: StreamKey;
  readonly explicit: boolean;
  /** -1: nothing was acknowledged. */
  readonly acked: number;
  readonly tail: number;
}

/** What a wake shows, and may acknowledge as a whole (SUB-30). */
export interface Snapshot {
  readonly links: readonly LinkView[];
  readonly tails: readonly { readonly stream: LinkedStream<Subscription>; readonly incarnation: Incarnation | null; readonly offset: number }[];
}

/** Empty places of a new array of cursors: nothing acknowledged. */
function noCursors(length: number): Float64Array {
  return new Float64Array(length).fill(-1);
}

export function isPending(acked: number, tail: number): boolean {
  return tail > 0 && tail > acked;
}

export class Subscription implements Follower {
  readonly id: string;
  readonly number: number;
  #pages: number;
  readonly type: SubscriptionType;
  readonly pattern: string | null;
  readonly webhookUrl: string | null;
  readonly wakeStream: StreamKey | null;
  readonly leaseTtlMs: number;
  readonly description: string | null;
  readonly digest: string;
  readonly createdAtMs: number;
  readonly origin: string;

  generation: number;
  wake: Wake | null;
  failures: number;
  nextAttemptAtMs: number | null;

  readonly explicit = new Map<StreamKey, ExplicitLink<Subscription>>();
  group: PatternGroup<Subscription> | null = null;
  /** Cursor to the stream at each place of the group; beyond its end -1. */
  #acked = noCursors(0);

  /** It was deleted. */
  ended = false;
  /** Nothing to do until something is pending. */
  isWaiting = false;
  /** The delivery under way that counts; one that was overtaken is none. */
  attempt: object | null = null;
  timer: NodeJS.Timeout | null = null;
  /** Everything that was decided up to now is on disk. */
  durable: Promise<void> = Promise.resolve();
  /** A write failed: all rows are to be written again. */
  doubtful = false;
  /** What the log does not hold. */
  readonly unlogged = new UnloggedMarks();
  /** A row may say that the log holds everything. */
  mayBeLogged = true;

  constructor(id: string, record: SubscriptionRecord) {
    this.id = id;
    this.number = record.number;
    this.#pages = record.pages;
    this.type = record.type;
    this.pattern = record.pattern;
    this.webhookUrl = record.webhookUrl;
    this.wakeStream = record.wakeStream;
    this.leaseTtlMs = record.leaseTtlMs;
    this.description = record.description;
    this.digest = record.digest;
    this.createdAtMs = record.createdAtMs;
    this.origin = record.origin;
    this.generation = record.generation;
    this.wake = record.wake === null ? null : { ...record.wake, generation: record.generation };
    this.failures = record.failures;
    this.nextAttemptAtMs = record.nextAttemptAtMs;
  }

  /** A webhook whose last delivery failed (SUB-16). */
  get isFailed(): boolean {
    return this.type === 'webhook' && this.failures > 0;
  }

  /** Names a stream itself from now on; the cursor is the caller's to set. */
  name(stream: LinkedStream<Subscription>): ExplicitLink<Subscription> {
    const link: ExplicitLink<Subscription> = { subscription: this, stream, acked: -1 };
    stream.explicit.add(link);
    this.explicit.set(stream.key, link);
    return link;
  }

  get linkCount(): number {
    return this.explicit.size + (this.group?.count ?? 0);
  }

  /** All streams of the group count as acknowledged up to their tails (SUB-13). */
  startAtTails(): void {
    const { group } = this;
    if (group === null) return;
    this.#pages = Math.max(1, Math.ceil(group.count / PAGE_LINKS));
    this.#acked = noCursors(group.end);
    for (let place = 0; place < group.end; place++) if (group.at(place) !== null) this.#acked[place] = group.tails[place]!;
  }

  /** Cursor to the stream at a place. */
  ackedAt(place: number): number {
    return place < this.#acked.length ? this.#acked[place]! : -1;
  }

  /** Moves the cursor forward, never back. False: it was there already. */
  advanceAt(place: number, offset: number): boolean {
    if (offset <= this.ackedAt(place)) return false;
    if (place >= this.#acked.length) {
      const larger = noCursors(Math.max(this.group!.tails.length, place + 1));
      larger.set(this.#acked);
      this.#acked = larger;
    }
    this.#acked[place] = offset;
    return true;
  }

  /** The stream at a place is gone. True: a cursor to it is on record. */
  forgetPlace(place: number): boolean {
    if (this.ackedAt(place) < 0) return false;
    this.#acked[place] = -1;
    this.unlogged.gone(this.linkCount);
    return true;
  }

  /** Every link once. */
  *links(): Generator<LinkView> {
    for (const { stream, acked } of this.explicit.values()) yield { path: stream.key, explicit: true, acked, tail: stream.tail };
    for (const [stream, place] of this.#globLinks()) yield { path: stream.key, explicit: false, acked: this.ackedAt(place), tail: stream.tail };
  }

  *#globLinks(): Generator<[LinkedStream<Subscription>, number]> {
    const { group } = this;
    if (group === null) return;
    for (let place = 0; place < group.end; place++) {
      const stream = group.at(place);
      if (stream !== null && this.#isGlobLink(stream)) yield [stream, place];
    }
  }

  #isGlobLink(stream: LinkedStream<Subscription>): boolean {
    return stream.key !== this.wakeStream && (this.explicit.size === 0 || !this.explicit.has(stream.key));
  }

  /** Streams with something pending, in no order. */
  *pending(): Generator<LinkedStream<Subscription>> {
    for (const { stream, acked } of this.explicit.values()) if (isPending(acked, stream.tail)) yield stream;
    const { group } = this;
    if (group === null) return;
    const { tails } = group;
    for (let place = 0; place < group.end; place++) {
      if (!isPending(this.ackedAt(place), tails[place]!)) continue;
      const stream = group.at(place)!;
      if (this.#isGlobLink(stream)) yield stream;
    }
  }

  get hasPending(): boolean {
    return this.pending().next().done !== true;
  }

  /** How far the stream was acknowledged, null: it is not linked. */
  ackedOf(stream: LinkedStream<Subscription>): number | null {
    const explicit = this.explicit.get(stream.key);
    if (explicit !== undefined) return explicit.acked;
    const place = this.group === null || stream.key === this.wakeStream ? undefined : stream.places.get(this.group);
    return place === undefined ? null : this.ackedAt(place);
  }

  /** Moves cursors of linked streams up to offsets that the caller compared with the tails; the rows that say so. */
  advance(moves: Iterable<{ readonly stream: LinkedStream<Subscription>; readonly offset: number }>): HotOp[] {
    const ops: HotOp[] = [];
    const moved = new Map<LinkedStream<Subscription>, number>();
    for (const { stream, offset } of moves) {
      const explicit = this.explicit.get(stream.key);
      if (explicit === undefined) {
        const place = stream.places.get(this.group!)!;
        if (!this.advanceAt(place, offset)) continue;
        moved.set(stream, place);
        this.unlogged.place(place);
      } else if (offset > explicit.acked) {
        explicit.acked = offset;
        ops.push(this.linkOp(explicit));
      }
    }
    if (moved.size < PAGED_FROM) for (const [stream, place] of moved) ops.push(this.cursorOp(stream, place));
    else for (const op of this.#pageOps(new Set([...moved.keys()].map(({ incarnation }) => incarnation! % this.#pages)))) ops.push(op);
    return ops;
  }

  /** What a wake shows now: all links of a small subscription, of a larger one what is pending, up to a limit. */
  snapshot(): Snapshot {
    const streams: LinkedStream<Subscription>[] = [];
    const whole = this.linkCount <= WAKE_LINKS_WHOLE;
    for (const stream of whole ? this.#streams() : this.pending()) {
      if (streams.length === WAKE_LINKS_MAX) break;
      streams.push(stream);
    }
    return {
      links: streams.map((stream) => ({ path: stream.key, explicit: this.explicit.has(stream.key), acked: this.ackedOf(stream)!, tail: stream.tail })),
      tails: streams.map((stream) => ({ stream, incarnation: stream.incarnation, offset: stream.tail })),
    };
  }

  *#streams(): Generator<LinkedStream<Subscription>> {
    for (const { stream } of this.explicit.values()) yield stream;
    for (const [stream] of this.#globLinks()) yield stream;
  }

  recordOp(): HotOp {
    const { number, type, pattern, webhookUrl, wakeStream, leaseTtlMs, description, digest, createdAtMs, origin, generation, wake, failures, nextAttemptAtMs } = this;
    const record: SubscriptionRecord = { number, pages: this.#pages, type, pattern, webhookUrl, wakeStream, leaseTtlMs, description, digest, createdAtMs, origin, generation, wake, failures, nextAttemptAtMs };
    return { type: 'put', key: subscriptionRow.key(this.id), value: subscriptionRow.encode(record) };
  }

  linkOp({ stream, acked }: ExplicitLink<Subscription>): HotOp {
    this.unlogged.link(stream.key);
    return { type: 'put', key: subscriptionLinkRow.key(this.number, stream.key), value: subscriptionLinkRow.encode({ incarnation: stream.incarnation ?? (0 as Incarnation), acked }) };
  }

  cursorOp(stream: LinkedStream<Subscription>, place: number): HotOp {
    this.unlogged.place(place);
    return { type: 'put', key: subscriptionCursorRow.key(this.number, stream.incarnation!), value: subscriptionCursorRow.encode(this.ackedAt(place)) };
  }

  /** Rows that say everything: of a new subscription, and after a write that failed. */
  allOps(): HotOp[] {
    const ops: HotOp[] = [this.recordOp()];
    for (const link of this.explicit.values()) ops.push(this.linkOp(link));
    for (const op of this.#pageOps(null)) ops.push(op);
    return ops;
  }

  /** For the log: what it does not hold yet, or everything. */
  takeUnlogged(): Extract<LogDelta, { kind: 'subscription' }> {
    const { whole, places, links: marked } = this.unlogged.take();
    const { id, type, pattern, webhookUrl, wakeStream, leaseTtlMs, description, digest, createdAtMs, origin, group } = this;
    const links: NamedLink[] = [];
    const unlinked: StreamKey[] = [];
    for (const key of whole ? this.explicit.keys() : marked) {
      const link = this.explicit.get(key);
      if (link === undefined) unlinked.push(key);
      else links.push({ key, incarnation: link.stream.incarnation ?? (0 as Incarnation), acked: link.acked });
    }
    const cursors: LinkCursor[] = [];
    for (const place of whole ? Array.from({ length: group?.end ?? 0 }, (_, n) => n) : places) {
      const incarnation = group?.at(place)?.incarnation ?? null;
      if (incarnation !== null && this.ackedAt(place) >= 0) cursors.push({ incarnation, acked: this.ackedAt(place) });
    }
    return { kind: 'subscription', id, config: { type, pattern, webhookUrl, wakeStream, leaseTtlMs, description, digest, createdAtMs, origin }, whole, links, unlinked, cursors };
  }

  /** The rows of some pages of cursors; null: of all that hold any. */
  #pageOps(wanted: ReadonlySet<number> | null): HotOp[] {
    const { group } = this;
    const pages = new Map<number, LinkCursor[]>();
    for (const page of wanted ?? []) pages.set(page, []);
    for (let place = 0; group !== null && place < group.end; place++) {
      const acked = this.ackedAt(place);
      const incarnation = acked < 0 ? null : (group.at(place)?.incarnation ?? null);
      if (incarnation === null) continue;
      const number = incarnation % this.#pages;
      let page = pages.get(number);
      if (page === undefined) {
        if (wanted !== null) continue;
        pages.set(number, (page = []));
      }
      page.push({ incarnation, acked });
    }
    return [...pages].map(([page, links]) => ({ type: 'put', key: subscriptionBaseRow.key(this.number, page), value: subscriptionBaseRow.encode(links) }));
  }
}
