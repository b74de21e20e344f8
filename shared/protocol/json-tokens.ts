/**
 * Strings, numbers and words of JSON, over bytes (RFC 8259 sections 3, 6, 7).
 *
 * Promises: each function looks at `body` from `at` and returns the position after the token, or -1 when there is none. Nothing is
 * decoded: UTF-8 is checked elsewhere, and a lone surrogate escape is as good as any other (JSON-04).
 */

const QUOTE = 34;
const BACKSLASH = 92;

/** Bytes that a string cannot hold as they are: controls, the quote, the backslash. */
const ENDS_RUN = table((byte) => byte < 32 || byte === QUOTE || byte === BACKSLASH);
const SHORT_ESCAPE = table((byte) => '"\\/bfnrt'.includes(String.fromCharCode(byte)));
const HEX = table((byte) => /[0-9a-fA-F]/.test(String.fromCharCode(byte)));

/** A string with its quotes; `at` is the opening one. */
export function endOfString(body: Buffer, at: number): number {
  const length = body.length;
  let i = at + 1;
  while (i < length) {
    const byte = body[i]!;
    if (ENDS_RUN[byte] === 0) {
      i++;
    } else if (byte === QUOTE) {
      return i + 1;
    } else if (byte === BACKSLASH) {
      i = endOfEscape(body, i);
      if (i < 0) return -1;
    } else {
      return -1;
    }
  }
  return -1;
}

/** A number, `true`, `false` or `null`. */
export function endOfBareToken(body: Buffer, at: number): number {
  switch (body[at]) {
    case 116:
      return matches(body, at, 'true') ? at + 4 : -1;
    case 102:
      return matches(body, at, 'false') ? at + 5 : -1;
    case 110:
      return matches(body, at, 'null') ? at + 4 : -1;
    default:
      return endOfNumber(body, at);
  }
}

function endOfNumber(body: Buffer, start: number): number {
  let at = body[start] === 45 ? start + 1 : start;
  if (!digitAt(body, at)) return -1;
  at = body[at] === 48 ? at + 1 : endOfDigits(body, at);
  if (body[at] === 46) {
    if (!digitAt(body, at + 1)) return -1;
    at = endOfDigits(body, at + 1);
  }
  if (at < body.length && (body[at]! | 32) === 101) {
    const sign = body[at + 1];
    at += sign === 43 || sign === 45 ? 2 : 1;
    if (!digitAt(body, at)) return -1;
    at = endOfDigits(body, at);
  }
  return at;
}

function endOfEscape(body: Buffer, at: number): number {
  if (at + 1 >= body.length) return -1;
  const kind = body[at + 1]!;
  if (SHORT_ESCAPE[kind] === 1) return at + 2;
  if (kind !== 117 || at + 6 > body.length) return -1;
  for (let i = at + 2; i < at + 6; i++) {
    if (HEX[body[i]!] === 0) return -1;
  }
  return at + 6;
}

function endOfDigits(body: Buffer, at: number): number {
  while (digitAt(body, at)) at++;
  return at;
}

function digitAt(body: Buffer, at: number): boolean {
  if (at >= body.length) return false;
  const byte = body[at]!;
  return byte >= 48 && byte <= 57;
}

function matches(body: Buffer, at: number, word: string): boolean {
  if (at + word.length > body.length) return false;
  for (let i = 0; i < word.length; i++) {
    if (body[at + i] !== word.charCodeAt(i)) return false;
  }
  return true;
}

function table(holds: (byte: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (holds(byte) ? 1 : 0));
}
