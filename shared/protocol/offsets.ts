/**
 * The text form of offsets (requirements section 12).
 *
 * Owns: writing and reading them. Promises: what is written has 20 digits, so it sorts bytewise (OFF-01, OFF-16); what is read is
 * an `Offset` or a 400. Positions above 2^53-1 but within 64 bits are valid text; they become 2^53-1, which lies beyond any tail.
 */
import { FirnError, type ErrorCode } from './errors.js';
import { decodeEscapes } from './percent.js';
import type { Dialect, Offset } from './types.js';

/** Digits of an offset in every answer. */
const OFFSET_DIGITS = 20;
const POSITION_MAX = 2n ** 64n - 1n;
/** Decimal numbers of so many digits are exact in a double. */
const EXACT_DIGITS = 15;
/** Digits of each half of the form `16_16` (OFF-16). */
const HALF_DIGITS = 16;
const ZERO_CODE = 48;

/** 20 zero-padded decimal digits. */
export function formatOffset(offset: Offset): string {
  return String(offset).padStart(OFFSET_DIGITS, '0');
}

/** Reads `offset=`: `-1`, `now`, or a position in plain digits; on the base surface also `16_16` with a zero left half. Throws INVALID_OFFSET. */
export function parseQueryOffset(text: string, dialect: Dialect = 'bucketed'): Offset | 'start' | 'now' {
  if (text === '-1') return 'start';
  if (text === 'now') return 'now';
  return parsePosition(text, dialect);
}

/** Reads a position without sentinels, e.g. from a header. Throws INVALID_OFFSET (OFF-18). */
export function parsePosition(text: string, dialect: Dialect = 'bucketed'): Offset {
  const digits = dialect === 'base' ? rightHalf(text) : text;
  return position(digits, 'INVALID_OFFSET');
}

/** Reads the offset in a snapshot or retention path. `raw`: the segment as in the request, decoded here (OFF-15). Throws INVALID_OFFSET. */
export function parsePathOffset(raw: string): Offset {
  return position(decodeEscapes(raw, 'INVALID_OFFSET'), 'INVALID_OFFSET');
}

/** Reads the offset in an incarnation path: exactly 20 digits (CINC-05). `raw` as for `parsePathOffset`. Throws INVALID_RESOURCE. */
export function parseExactOffset(raw: string): Offset {
  const text = decodeEscapes(raw, 'INVALID_RESOURCE');
  if (text.length !== OFFSET_DIGITS) throw badPosition('INVALID_RESOURCE');
  return position(text, 'INVALID_RESOURCE');
}

function rightHalf(text: string): string {
  if (text.length !== 2 * HALF_DIGITS + 1 || text.charCodeAt(HALF_DIGITS) !== 95) return text;
  for (let i = 0; i < HALF_DIGITS; i++) {
    if (text.charCodeAt(i) !== ZERO_CODE) return text;
  }
  return text.slice(HALF_DIGITS + 1);
}

function position(text: string, code: ErrorCode): Offset {
  if (text.length === 0) throw badPosition(code);
  let value = 0;
  let significant = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - ZERO_CODE;
    if (digit < 0 || digit > 9) throw badPosition(code);
    if (significant > 0 || digit > 0) significant++;
    value = value * 10 + digit;
  }
  return (significant <= EXACT_DIGITS ? value : longPosition(text, significant, code)) as Offset;
}

function longPosition(text: string, significant: number, code: ErrorCode): number {
  const exact = significant > OFFSET_DIGITS ? null : BigInt(text.slice(text.length - significant));
  if (exact === null || exact > POSITION_MAX) throw badPosition(code);
  return exact > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(exact);
}

function badPosition(code: ErrorCode): FirnError {
  const form = code === 'INVALID_RESOURCE' ? 'exactly 20 decimal digits' : 'plain decimal digits up to 64 bits';
  return new FirnError(code, { detail: `an offset here is ${form}` });
}
