/**
 * Answers that wait until their clients take what was written.
 *
 * Owns: how much of the process's memory they hold together. Promises: only a few read ahead meanwhile, so that each of hundreds of clients that take nothing costs one piece (R053); at
 * most `bytesMax` wait (I11): beyond it whoever has waited longest is cut for the others.
 */
import type { ServerResponse } from 'node:http';
import { onceOver } from '../live/over.js';
import { ANSWERS_AHEAD_MAX, ANSWERS_WAITING_BYTES_MAX } from './limits.js';

export class AnswersWaiting {
  /** Bytes of each, the one that has waited longest first. */
  readonly #answers = new Map<ServerResponse, number>();
  #bytes = 0;

  constructor(readonly bytesMax = ANSWERS_WAITING_BYTES_MAX) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** Whoever begins to wait now may read its next piece meanwhile. */
  get mayReadAhead(): boolean {
    return this.#answers.size < ANSWERS_AHEAD_MAX;
  }

  /** Resolves when the socket has taken all that waits, or the answer is over: then it is destroyed. */
  drained(res: ServerResponse): Promise<void> {
    return new Promise((resolve) => {
      const settle = (): void => {
        res.off('drain', settle);
        forget();
        this.#forget(res);
        resolve();
      };
      res.on('drain', settle);
      const forget = onceOver(res, settle);
      this.#answers.set(res, res.writableLength);
      this.#bytes += res.writableLength;
      this.#cutLongest();
    });
  }

  #cutLongest(): void {
    for (const res of this.#answers.keys()) {
      if (this.#bytes <= this.bytesMax) return;
      this.#forget(res);
      res.req.socket.destroy();
    }
  }

  #forget(res: ServerResponse): void {
    this.#bytes -= this.#answers.get(res) ?? 0;
    this.#answers.delete(res);
  }
}
