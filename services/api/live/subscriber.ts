/**
 * One SSE reader: its socket, its position, its times.
 *
 * Owns: writing to it. Promises: an event is written whole or not at all; nothing is kept for a reader but what its socket holds; a
 * reader ends once. Where nothing else may write to the connection, frames go straight to the socket (one write, no copy); elsewhere
 * (HTTP/1.0, pipelined requests) Node frames them.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Offset } from '../../../shared/protocol/types.js';
import type { Claim } from './byte-budget.js';
import type { Frame } from './frame.js';
import { LAG_BYTES } from './limits.js';
import { onceOver } from './over.js';
import { bytesTaken } from './taken.js';

/** `reading`: catches up from storage; `waiting`: at the tail; `ended`: the last byte was written, or the connection is gone. */
export type SubscriberState = 'reading' | 'waiting' | 'ended';

export interface SubscriberOptions {
  /** Its head is out. */
  readonly res: ServerResponse;
  readonly start: Offset;
  readonly maxBytes: number;
  /** The first cursor it is given. */
  readonly cursor: string;
  /** It named an incarnation (INC-19). */
  readonly withToken: boolean;
  readonly nowMs: number;
  readonly endAtMs: number;
}

export class Subscriber {
  state: SubscriberState = 'reading';
  /** End of the bytes it was sent. */
  position: Offset;
  cursor: string;
  /** It has had a control event. */
  greeted = false;
  /** It is to end after the event that is being prepared. */
  leaving = false;
  /** The room that its next event waits for. */
  claim: Claim | null = null;
  lastWriteMs: number;
  /** Since when it has taken nothing while it should drain; 0: it does not have to. */
  stalledSinceMs = 0;
  #taken = 0;
  /** When its end was written; 0: not yet. */
  endedMs = 0;
  /** The slot of the hub's timer that holds it. */
  timerSlot: Set<Subscriber> | null = null;
  readonly endAtMs: number;
  readonly maxBytes: number;
  readonly withToken: boolean;
  readonly res: ServerResponse;
  /** Null: Node frames. */
  readonly #socket: Socket | null;

  constructor({ res, start, maxBytes, cursor, withToken, nowMs, endAtMs }: SubscriberOptions) {
    this.res = res;
    this.position = start;
    this.maxBytes = maxBytes;
    this.cursor = cursor;
    this.withToken = withToken;
    this.lastWriteMs = nowMs;
    this.endAtMs = endAtMs;
    this.#socket = res.chunkedEncoding && res.socket !== null && res.writableLength === res.socket.writableLength ? res.socket : null;
  }

  get ended(): boolean {
    return this.state === 'ended';
  }

  /** The socket holds more than a reader at the tail may leave behind. */
  get lagging(): boolean {
    return (this.#socket ?? this.res).writableLength > LAG_BYTES;
  }

  write(frame: Frame, nowMs: number): void {
    if (this.ended) return;
    this.lastWriteMs = nowMs;
    this.greeted = true;
    if (this.#socket !== null) this.#socket.write(frame.framed);
    else this.res.write(frame.payload);
  }

  /** Two frames as one write. */
  writePair(first: Frame, second: Frame, nowMs: number): void {
    const writable = this.#socket ?? this.res;
    writable.cork();
    this.write(first, nowMs);
    this.write(second, nowMs);
    writable.uncork();
  }

  /** Resolves when the socket has taken all of it, or the connection is gone. */
  drained(nowMs: number): Promise<void> {
    const writable = this.#socket ?? this.res;
    if (this.ended || writable.writableLength === 0 || !writable.writableNeedDrain) return Promise.resolve();
    this.stalledSinceMs = nowMs;
    this.#taken = bytesTaken(this.res.req.socket);
    return new Promise((resolve) => {
      const settle = (): void => {
        writable.off('drain', settle);
        forget();
        this.stalledSinceMs = 0;
        resolve();
      };
      writable.on('drain', settle);
      const forget = onceOver(this.res, settle);
    });
  }

  /** Resolves when nothing that was written is held for it any more. */
  released(nowMs: number): Promise<void> {
    if (!this.ended) return this.drained(nowMs);
    return new Promise((resolve) => void onceOver(this.res, resolve));
  }

  /** Looks whether the other side has taken something since the last look. */
  noteProgress(nowMs: number): void {
    if (this.stalledSinceMs === 0) return;
    const taken = bytesTaken(this.res.req.socket);
    if (taken === this.#taken) return;
    this.#taken = taken;
    this.stalledSinceMs = nowMs;
  }

  /** Ends the answer; the connection may serve the next request. */
  end(nowMs: number): void {
    if (this.ended) return;
    this.state = 'ended';
    this.endedMs = nowMs;
    this.res.end();
  }

  /** Ends the connection, whatever is on its way; also where the answer still waits behind others. */
  cut(): void {
    this.state = 'ended';
    this.res.req.socket.destroy();
  }
}
