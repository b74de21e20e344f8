/**
 * Events of a live read over SSE (requirements sections 9 and 10).
 *
 * Owns: their bytes. Promises: a standard parser gets the payload back, exactly for UTF-8 without CR (SSE-23); CR and CRLF arrive as LF
 * and invalid UTF-8 as U+FFFD (SSE-24); no payload can forge a field or an event (SSE-18); a buffer given in is not changed and one
 * given out may go to any number of sockets.
 */
import { isUtf8 } from 'node:buffer';
import { errorBody, type FirnError } from './errors.js';
import { arrayLength, writeArray } from './ndjson-array.js';
import { formatOffset } from './offsets.js';
import type { Offset } from './types.js';

export { wholeCharacters } from './utf8.js';

export interface Control {
  readonly nextOffset: Offset;
  /** null at the tail of a closed stream (SSE-07). */
  readonly cursor: string | null;
  readonly upToDate: boolean;
  readonly closed: boolean;
}

const LF = 10;
const CR = 13;
const SPACE = 32;
/** Lines up to this length are looked at byte by byte: cheaper than a call. */
const SHORT_LINE_BYTES = 32;
const DATA_HEAD = Buffer.from('event: data\n');
const FIELD = Buffer.from('data:');
const EVENT_END = Buffer.from('\n\n');
const COMMENT = Buffer.from(':\n\n');

/** A text payload; also JSON as NDJSON on the bucketed surface, where an event may end inside a message (SSE-15, SSE-16). */
export function dataEventText(payload: Buffer): Buffer {
  const text = withLineFeeds(isUtf8(payload) ? payload : Buffer.from(payload.toString('utf8')));
  const out = Buffer.allocUnsafe(textEventBytes(text));
  let at = DATA_HEAD.copy(out);
  for (let lineAt = 0; lineAt <= text.length; ) {
    const end = endOfLine(text, lineAt);
    // Bytes by hand: a call a line is what a text of line breaks would pay for.
    for (let i = 0; i < FIELD.length; i++) out[at++] = FIELD[i]!;
    // A parser takes one space away after the colon.
    if (text[lineAt] === SPACE) out[at++] = SPACE;
    if (end - lineAt > SHORT_LINE_BYTES) at += text.copy(out, at, lineAt, end);
    else for (let i = lineAt; i < end; i++) out[at++] = text[i]!;
    out[at++] = LF;
    lineAt = end + 1;
  }
  out[at++] = LF;
  if (at !== out.length) throw new Error(`an event of ${out.length} bytes took ${at}`);
  return out;
}

/** A payload as standard base64 in one line (BIN-03 .. BIN-05). */
export function dataEventBase64(payload: Buffer): Buffer {
  const encoded = payload.toString('base64');
  return lineEvent(encoded.length, (out, at) => at + out.write(encoded, at, 'latin1'));
}

/** Whole messages as one JSON array (base surface, SSE-17). */
export function dataEventJsonArray(ndjson: Buffer): Buffer {
  return lineEvent(arrayLength(ndjson.length), (out, at) => writeArray(out, at, ndjson));
}

/** Position and state after the data so far; members in the order of Ursula (SSE-05 .. SSE-09). */
export function controlEvent({ nextOffset, cursor, upToDate, closed }: Control): Buffer {
  const position = `"streamNextOffset":"${formatOffset(nextOffset)}"`;
  const cache = cursor === null ? '' : `,"streamCursor":"${cursor}"`;
  const flags = `${upToDate ? ',"upToDate":true' : ''}${closed ? ',"streamClosed":true' : ''}`;
  return Buffer.from(`event: control\ndata:{${position}${cache}${flags}}\n\n`, 'latin1');
}

/** The last event of a read that failed (SSE-19). */
export function errorEvent(error: FirnError): Buffer {
  return Buffer.concat([Buffer.from('event: error\ndata:'), errorBody(error), EVENT_END]);
}

/** Says nothing; keeps an idle connection in use. */
export function commentLine(): Buffer {
  return COMMENT;
}

function lineEvent(bytes: number, write: (out: Buffer, at: number) => number): Buffer {
  const out = Buffer.allocUnsafe(DATA_HEAD.length + FIELD.length + bytes + EVENT_END.length);
  let at = DATA_HEAD.copy(out);
  at += FIELD.copy(out, at);
  at = write(out, at);
  EVENT_END.copy(out, at);
  return out;
}

function textEventBytes(text: Buffer): number {
  let bytes = DATA_HEAD.length + text.length + 1;
  for (let lineAt = 0; lineAt <= text.length; lineAt = endOfLine(text, lineAt) + 1) {
    // Of the line breaks, the last line's is not among the bytes of the text.
    bytes += FIELD.length + (text[lineAt] === SPACE ? 1 : 0);
  }
  return bytes + 1;
}

function endOfLine(text: Buffer, from: number): number {
  const near = Math.min(from + SHORT_LINE_BYTES, text.length);
  for (let i = from; i < near; i++) if (text[i] === LF) return i;
  const end = text.indexOf(LF, near);
  return end < 0 ? text.length : end;
}

/** A parser ends a line at CR, LF and CRLF alike, so each becomes LF. */
function withLineFeeds(text: Buffer): Buffer {
  const first = text.indexOf(CR);
  if (first < 0) return text;
  const out = Buffer.allocUnsafe(text.length);
  let at = text.copy(out, 0, 0, first);
  for (let i = first; i < text.length; i++) {
    const byte = text[i]!;
    if (byte !== CR) {
      out[at++] = byte;
    } else {
      out[at++] = LF;
      if (text[i + 1] === LF) i++;
    }
  }
  return out.subarray(0, at);
}
