/**
 * From stored NDJSON to the one JSON array of the base surface (READ-15, JSON-19, architecture section 1).
 *
 * Promises: the array is the stored bytes with `[` in front, a comma for each LF between two messages and `]` for the last LF, so its
 * length is known before the bytes are; the buffers given are not changed.
 */

/** Messages up to this length are looked at byte by byte: cheaper than a call. */
const SHORT_MESSAGE_BYTES = 32;
const LF = 10;
const OPEN = 91;
const CLOSE = 93;
const COMMA = 44;

/** Bytes of the array made of so many bytes of whole NDJSON lines. */
export function arrayLength(ndjsonBytes: number): number {
  return ndjsonBytes === 0 ? 2 : ndjsonBytes + 1;
}

/** Writes the array of whole messages into `out` from `at`; returns the position after it. */
export function writeArray(out: Buffer, at: number, ndjson: Buffer): number {
  let end = at;
  out[end++] = OPEN;
  const first = end;
  end += ndjson.copy(out, end);
  if (end === first) {
    out[end++] = CLOSE;
    return end;
  }
  if (out[end - 1] !== LF) throw new Error('an array is made of whole messages');
  commas(out, first, end - 1);
  out[end - 1] = CLOSE;
  return end;
}

/**
 * The same, piece by piece, for `ndjsonBytes` bytes of whole messages: gives exactly `arrayLength(ndjsonBytes)` bytes. Throws when the
 * pieces do not add up or do not end a message; what was given by then is no complete array.
 */
export async function* arrayPieces(pieces: AsyncIterable<Buffer>, ndjsonBytes: number): AsyncGenerator<Buffer, void, undefined> {
  let taken = 0;
  for await (const piece of pieces) {
    if (piece.length === 0) continue;
    const room = taken === 0 ? 1 : 0;
    const out = Buffer.allocUnsafe(piece.length + room);
    if (room === 1) out[0] = OPEN;
    piece.copy(out, room);
    taken += piece.length;
    commas(out, room, out.length);
    if (taken > ndjsonBytes) throw new Error(`more than ${ndjsonBytes} bytes of messages`);
    if (taken === ndjsonBytes) {
      if (piece[piece.length - 1] !== LF) throw new Error('an array is made of whole messages');
      out[out.length - 1] = CLOSE;
    }
    yield out;
  }
  if (taken !== ndjsonBytes) throw new Error(`${taken} bytes of messages, not ${ndjsonBytes}`);
  if (taken === 0) yield Buffer.from('[]');
}

/** Puts a comma for each LF in [from, to). */
function commas(out: Buffer, from: number, to: number): void {
  for (let at = from; at < to; at++) {
    const near = Math.min(at + SHORT_MESSAGE_BYTES, to);
    while (at < near && out[at] !== LF) at++;
    if (at === near) at = out.indexOf(LF, near);
    if (at < 0 || at >= to) return;
    out[at] = COMMA;
  }
}
