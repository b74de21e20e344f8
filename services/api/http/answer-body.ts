/**
 * Bodies of answers whose length is more than one write.
 *
 * Owns: back-pressure towards clients. Promises: at most ANSWER_BUFFER_BYTES and one piece wait in memory for one answer; a source that
 * fails or ends short cuts the connection, so that no half answer looks whole (R081, I9); a source is always given back, also when the
 * client leaves, and when it left before the answer had its turn on the connection (R053). Clients that take nothing are the server's business.
 */
import type { ServerResponse } from 'node:http';
import { onceOver } from '../live/over.js';
import { ClientGone } from './errors.js';
import type { Exchange } from './exchange.js';
import { ANSWER_BUFFER_BYTES, GATHER_BYTES } from './limits.js';

/**
 * Answers with a body of `length` bytes; HEAD without it. The first bytes are in hand before the head is written, so that a missing body is an error and no
 * broken answer. Throws before a head was written, or after it: then the connection is to be cut.
 */
export async function answerBody(exchange: Exchange, status: number, headers: string[], length: number, body: () => AsyncIterable<Buffer>): Promise<void> {
  if (exchange.isHead || length === 0) {
    headers.push('Content-Length', String(length));
    exchange.empty(status, headers);
    return;
  }
  const source = body()[Symbol.asyncIterator]();
  const first = await source.next();
  if (first.done === true) throw new Error(`an answer of ${length} bytes got none`);
  if (first.value.length === length) {
    exchange.whole(status, headers, first.value);
    await source.return?.();
    return;
  }
  headers.push('Content-Length', String(length));
  exchange.head(status, headers);
  await writePieces(exchange.res, resumed(first.value, source, length));
  exchange.res.end();
}

/** Writes pieces to an answer whose head is out. Throws `ClientGone`, and what the source throws; then the connection has to be cut. */
export async function writePieces(res: ServerResponse, source: AsyncIterator<Buffer>): Promise<void> {
  const gather = new Gather(res);
  try {
    let pending = source.next();
    for (;;) {
      const { done, value } = await pending;
      if (done === true) break;
      gather.add(value);
      if (res.destroyed) throw new ClientGone();
      pending = source.next();
      if (res.writableLength > ANSWER_BUFFER_BYTES) {
        // The next piece is read while this one drains; should the client leave first, its failure is nobody's business.
        pending.catch(() => undefined);
        await drained(res);
      }
    }
    gather.flush();
  } catch (error) {
    await giveBack(source);
    throw error;
  }
}

async function giveBack(source: AsyncIterator<Buffer>): Promise<void> {
  try {
    await source.return?.();
  } catch {
    // The answer has failed already; why the source could not be ended adds nothing.
  }
}

/** Resolves when the socket has taken what waits. Throws `ClientGone`. */
function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      res.off('drain', settle);
      forget();
      if (res.destroyed) reject(new ClientGone());
      else resolve();
    };
    res.on('drain', settle);
    const forget = onceOver(res, settle);
  });
}

/** Joins small pieces, so that a thousand messages are not a thousand writes. */
class Gather {
  #held: Buffer[] = [];
  #bytes = 0;

  constructor(readonly res: ServerResponse) {}

  add(piece: Buffer): void {
    if (piece.length >= GATHER_BYTES) {
      this.flush();
      this.res.write(piece);
      return;
    }
    this.#held.push(piece);
    this.#bytes += piece.length;
    if (this.#bytes >= GATHER_BYTES) this.flush();
  }

  flush(): void {
    if (this.#held.length === 0) return;
    this.res.write(this.#held.length === 1 ? this.#held[0]! : Buffer.concat(this.#held, this.#bytes));
    this.#held = [];
    this.#bytes = 0;
  }
}

/** An abort signal that fires when the client leaves before the answer is complete. */
export function departure(res: ServerResponse): AbortSignal {
  const controller = new AbortController();
  onceOver(res, () => {
    if (!res.writableFinished) controller.abort(new ClientGone());
  });
  return controller.signal;
}

/** A source whose first piece was taken already; checks that all of it comes. */
export async function* resumed(first: Buffer, rest: AsyncIterator<Buffer>, length: number): AsyncGenerator<Buffer, void, undefined> {
  let given = first.length;
  try {
    yield first;
    for (;;) {
      const { done, value } = await rest.next();
      if (done === true) break;
      given += value.length;
      yield value;
    }
  } finally {
    await rest.return?.();
  }
  if (given !== length) throw new Error(`an answer of ${length} bytes got ${given}`);
}
