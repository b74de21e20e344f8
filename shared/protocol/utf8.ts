/**
 * Where a run of UTF-8 may be cut (SSE-21).
 *
 * Promises: only bytes that can still become a character are held back, at most three; invalid bytes never are, so a reader always
 * gets on.
 */

/** First byte from which on a character has two, three and four bytes. */
const TWO_BYTES = 0xc2;
const THREE_BYTES = 0xe0;
const FOUR_BYTES = 0xf0;
const LEAD_MAX = 0xf4;

/**
 * Count of leading bytes that end at a character's end. `atEnd`: nothing will ever follow, so nothing is held back.
 */
export function wholeCharacters(bytes: Uint8Array, atEnd: boolean): number {
  if (atEnd) return bytes.length;
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const leadAt = bytes.length - back;
    const lead = bytes[leadAt]!;
    if (isContinuation(lead)) continue;
    return charBytes(lead) > back && startsCharacter(bytes, leadAt) ? leadAt : bytes.length;
  }
  return bytes.length;
}

/** 1 for a byte that begins no longer character. */
function charBytes(lead: number): number {
  if (lead < TWO_BYTES || lead > LEAD_MAX) return 1;
  if (lead < THREE_BYTES) return 2;
  return lead < FOUR_BYTES ? 3 : 4;
}

/** Whether the second byte, if there is one, can follow the first: no overlong form, no surrogate, nothing above U+10FFFF. */
function startsCharacter(bytes: Uint8Array, leadAt: number): boolean {
  if (leadAt + 1 >= bytes.length) return true;
  const second = bytes[leadAt + 1]!;
  switch (bytes[leadAt]) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}
