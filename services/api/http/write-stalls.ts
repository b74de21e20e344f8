/**
 * Connections whose other side takes nothing of what waits for it (R053).
 *
 * Owns: one timer for all connections of a listener, whatever is written to them: an answer under way, the rest of one that has ended, or
 * many that wait one behind the other. Promises: a connection is cut when for the whole time something waited and nothing was taken; a
 * slow one that takes something stays.
 */
import type { Socket } from 'node:net';
import { bytesTaken } from '../live/taken.js';

interface Mark {
  taken: number;
  sinceMs: number;
}

export class WriteStalls {
  readonly #sockets = new Set<Socket>();
  /** Of sockets for which something waits. */
  readonly #marks = new Map<Socket, Mark>();
  readonly #timer: NodeJS.Timeout;

  /** `now`: ms, monotonic. `stallMs`: how long a client may take nothing; noticed up to `checkMs` later. */
  constructor(readonly now: () => number, readonly stallMs: number, checkMs: number) {
    this.#timer = setInterval(() => this.#sweep(), Math.min(checkMs, stallMs));
    this.#timer.unref();
  }

  add(socket: Socket): void {
    this.#sockets.add(socket);
  }

  delete(socket: Socket): void {
    this.#sockets.delete(socket);
    this.#marks.delete(socket);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const nowMs = this.now();
    for (const socket of this.#sockets) {
      if (socket.writableLength === 0) {
        this.#marks.delete(socket);
        continue;
      }
      const taken = bytesTaken(socket);
      const mark = this.#marks.get(socket);
      if (mark === undefined) this.#marks.set(socket, { taken, sinceMs: nowMs });
      else if (mark.taken !== taken) {
        mark.taken = taken;
        mark.sinceMs = nowMs;
      } else if (nowMs - mark.sinceMs >= this.stallMs) socket.destroy();
    }
  }
}
