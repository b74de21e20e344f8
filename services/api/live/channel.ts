/**
 * All SSE readers of one stream in one form.
 *
 * Owns: the events at the tail, framed once for everybody whose position and cursor agree, and the way of a single reader from storage to
 * the tail. Promises: each reader gets the bytes in order, each once, and a control event after each data event; new bytes of a closing
 * append come before its closing control (R051, SSE-11); a reader that lags costs the others nothing (R052); large events together take no
 * more memory than a budget, however many readers want them.
 *
 * The shared position is where the last shared event ended. Bytes of an unfinished character behind it are the carry: they go out with
 * the event that completes them. A reader whose position is another one reads from storage instead.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { laterCursor } from '../../../shared/protocol/cursor.js';
import { controlEvent, errorEvent } from '../../../shared/protocol/sse.js';
import { advance, type Offset } from '../../../shared/protocol/types.js';
import type { LiveHandle, ReadWindow, StreamEvent } from '../log/types.js';
import type { ByteBudget } from './byte-budget.js';
import { Frame } from './frame.js';
import { CATCH_UP_EVENT_BYTES, FAN_OUT_TURN_MS, READERS_A_LOOK, SHARED_EVENT_BYTES_MAX, TEXT_EVENT_BYTES_MIN } from './limits.js';
import { cutOf, dataEvent, eventLength, type Reach, type Representation } from './representation.js';
import type { StoredEvent, StoredEvents } from './stored-events.js';
import type { Subscriber } from './subscriber.js';
import type { Turns } from './turns.js';

export interface ChannelOptions {
  /** Closed with the channel. */
  readonly handle: LiveHandle;
  readonly representation: Representation;
  readonly turns: Turns;
  /** For events of more than CATCH_UP_EVENT_BYTES. */
  readonly largeEvents: ByteBudget;
  /** For the others that come from storage. */
  readonly stored: StoredEvents;
  readonly now: () => number;
  /** Longest share of a round in one turn, ms; FAN_OUT_TURN_MS unless a test wants many turns. */
  readonly fanOutTurnMs?: number;
  /** Told when a reader's own read failed for a reason that is no refusal. */
  readonly onFailure: (error: unknown) => void;
}

const NOTHING = Buffer.alloc(0);

/** One shared event on its way to those who were at the tail when it came. */
interface Round {
  /** Where a reader has to be to get it. */
  readonly from: Offset;
  readonly outgoing: Outgoing;
  readonly readers: readonly Subscriber[];
  next: number;
  /** Readers that have to read from storage. */
  readonly others: Subscriber[];
}

export class Channel {
  readonly #options: ChannelOptions;
  readonly #handle: LiveHandle;
  readonly #unsubscribe: () => void;
  readonly #readers = new Set<Subscriber>();
  readonly #waiting = new Set<Subscriber>();
  /** End of the last shared event; null: not known, the next reader at the tail sets it. */
  #position: Offset | null = null;
  #carry: Buffer = NOTHING;
  #pending: Buffer[] = [];
  /** End of what `#pending` holds. */
  #expected: Offset | null = null;
  #scheduled = false;
  /** The shared event that is being written to the readers. */
  #round: Round | null = null;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#handle = options.handle;
    this.#unsubscribe = options.handle.subscribe((event) => this.#onEvent(event));
  }

  get size(): number {
    return this.#readers.size;
  }

  add(reader: Subscriber): void {
    this.#readers.add(reader);
    void this.#catchUp(reader);
  }

  /** The connection is gone. */
  remove(reader: Subscriber): void {
    this.#readers.delete(reader);
    this.#waiting.delete(reader);
    reader.state = 'ended';
    reader.claim?.giveUp();
  }

  close(): void {
    this.#unsubscribe();
    this.#handle.close();
  }

  /** Ends one reader at a place from which it can go on: at once at the tail, else after the event under way. */
  dismiss(reader: Subscriber): void {
    if (reader.state === 'reading') {
      reader.leaving = true;
      reader.claim?.giveUp();
      return;
    }
    if (reader.ended) return;
    this.#waiting.delete(reader);
    this.#takeLeave(reader);
  }

  #takeLeave(reader: Subscriber): void {
    const { record } = this.#handle;
    if (record !== null) reader.write(this.#control(reader, { end: reader.position, upToDate: reader.position === record.tail, closed: false }), this.#options.now());
    reader.end(this.#options.now());
  }

  #onEvent(event: StreamEvent): void {
    if (event.record === null || event.record.incarnation !== this.#handle.incarnation) {
      this.#endAll(event);
      return;
    }
    if (event.data.length > 0) this.#gather(event);
    else if (!event.record.closed && event.end === this.#expected) return;
    this.#schedule();
  }

  #gather(event: StreamEvent): void {
    if (this.#position === null || this.#expected === null) return;
    const shared = event.start === this.#expected && event.end - this.#position <= SHARED_EVENT_BYTES_MAX;
    if (!shared) {
      this.#forgetShared();
      // At once: whoever joins the tail next sets the shared position anew, and that is not theirs.
      this.#leaveTail([...this.#waiting]);
      return;
    }
    this.#pending.push(...event.data);
    this.#expected = event.end;
  }

  /** Everybody reads from storage next. */
  #forgetShared(): void {
    this.#position = null;
    this.#expected = null;
    this.#carry = NOTHING;
    this.#pending = [];
  }

  /** Events of one turn go out together, and those that come while a round is under way with the next one. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    if (this.#round === null) setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const { record } = this.#handle;
    if (record === null) return;
    const from = this.#position;
    if (from === null || this.#expected !== record.tail || this.#waiting.size === 0) {
      this.#forgetShared();
      this.#leaveTail([...this.#waiting].filter((reader) => reader.position !== record.tail || record.closed));
      if (this.#waiting.size > 0) this.#shareFrom(record.tail, record.tail, NOTHING);
      return;
    }
    const bytes = joined(this.#carry, this.#pending);
    const length = eventLength(this.#options.representation, bytes, record.closed ? 'end' : 'tail');
    const end = advance(from, length);
    this.#pending = [];
    this.#carry = bytes.subarray(length);
    this.#position = end;
    if (length === 0 && !record.closed) return;
    const event = length === 0 ? NOTHING : dataEvent(this.#options.representation, bytes.subarray(0, length));
    this.#share(from, new Outgoing(event, end, length, end === record.tail, record.closed));
  }

  #share(from: Offset, outgoing: Outgoing): void {
    this.#round = { from, outgoing, readers: [...this.#waiting], next: 0, others: [] };
    this.#deliverSome(this.#round);
  }

  /** A share of a round; requests of others are served before the next share. */
  #deliverSome(round: Round): void {
    const nowMs = this.#options.now();
    const common = laterCursor('0', nowMs);
    const until = performance.now() + (this.#options.fanOutTurnMs ?? FAN_OUT_TURN_MS);
    const { readers } = round;
    while (round.next < readers.length) {
      this.#deliverOne(round, readers[round.next++]!, common, nowMs);
      if (round.next % READERS_A_LOOK === 0 && performance.now() >= until) break;
    }
    if (round.next < readers.length) {
      setImmediate(() => this.#deliverSome(round));
      return;
    }
    this.#round = null;
    this.#leaveTail(round.others);
    if (this.#scheduled) setImmediate(() => this.#flush());
  }

  #deliverOne({ from, outgoing, others }: Round, reader: Subscriber, common: string, nowMs: number): void {
    // Dismissed, or read on by itself, since the round began.
    if (!this.#waiting.has(reader)) return;
    if (reader.position === from && reader.maxBytes >= outgoing.bytes) {
      deliver(reader, outgoing, common, nowMs);
      if (outgoing.closed) {
        this.#waiting.delete(reader);
        reader.end(nowMs);
      } else if (reader.lagging) {
        others.push(reader);
      }
    } else if (reader.position !== outgoing.end || outgoing.closed) {
      others.push(reader);
    }
  }

  /** Not while `#waiting` is walked: a reader may come back at once. */
  #leaveTail(readers: readonly Subscriber[]): void {
    for (const reader of readers) {
      this.#waiting.delete(reader);
      reader.state = 'reading';
      void this.#catchUp(reader);
    }
  }

  /** The next event starts at `position`; [position, tail) is the carry. */
  #shareFrom(position: Offset, tail: Offset, carry: Buffer): void {
    this.#position = position;
    this.#carry = carry;
    this.#expected = tail;
  }

  /** From where the reader is to the tail, event by event. Never throws. */
  async #catchUp(reader: Subscriber): Promise<void> {
    try {
      for (;;) {
        if (reader.lagging) await reader.drained(this.#options.now());
        if (reader.ended) return;
        if (reader.leaving) {
          this.#takeLeave(reader);
          return;
        }
        if (this.#joinTail(reader, NOTHING)) return;
        const rest = await this.#options.turns.run(() => this.#readOne(reader, CATCH_UP_EVENT_BYTES));
        if (typeof rest === 'number') await this.#readLarge(reader, rest);
        else if (reader.ended || (rest !== null && this.#joinTail(reader, rest))) return;
      }
    } catch (error) {
      this.#fail(reader, error);
    }
  }

  /** Puts a reader that has all there is at the tail; `rest`: what it cannot be sent yet. False: there is more to read. */
  #joinTail(reader: Subscriber, rest: Buffer): boolean {
    const { record } = this.#handle;
    // Whoever ended the stream has ended this reader as well.
    if (record === null) return true;
    if (advance(reader.position, rest.length) !== record.tail || record.closed || reader.leaving) return false;
    if (!reader.greeted) reader.write(this.#control(reader, { end: reader.position, upToDate: rest.length === 0, closed: false }), this.#options.now());
    reader.state = 'waiting';
    this.#waiting.add(reader);
    if (this.#position === null) this.#shareFrom(reader.position, record.tail, rest);
    return true;
  }

  /** One event above CATCH_UP_EVENT_BYTES, in its turn; nothing when the reader has to go before that. */
  async #readLarge(reader: Subscriber, bytes: number): Promise<void> {
    const claim = this.#options.largeEvents.claim(bytes);
    reader.claim = claim;
    if (reader.ended || reader.leaving) claim.giveUp();
    const granted = await claim.granted;
    reader.claim = null;
    if (!granted) return;
    try {
      await this.#options.turns.run(() => this.#readOne(reader, bytes));
      await reader.released(this.#options.now());
    } finally {
      claim.release();
    }
  }

  /**
   * One event from storage, of at most `bytesMax` bytes. Returns what of the window cannot be sent yet when that is all there is, else null;
   * a number: nothing was sent, as the event has so many bytes.
   */
  async #readOne(reader: Subscriber, bytesMax: number): Promise<Buffer | number | null> {
    if (reader.ended) return null;
    const { representation } = this.#options;
    const least = representation === 'text' || representation === 'ndjson' ? TEXT_EVENT_BYTES_MIN : 1;
    const most = Math.max(least, Math.min(reader.maxBytes, CATCH_UP_EVENT_BYTES));
    const at = reader.position;
    const read = (): Promise<StoredEvent | number> => this.#eventAt(at, most, bytesMax);
    // A large one has its own budget.
    const event = await (bytesMax > CATCH_UP_EVENT_BYTES ? read() : this.#options.stored.take(`${this.#handle.incarnation}/${representation}/${at}/${most}`, read));
    if (typeof event === 'number') return event;
    if (reader.ended) return null;
    const { frame, end, rest } = event;
    // More may have become durable since it was looked at, and be acknowledged before this reader came to share it (SSE-08).
    const reach = event.reach === 'tail' && advance(end, rest.length) !== this.#handle.record?.tail ? 'below' : event.reach;
    const state = { end, upToDate: rest.length === 0 && reach !== 'below', closed: reach === 'end' };
    reader.position = end;
    if (frame !== null) reader.writePair(frame, this.#control(reader, state), this.#options.now());
    else if (reach === 'end') reader.write(this.#control(reader, state), this.#options.now());
    if (reach === 'end') reader.end(this.#options.now());
    return reach === 'tail' ? rest : null;
  }

  /** What can be sent of the window at an offset; a number: it has more than `bytesMax` bytes, so many. */
  async #eventAt(at: Offset, most: number, bytesMax: number): Promise<StoredEvent | number> {
    const { representation } = this.#options;
    const window = await this.#handle.read(at, most, cutOf(representation));
    if (window.end - window.start > bytesMax) return window.end - window.start;
    const bytes = await bytesOf(window);
    const reach: Reach = window.closed ? 'end' : window.upToDate ? 'tail' : 'below';
    const length = eventLength(representation, bytes, reach);
    if (length === 0 && reach === 'below') throw new Error(`no event can be made of ${bytes.length} bytes of ${representation}`);
    const frame = length === 0 ? null : new Frame(dataEvent(representation, bytes.subarray(0, length)));
    return { frame, end: advance(window.start, length), reach, rest: Buffer.from(bytes.subarray(length)) };
  }

  /** A control event of one reader's own. */
  #control(reader: Subscriber, { end, upToDate, closed }: { end: Offset; upToDate: boolean; closed: boolean }): Frame {
    // The first cursor answers the one that the request brought (CACHE-11).
    if (reader.greeted) reader.cursor = laterCursor(reader.cursor, this.#options.now());
    return new Frame(controlEvent({ nextOffset: end, cursor: closed ? null : reader.cursor, upToDate, closed }));
  }

  /** The stream is gone or another one (SSE-19, INC-19, DEL-07). */
  #endAll(event: StreamEvent): void {
    const gone = new FirnError('STREAM_NOT_FOUND');
    const other = event.record === null ? gone : new FirnError('INCARNATION_MISMATCH');
    for (const reader of this.#readers) this.#fail(reader, reader.withToken ? other : gone);
  }

  #fail(reader: Subscriber, error: unknown): void {
    if (reader.ended) return;
    this.#waiting.delete(reader);
    if (error instanceof FirnError) {
      reader.write(new Frame(errorEvent(error)), this.#options.now());
      reader.end(this.#options.now());
      return;
    }
    this.#options.onFailure(error);
    reader.write(new Frame(errorEvent(new FirnError('INTERNAL'))), this.#options.now());
    reader.end(this.#options.now());
  }
}

/** One shared event; its frames are built when the first reader needs them. */
class Outgoing {
  readonly #controls = new Map<string, Frame>();
  readonly #wholes = new Map<string, Frame>();
  #data: Frame | null = null;

  /** `event`: empty when only the state changed. `bytes`: stream bytes in it. */
  constructor(readonly event: Buffer, readonly end: Offset, readonly bytes: number, readonly upToDate: boolean, readonly closed: boolean) {}

  whole(cursor: string): Frame {
    const name = this.closed ? '' : cursor;
    let frame = this.#wholes.get(name);
    if (frame === undefined) this.#wholes.set(name, (frame = new Frame(this.event, this.#controlOf(cursor))));
    return frame;
  }

  data(): Frame {
    return (this.#data ??= new Frame(this.event));
  }

  control(cursor: string): Frame {
    let frame = this.#controls.get(cursor);
    if (frame === undefined) this.#controls.set(cursor, (frame = new Frame(this.#controlOf(cursor))));
    return frame;
  }

  #controlOf(cursor: string): Buffer {
    return controlEvent({ nextOffset: this.end, cursor: this.closed ? null : cursor, upToDate: this.upToDate, closed: this.closed });
  }
}

function deliver(reader: Subscriber, outgoing: Outgoing, common: string, nowMs: number): void {
  const cursor = reader.cursor === common ? common : laterCursor(reader.cursor, nowMs);
  reader.cursor = cursor;
  reader.position = outgoing.end;
  if (cursor === common || outgoing.closed || outgoing.bytes === 0) reader.write(outgoing.whole(cursor), nowMs);
  else reader.writePair(outgoing.data(), outgoing.control(cursor), nowMs);
}

function joined(carry: Buffer, pending: readonly Buffer[]): Buffer {
  if (carry.length === 0 && pending.length === 1) return pending[0]!;
  return Buffer.concat([carry, ...pending]);
}

async function bytesOf(window: ReadWindow): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of window.body()) pieces.push(piece);
  const bytes = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
  if (bytes.length !== window.end - window.start) throw new Error(`a window of ${window.end - window.start} bytes gave ${bytes.length}`);
  return bytes;
}
