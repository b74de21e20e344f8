/**
 * Bodies of requests: whole ones for appends and creates, streamed ones for snapshots.
 *
 * Owns: the limit of each body, the budget of all bodies of a node, and the minimum rate. Promises: a body over its limit is refused by
 * its declared length before anything is read, and while it grows (APP-10); a body holds of the budget what it has brought, times a
 * factor, and not what it announces; a half-sent body is an error, never data; a stalled one ends in 408 (WO-08); nobody is asked to go on (`100 Continue`) before the request was found worth reading (I11).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { FirnError, type ErrorCode } from '../../../shared/protocol/errors.js';
import type { Exchange } from './exchange.js';
import type { BodyTaker } from './taken-request.js';
import { BODY_CHECK_MS, BODY_GROWTH, BODY_HELD_AT_ONCE, BODY_TIME_MS, BODY_WINDOW_BYTES, BODY_WINDOW_MS, INGRESS_BYTES_MAX, UPLOAD_WINDOW_BYTES } from './limits.js';

const NOTHING = Buffer.alloc(0);

/** A limit and the answer to a body above it. */
export interface BodyLimit {
  readonly bytes: number;
  readonly code: ErrorCode;
  readonly header: string;
}

/** Declared length; null: chunked, so unknown. No body at all is 0. */
export function declaredBytes(req: IncomingMessage): number | null {
  if (req.headers['transfer-encoding'] !== undefined) return null;
  const length = req.headers['content-length'];
  return length === undefined ? 0 : Number(length);
}

/** Body bytes that are still to come, as far as is known: 0 when the request is complete. */
export function unreadBytes(req: IncomingMessage): number {
  return req.complete ? 0 : (declaredBytes(req) ?? Infinity);
}

/** The same, checked. Throws the limit's code. */
export function declaredWithin(req: IncomingMessage, limit: BodyLimit): number | null {
  const declared = declaredBytes(req);
  if (declared !== null && declared > limit.bytes) throw tooLarge(limit);
  return declared;
}

function tooLarge(limit: BodyLimit): FirnError {
  return new FirnError(limit.code, { detail: `the body is above the limit of ${limit.bytes} bytes`, headers: { [limit.header]: String(limit.bytes) } });
}

/** A body that is being received. */
interface Receiving {
  /** Bytes since the last look. */
  windowBytes: number;
  windowStartMs: number;
  /** What has to come within BODY_TIME_MS; 0: the least rate will do. */
  readonly expectedBytes: number;
  /** Where `Bodies` keeps it. */
  place: number;
  /** The client is to send: false while the server itself is not reading. */
  readonly waiting: boolean;
  fail(error: FirnError): void;
}

/** Bodies of one listener: the budget, and those under way. */
export class Bodies {
  #heldBytes = 0;
  /** In no order: the last one takes the place of one that goes, as a set would cost a small append more than its body. */
  readonly #underWay: Receiving[] = [];
  readonly #timer: NodeJS.Timeout;
  readonly #windowMs: number;
  readonly #now: () => number;

  readonly #bytesMax: number;

  /** `now`: ms, monotonic enough for rates. `bytesMax`: the budget. */
  constructor(now: () => number, windowMs = BODY_WINDOW_MS, bytesMax = INGRESS_BYTES_MAX) {
    this.#now = now;
    this.#windowMs = windowMs;
    this.#bytesMax = bytesMax;
    this.#timer = setInterval(() => this.#checkRates(), Math.min(BODY_CHECK_MS, windowMs));
    this.#timer.unref();
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Takes bytes of the budget for a request. Throws INGRESS_BODY_BYTES_LIMIT_REACHED. */
  hold(exchange: Exchange, bytes: number): void {
    if (this.#heldBytes + bytes > this.#bytesMax) throw new FirnError('INGRESS_BODY_BYTES_LIMIT_REACHED');
    this.#heldBytes += bytes;
    exchange.heldBytes += bytes;
  }

  /** Gives back what a request took; its body is no longer referenced. */
  release(exchange: Exchange): void {
    this.#heldBytes -= exchange.heldBytes;
    exchange.heldBytes = 0;
  }

  /** Reads a whole body of `declared` bytes, which were checked. Throws the limit's code, BODY_TOO_SLOW, BODY_UNREADABLE, INGRESS_BODY_BYTES_LIMIT_REACHED. */
  readWhole(exchange: Exchange, limit: BodyLimit, declared: number | null): Promise<Buffer> | Buffer {
    const { req, res } = exchange;
    if (declared === 0) return NOTHING;
    if (declared !== null) this.hold(exchange, Math.min(declared, BODY_HELD_AT_ONCE));
    sayContinue(req, res);
    return new Promise((resolve, reject) => new WholeBody(this, exchange, limit, declared, resolve, reject).start());
  }

  /** Reads a body in pieces, as fast as they are taken. Throws like `readWhole`. Ends the reading when the loop over it is left. */
  async *readPieces(exchange: Exchange, limit: BodyLimit, declared: number | null): AsyncGenerator<Buffer, void, undefined> {
    const { req, res } = exchange;
    if (declared === 0) return;
    const window = Math.min(declared ?? UPLOAD_WINDOW_BYTES, UPLOAD_WINDOW_BYTES);
    this.hold(exchange, Math.min(window, BODY_HELD_AT_ONCE));
    sayContinue(req, res);
    const pieces = new PieceReader(req, this.#now());
    this.watch(pieces);
    try {
      let received = 0;
      for (;;) {
        const piece = await pieces.next();
        if (piece === null) return;
        received += piece.length;
        if (received > limit.bytes) throw tooLarge(limit);
        if (received > exchange.heldBytes && exchange.heldBytes < window) this.hold(exchange, Math.min(window, received * BODY_GROWTH) - exchange.heldBytes);
        yield piece;
      }
    } finally {
      this.unwatch(pieces);
      pieces.stop();
    }
  }

  watch(body: Receiving): void {
    body.place = this.#underWay.push(body) - 1;
  }

  /** Nothing when it is not watched. */
  unwatch(body: Receiving): void {
    if (this.#underWay[body.place] !== body) return;
    const last = this.#underWay.pop()!;
    if (last === body) return;
    this.#underWay[body.place] = last;
    last.place = body.place;
  }

  get nowMs(): number {
    return this.#now();
  }

  #checkRates(): void {
    const now = this.#now();
    const least = (BODY_WINDOW_BYTES * this.#windowMs) / BODY_WINDOW_MS;
    const share = this.#windowMs / BODY_TIME_MS;
    // From the end: one that goes leaves its place to one that was looked at already.
    for (let at = this.#underWay.length - 1; at >= 0; at--) {
      const body = this.#underWay[at]!;
      if (body.waiting && now - body.windowStartMs < this.#windowMs) continue;
      if (body.waiting && body.windowBytes < Math.max(least, body.expectedBytes * share)) {
        this.unwatch(body);
        body.fail(new FirnError('BODY_TOO_SLOW'));
        continue;
      }
      body.windowStartMs = now;
      body.windowBytes = 0;
    }
  }
}

function sayContinue(req: IncomingMessage, res: ServerResponse): void {
  if (req.headers.expect !== undefined) res.writeContinue();
}

class WholeBody implements Receiving, BodyTaker {
  place = -1;
  windowBytes = 0;
  windowStartMs: number;
  readonly waiting = true;
  #received = 0;
  #first: Buffer | null = null;
  /** Declared bodies of more than one chunk are filled in place, which grows with them; chunked ones are joined at the end. */
  #filled: Buffer | null = null;
  #chunks: Buffer[] | null = null;

  constructor(
    readonly bodies: Bodies,
    readonly exchange: Exchange,
    readonly limit: BodyLimit,
    readonly declared: number | null,
    readonly resolve: (body: Buffer) => void,
    readonly reject: (error: FirnError) => void,
  ) {
    this.windowStartMs = bodies.nowMs;
  }

  get expectedBytes(): number {
    return this.declared ?? 0;
  }

  start(): void {
    this.bodies.watch(this);
    this.exchange.req.giveBody(this);
  }

  take(chunk: Buffer): void {
    this.windowBytes += chunk.length;
    this.#received += chunk.length;
    if (this.declared !== null && this.#received === chunk.length) {
      this.#first = chunk;
      return;
    }
    try {
      if (this.declared === null) this.#join(chunk);
      else this.#fill(chunk, this.declared);
    } catch (error) {
      this.fail(error as FirnError);
    }
  }

  #join(chunk: Buffer): void {
    if (this.#received > this.limit.bytes) throw tooLarge(this.limit);
    this.bodies.hold(this.exchange, chunk.length);
    (this.#chunks ??= []).push(chunk);
  }

  #fill(chunk: Buffer, declared: number): void {
    const before = this.#received - chunk.length;
    const known = this.#filled ?? this.#first!;
    if (this.#filled === null || this.#filled.length < this.#received) {
      // What is held is the size of the buffer, from the second chunk on.
      const bytes = Math.min(declared, Math.max(this.#received, this.exchange.heldBytes) * BODY_GROWTH);
      this.bodies.hold(this.exchange, bytes - this.exchange.heldBytes);
      // Not from the pool: the log keeps it, and watchers are handed the very same bytes.
      this.#filled = Buffer.allocUnsafeSlow(bytes);
      known.copy(this.#filled, 0, 0, before);
      this.#first = null;
    }
    chunk.copy(this.#filled, before);
  }

  finish(): void {
    this.bodies.unwatch(this);
    if (this.declared === null) this.resolve(this.#chunks === null ? NOTHING : this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks, this.#received));
    else if (this.#received !== this.declared) this.reject(new FirnError('BODY_UNREADABLE', { detail: 'the body is shorter than its declared length' }));
    else this.resolve(this.#filled ?? this.#first ?? NOTHING);
  }

  broken(): void {
    this.fail(new FirnError('BODY_UNREADABLE', { detail: 'the body ended before its end' }));
  }

  fail(error: FirnError): void {
    this.bodies.unwatch(this);
    this.exchange.req.leaveBody();
    this.reject(error);
  }
}

function ignore(): void {}

/** Takes a request apart piece by piece without ending its connection when the reader leaves. */
class PieceReader implements Receiving {
  place = -1;
  windowBytes = 0;
  waiting = false;
  /** A snapshot may be large and its line slow: it streams, and holds little. */
  readonly expectedBytes = 0;
  #wake: (() => void) | null = null;
  #error: FirnError | null = null;
  #ended = false;
  readonly #onReadable = (): void => this.#wakeUp();
  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#wakeUp();
  };
  readonly #onBroken = (): void => this.fail(new FirnError('BODY_UNREADABLE', { detail: 'the body ended before its end' }));

  constructor(readonly req: IncomingMessage, public windowStartMs: number) {
    req.on('readable', this.#onReadable);
    req.on('end', this.#onEnd);
    req.on('error', this.#onBroken);
    req.on('close', this.#onBroken);
  }

  /** null: the body is complete. */
  async next(): Promise<Buffer | null> {
    for (;;) {
      if (this.#error !== null) throw this.#error;
      const piece = this.req.read() as Buffer | null;
      if (piece !== null) {
        this.windowBytes += piece.length;
        return piece;
      }
      if (this.#ended) return null;
      this.waiting = true;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.waiting = false;
    }
  }

  fail(error: FirnError): void {
    if (!this.#ended) this.#error ??= error;
    this.#wakeUp();
  }

  stop(): void {
    this.req.off('readable', this.#onReadable);
    this.req.off('end', this.#onEnd);
    this.req.off('error', this.#onBroken);
    this.req.off('close', this.#onBroken);
    this.req.on('error', ignore);
  }

  #wakeUp(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}
