/**
 * From a request body to stored JSON messages (requirements section 11, APP-14 .. APP-16, CLO-15).
 *
 * Owns: what is a valid body and what is stored of it. Promises: one pass over the bytes, without building values; a body becomes
 * messages as a whole or is refused as a whole (JSON-06); a stored message is its text minus the white space between tokens, with
 * one LF behind it (JSON-08 .. JSON-14), so that no other LF is ever stored (JSON-21); nesting costs no stack (JSON-17).
 */
import { isUtf8 } from 'node:buffer';
import { FirnError } from './errors.js';
import { endOfBareToken, endOfString } from './json-tokens.js';

/** Depth of a message: a scalar has 0, an empty container 1 (JSON-15). */
export const JSON_DEPTH_MAX = 127;

const TAB = 9;
const LF = 10;
const CR = 13;
const SPACE = 32;
const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;
/** Runs up to this many bytes are copied byte by byte: cheaper than a call. */
const SHORT_RUN_BYTES = 24;

/**
 * Checks `body`, one JSON text, and returns its messages as NDJSON: the elements of an array, else the one value (JSON-07). The result
 * is a buffer of its own; `body` is not changed. Throws INVALID_RECORD_BOUNDARIES for anything but valid JSON of bounded depth, and
 * EMPTY_APPEND for `[]` where that is refused (APP-15, CRE-16).
 */
export function normalizeMessages(body: Buffer, emptyArray: 'allowed' | 'refused'): Buffer {
  if (!isUtf8(body)) throw new FirnError('INVALID_RECORD_BOUNDARIES', { detail: 'the body is not UTF-8' });
  const messages = new Normalizer(body).run();
  if (messages.length === 0 && emptyArray === 'refused') throw new FirnError('EMPTY_APPEND', { detail: 'an empty array holds no message' });
  return messages;
}

/** Closing byte of each open container, by depth. Shared: a run never yields. */
const closers = new Uint8Array(JSON_DEPTH_MAX + 2);

class Normalizer {
  private readonly out: Buffer;
  private outAt = 0;
  private at = 0;
  /** What lies between here and `at` belongs into the output and was not copied yet. */
  private runStart = 0;
  private depth = 0;
  private depthMax = JSON_DEPTH_MAX;
  /** The outermost container is an array, which is taken apart. */
  private flattens = false;

  constructor(private readonly body: Buffer) {
    // Each message gains an LF; in an array that stands where a comma or the bracket was.
    this.out = Buffer.allocUnsafe(body.length + 1);
  }

  run(): Buffer {
    this.skipSpace();
    if (this.byteHere() === OPEN_ARRAY) this.openOuterArray();
    if (this.flattens && this.byteHere() === CLOSE_ARRAY) {
      this.close();
      this.runStart = this.at;
    } else {
      do this.value();
      while (this.goesOn());
    }
    this.skipSpace();
    if (this.at !== this.body.length) throw this.fault();
    if (!this.flattens) this.endMessage();
    return this.outAt === this.out.length ? this.out : this.out.subarray(0, this.outAt);
  }

  private openOuterArray(): void {
    this.flattens = true;
    this.depthMax = JSON_DEPTH_MAX + 1;
    this.open(CLOSE_ARRAY);
    this.runStart = this.at;
    this.skipSpace();
  }

  /** Reads a scalar or an empty container, opening the containers in front of it. */
  private value(): void {
    for (;;) {
      const first = this.byteHere();
      if (first === QUOTE) return this.take(endOfString(this.body, this.at));
      if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return this.take(endOfBareToken(this.body, this.at));
      const closer = first === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_ARRAY;
      this.open(closer);
      this.skipSpace();
      if (this.byteHere() === closer) return this.close();
      if (closer === CLOSE_OBJECT) this.memberName();
    }
  }

  /** After a value: closes the containers that end here and steps over a comma. False: the outermost value is complete. */
  private goesOn(): boolean {
    while (this.depth > 0) {
      this.skipSpace();
      const byte = this.byteHere();
      const closer = closers[this.depth]!;
      if (byte !== COMMA && byte !== closer) throw this.fault();
      if (this.depth === 1 && this.flattens) this.endMessage();
      if (byte === COMMA) {
        this.at++;
        this.skipSpace();
        if (closer === CLOSE_OBJECT) this.memberName();
        return true;
      }
      this.close();
    }
    return false;
  }

  /** A member's name up to its value. */
  private memberName(): void {
    if (this.byteHere() !== QUOTE) throw this.fault();
    this.take(endOfString(this.body, this.at));
    this.skipSpace();
    if (this.byteHere() !== COLON) throw this.fault();
    this.at++;
    this.skipSpace();
  }

  private open(closer: number): void {
    if (this.depth === this.depthMax) {
      throw new FirnError('INVALID_RECORD_BOUNDARIES', { detail: `a message is nested deeper than ${JSON_DEPTH_MAX} levels` });
    }
    closers[++this.depth] = closer;
    this.at++;
  }

  private close(): void {
    this.depth--;
    this.at++;
  }

  private take(end: number): void {
    if (end < 0) throw this.fault();
    this.at = end;
  }

  /** 0, which no valid text holds outside its tokens, at the end. */
  private byteHere(): number {
    return this.at < this.body.length ? this.body[this.at]! : 0;
  }

  private skipSpace(): void {
    if (!isSpace(this.byteHere())) return;
    this.flush();
    do this.at++;
    while (isSpace(this.byteHere()));
    this.runStart = this.at;
  }

  /** Ends a message before the byte at hand, which is not stored. */
  private endMessage(): void {
    this.flush();
    this.out[this.outAt++] = LF;
    this.runStart = this.at + 1;
  }

  private flush(): void {
    const bytes = this.at - this.runStart;
    if (bytes > SHORT_RUN_BYTES) {
      this.body.copy(this.out, this.outAt, this.runStart, this.at);
      this.outAt += bytes;
      return;
    }
    for (let i = this.runStart; i < this.at; i++) this.out[this.outAt++] = this.body[i]!;
  }

  private fault(): FirnError {
    return new FirnError('INVALID_RECORD_BOUNDARIES', { detail: `the body is not one valid JSON text: see byte ${this.at}` });
  }
}

function isSpace(byte: number): boolean {
  return byte === SPACE || byte === LF || byte === CR || byte === TAB;
}
