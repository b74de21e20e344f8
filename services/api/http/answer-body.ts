/**
 * Bodies of answers whose length is more than one write.
 *
 * Owns: back-pressure towards clients. Promises: at most ANSWER_BUFFER_BYTES and one piece wait in memory for one answer; a source that
 * fails or ends short cuts the connection, so that no half answer looks whole (R081, I9); a source is always given back, also when the
 * client leaves, and when it left before the answer had its turn on the connection (R053). Clients that take nothing are the server's business.
 */
import type { ServerResponse } from 'node:http';
import { onceOver } from '../live/over.js';
import { AnswersWaiting } from './answers-waiting.js';
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
  // Not awaited here, where the first piece would be held until the last is taken.
  return finish(exchange.res, resumed([first.value], source, length));
}

async function finish(res: ServerResponse, source: AsyncIterator<Buffer>): Promise<void> {
  await writePieces(res, source);
  res.end();
}

/** Of the whole process, as its memory is. */
const waiting = new AnswersWaiting();

/** Writes pieces to an answer whose head is out. Throws `ClientGone`, and what the source throws; then the connection has to be cut. */
export async function writePieces(res: ServerResponse, source: AsyncIterator<Buffer>): Promise<void> {
  const gather = new Gather(res);
  try {
    let ahead: Promise<IteratorResult<Buffer>> | null = null;
    let takes = false;
    for (;;) {
      const { done, value } = await (ahead ?? source.next());
      if (done === true) break;
      gather.add(value);
      if (res.destroyed) throw new ClientGone();
      ahead = null;
      if (res.writableLength <= ANSWER_BUFFER_BYTES) continue;
      // Not for one that has taken nothing so far: it may never do.
      if (takes && waiting.mayReadAhead) {
        ahead = source.next();
        // Should the client leave first, its failure is nobody's business.
        ahead.catch(() => undefined);
      }
      await waiting.drained(res);
      takes = true;
      if (res.destroyed) throw new ClientGone();
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

/** A source of which some pieces were taken already. `taken` is emptied, so that nothing is held behind its turn. Throws at the end of a source that did not give `length` bytes; null: any number will do. */
export async function* resumed(taken: Buffer[], rest: AsyncIterator<Buffer>, length: number | null): AsyncGenerator<Buffer, void, undefined> {
  let given = 0;
  try {
    for (let piece = taken.shift(); piece !== undefined; piece = taken.shift()) {
      given += piece.length;
      yield piece;
    }
    for (;;) {
      const { done, value } = await rest.next();
      if (done === true) break;
      given += value.length;
      yield value;
    }
  } finally {
    await rest.return?.();
  }
  if (length !== null && given !== length) throw new Error(`an answer of ${length} bytes got ${given}`);
}
