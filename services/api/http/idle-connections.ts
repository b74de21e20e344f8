/**
 * Connections on which nothing happens between two requests.
 *
 * Owns: one timer for all connections of a listener. Promises: a connection without a request is closed when it was silent for the whole time, and one with a request never is. Node's own keep-alive
 * sets and clears a timer for each request, which a small append pays for; this looks at all of them now and then.
 */
import type { Socket } from 'node:net';

interface Mark {
  bytes: number;
  sinceMs: number;
}

/** Node's name for the answer under way on a connection. */
type Served = Socket & { readonly _httpMessage?: object | null };

export class IdleConnections {
  readonly #marks = new Map<Socket, Mark>();
  readonly #timer: NodeJS.Timeout;

  /** `now`: ms, monotonic. `idleMs`: how long a connection may be silent; noticed up to `checkMs` later. */
  constructor(readonly now: () => number, readonly idleMs: number, checkMs: number) {
    this.#timer = setInterval(() => this.#sweep(), Math.min(checkMs, idleMs));
    this.#timer.unref();
  }

  add(socket: Socket): void {
    this.#marks.set(socket, { bytes: 0, sinceMs: this.now() });
  }

  delete(socket: Socket): void {
    this.#marks.delete(socket);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const nowMs = this.now();
    for (const [socket, mark] of this.#marks) {
      const bytes = socket.bytesRead + socket.bytesWritten;
      const served = (socket as Served)._httpMessage;
      if (bytes !== mark.bytes || (served !== null && served !== undefined)) {
        mark.bytes = bytes;
        mark.sinceMs = nowMs;
      } else if (nowMs - mark.sinceMs >= this.idleMs) socket.destroy();
    }
  }
}
