/**
 * All SSE readers of a node.
 *
 * Owns: their channels, their one timer (comments, end of life, stalled readers), shutdown. Promises: every answer ends after about a
 * minute (SSE-12), also one that nobody reads (R127); an idle one says something before a proxy gives up (R059); a reader that takes
 * nothing is cut and counted; no timer of its own per reader.
 */
import type { ServerResponse } from 'node:http';
import type { Tally } from '../../../shared/observability/index.js';
import { answerCursor } from '../../../shared/protocol/cursor.js';
import { commentLine } from '../../../shared/protocol/sse.js';
import type { Offset } from '../../../shared/protocol/types.js';
import type { LiveHandle } from '../log/types.js';
import { ByteBudget } from './byte-budget.js';
import { Channel } from './channel.js';
import { Frame } from './frame.js';
import { CATCH_UPS_AT_ONCE, END_GRACE_MS, HEARTBEAT_MS, LARGE_EVENTS_BYTES_MAX, LIFE_MAX_MS, LIFE_MIN_MS, STALL_MS, TICK_MS } from './limits.js';
import { onceOver } from './over.js';
import type { Representation } from './representation.js';
import { StoredEvents } from './stored-events.js';
import { Subscriber } from './subscriber.js';
import { Turns } from './turns.js';

/** Periods in ms; tests shorten them. */
export interface HubTimes {
  readonly lifeMinMs: number;
  readonly lifeMaxMs: number;
  readonly heartbeatMs: number;
  readonly stallMs: number;
  readonly endGraceMs: number;
  readonly tickMs: number;
}

const HUB_TIMES: HubTimes = {
  lifeMinMs: LIFE_MIN_MS, lifeMaxMs: LIFE_MAX_MS, heartbeatMs: HEARTBEAT_MS, stallMs: STALL_MS, endGraceMs: END_GRACE_MS, tickMs: TICK_MS,
};

export interface HubOptions {
  readonly now: () => number;
  /** 0 <= value < 1. */
  readonly random: () => number;
  /** Counts readers that were cut. */
  readonly cut: Tally;
  readonly onFailure: (error: unknown) => void;
  readonly times?: Partial<HubTimes>;
  readonly largeEventsBytesMax?: number;
  readonly fanOutTurnMs?: number;
}

export interface SseReader {
  /** Given over: closed here. */
  readonly handle: LiveHandle;
  readonly start: Offset;
  readonly representation: Representation;
  readonly maxBytes: number;
  /** The `cursor` of the request. */
  readonly cursor: string | null;
  readonly withToken: boolean;
  /** Its head is out. */
  readonly res: ServerResponse;
  /** Called once, when the connection or the answer is over. */
  readonly onOver: () => void;
}

/** Slots of the timer; a check further ahead is looked at again on the way. */
const SLOTS = 64;
const COMMENT = new Frame(commentLine());

export class SseHub {
  readonly #options: HubOptions;
  readonly #times: HubTimes;
  readonly #channels = new Map<string, Channel>();
  readonly #channelOf = new Map<Subscriber, Channel>();
  readonly #turns = new Turns(CATCH_UPS_AT_ONCE);
  readonly #largeEvents: ByteBudget;
  readonly #stored = new StoredEvents();
  readonly #slots: Set<Subscriber>[] = Array.from({ length: SLOTS }, () => new Set());
  readonly #timer: NodeJS.Timeout;
  #slot = 0;
  #ending = false;

  constructor(options: HubOptions) {
    this.#options = options;
    this.#times = { ...HUB_TIMES, ...options.times };
    this.#largeEvents = new ByteBudget(options.largeEventsBytesMax ?? LARGE_EVENTS_BYTES_MAX);
    this.#timer = setInterval(() => this.tick(), this.#times.tickMs);
    this.#timer.unref();
  }

  /** Readers connected now. */
  get size(): number {
    return this.#channelOf.size;
  }

  add(reader: SseReader): void {
    const { now, random } = this.#options;
    const nowMs = now();
    const life = this.#times.lifeMinMs + random() * (this.#times.lifeMaxMs - this.#times.lifeMinMs);
    const subscriber = new Subscriber({
      res: reader.res, start: reader.start, maxBytes: reader.maxBytes, withToken: reader.withToken, nowMs,
      cursor: answerCursor(reader.cursor, nowMs, random), endAtMs: nowMs + life,
    });
    const name = `${reader.handle.incarnation}/${reader.representation}`;
    const channel = this.#channelFor(name, reader);
    this.#channelOf.set(subscriber, channel);
    onceOver(reader.res, () => this.#over(subscriber, name, channel, reader.onOver));
    channel.add(subscriber);
    if (this.#ending) channel.dismiss(subscriber);
    else this.#place(subscriber, nowMs);
  }

  /** One handle is enough for a channel: it holds the stream open for all. */
  #channelFor(name: string, reader: SseReader): Channel {
    const known = this.#channels.get(name);
    if (known !== undefined) {
      reader.handle.close();
      return known;
    }
    const channel = new Channel({
      handle: reader.handle, representation: reader.representation, turns: this.#turns, largeEvents: this.#largeEvents, stored: this.#stored, now: this.#options.now, fanOutTurnMs: this.#options.fanOutTurnMs, onFailure: this.#options.onFailure,
    });
    this.#channels.set(name, channel);
    return channel;
  }

  /** Nobody catches what is thrown while a connection ends: a fault in here must not end the process with all its other readers. */
  #over(subscriber: Subscriber, name: string, channel: Channel, onOver: () => void): void {
    for (const step of [() => this.#drop(subscriber, name, channel), onOver]) {
      try {
        step();
      } catch (error) {
        this.#options.onFailure(error);
      }
    }
  }

  #drop(subscriber: Subscriber, name: string, channel: Channel): void {
    subscriber.timerSlot?.delete(subscriber);
    this.#channelOf.delete(subscriber);
    channel.remove(subscriber);
    if (channel.size > 0) return;
    this.#channels.delete(name);
    channel.close();
  }

  /** One step of the timer. */
  tick(): void {
    this.#slot = (this.#slot + 1) % SLOTS;
    const due = this.#slots[this.#slot]!;
    if (due.size === 0) return;
    const nowMs = this.#options.now();
    for (const subscriber of due) {
      due.delete(subscriber);
      subscriber.timerSlot = null;
      if (this.#look(subscriber, nowMs)) this.#place(subscriber, nowMs);
    }
  }

  /** False: no more to do for this reader. */
  #look(reader: Subscriber, nowMs: number): boolean {
    const { stallMs, endGraceMs, heartbeatMs } = this.#times;
    reader.noteProgress(nowMs);
    const overdue = reader.ended ? nowMs - reader.endedMs >= endGraceMs : reader.stalledSinceMs > 0 && (nowMs - reader.stalledSinceMs >= stallMs || nowMs >= reader.endAtMs);
    if (overdue) {
      this.#options.cut.add();
      reader.cut();
      return false;
    }
    if (reader.ended) return true;
    if (nowMs >= reader.endAtMs) this.#channelOf.get(reader)?.dismiss(reader);
    else if (reader.state === 'waiting' && nowMs - reader.lastWriteMs >= heartbeatMs) reader.write(COMMENT, nowMs);
    return true;
  }

  /** Puts a reader into the slot of its next look. */
  #place(reader: Subscriber, nowMs: number): void {
    const { stallMs, endGraceMs, heartbeatMs, tickMs } = this.#times;
    let dueMs = reader.ended ? reader.endedMs + endGraceMs : reader.endAtMs;
    if (!reader.ended) dueMs = Math.min(dueMs, reader.state === 'waiting' ? reader.lastWriteMs + heartbeatMs : nowMs + Math.min(stallMs, heartbeatMs) / 2);
    const ticks = Math.min(Math.max(Math.ceil((dueMs - nowMs) / tickMs), 1), SLOTS - 1);
    const slot = this.#slots[(this.#slot + ticks) % SLOTS]!;
    slot.add(reader);
    reader.timerSlot = slot;
  }

  /** Ends every answer with its control event; later ones end at once. */
  shutdown(): void {
    this.#ending = true;
    for (const [reader, channel] of this.#channelOf) channel.dismiss(reader);
  }

  /** Stops the timer; the connections are the server's business. */
  close(): void {
    clearInterval(this.#timer);
  }
}
