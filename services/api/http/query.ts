/**
 * The query of a read (requirements sections 7, 8, 12, 22, 23).
 *
 * Owns: splitting and checking it. Promises: what it returns is within its limits; bad syntax is a 400; unknown parameters count for
 * nothing (READ-24); no parameter that is not known is even decoded.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { parseQueryOffset } from '../../../shared/protocol/offsets.js';
import type { Dialect, Offset } from '../../../shared/protocol/types.js';
import { READ_BYTES_MAX } from '../log/types.js';

/** Wait of a long-poll, ms (LP-08, LP-11). */
export const LONG_POLL_DEFAULT_MS = 1_000;
export const LONG_POLL_MAX_MS = 60_000;

export interface ReadQuery {
  /** null: no parameter, the same as `start` (READ-02). */
  readonly offset: Offset | 'start' | 'now' | null;
  readonly live: 'long-poll' | 'sse' | null;
  /** 1 .. READ_BYTES_MAX. */
  readonly maxBytes: number;
  /** 1 .. LONG_POLL_MAX_MS. */
  readonly timeoutMs: number;
  /** Decimal digits as sent, null: none that counts (CACHE-14). */
  readonly cursor: string | null;
}

const PLAIN_READ: ReadQuery = { offset: null, live: null, maxBytes: READ_BYTES_MAX, timeoutMs: LONG_POLL_DEFAULT_MS, cursor: null };

/** Stands for text with a broken escape: no name, no value. */
const BROKEN = '\0';

const NAMES = ['offset', 'live', 'max_bytes', 'timeout_ms', 'cursor', 'consistency'] as const;
type Name = (typeof NAMES)[number];
type Values = Partial<Record<Name, string>>;

const DIGITS = /^[0-9]+$/;
const LEADING_ZEROS = /^0+(?=[0-9])/;
const UINT64_MAX = 2n ** 64n - 1n;
/** Decimal numbers of so many digits are exact in a double. */
const EXACT_DIGITS = 15;
/** Digits of a 64-bit number, with room for leading zeros. */
const CURSOR_DIGITS_MAX = 40;

/** Reads the text after `?`; null: there is none. Throws INVALID_QUERY, INVALID_OFFSET. */
export function parseReadQuery(query: string | null, dialect: Dialect): ReadQuery {
  if (query === null || query.length === 0) return PLAIN_READ;
  const repeated = new Set<Name>();
  const values = split(query, repeated);
  if (repeated.has('offset')) throw badQuery('offset is given more than once');
  if (repeated.has('live')) throw badQuery('live is given more than once');
  if (repeated.has('consistency')) throw badQuery('consistency is given more than once');
  const live = liveOf(values.live);
  checkConsistency(values.consistency, live);
  const offset = values.offset === undefined ? null : parseQueryOffset(values.offset, dialect);
  if (live !== null && offset === null) throw badQuery(`live=${live} needs an offset`);
  return {
    offset,
    live,
    maxBytes: repeated.has('max_bytes') ? READ_BYTES_MAX : clamped(values.max_bytes, READ_BYTES_MAX, READ_BYTES_MAX, false),
    timeoutMs: repeated.has('timeout_ms') ? LONG_POLL_DEFAULT_MS : clamped(values.timeout_ms, LONG_POLL_DEFAULT_MS, LONG_POLL_MAX_MS, true),
    cursor: repeated.has('cursor') ? null : cursorOf(values.cursor),
  };
}

/** Whether the query names a parameter at all, whatever its value (BOOT-02). */
export function namesParameter(query: string | null, name: string): boolean {
  if (query === null) return false;
  return query.split('&').some((pair) => {
    const equals = pair.indexOf('=');
    const raw = equals < 0 ? pair : pair.slice(0, equals);
    return decoded(raw) === name;
  });
}

function split(query: string, repeated: Set<Name>): Values {
  const values: Values = {};
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=');
    const rawName = equals < 0 ? pair : pair.slice(0, equals);
    const name = decoded(rawName);
    if (!isKnown(name)) continue;
    if (values[name] !== undefined) repeated.add(name);
    else values[name] = equals < 0 ? '' : decoded(pair.slice(equals + 1));
  }
  return values;
}

function isKnown(name: string): name is Name {
  return (NAMES as readonly string[]).includes(name);
}

/** A name or value that cannot be decoded is none that anything here takes. */
function decoded(raw: string): string {
  if (!raw.includes('%') && !raw.includes('+')) return raw;
  try {
    return decodeURIComponent(raw.replaceAll('+', ' '));
  } catch {
    return BROKEN;
  }
}

function liveOf(text: string | undefined): ReadQuery['live'] {
  if (text === undefined) return null;
  if (text === 'long-poll' || text === 'sse') return text;
  throw badQuery('live is "long-poll" or "sse"');
}

function checkConsistency(text: string | undefined, live: ReadQuery['live']): void {
  if (text === undefined || text === 'local') return;
  if (text !== 'leader') throw badQuery('consistency is "local" or "leader"');
  if (live !== null) throw badQuery('consistency=leader does not go with live');
}

/** A decimal integer within 1 .. max; anything else is as if absent (SIZE-05, SIZE-11, LP-10, LP-16). */
function clamped(given: string | undefined, fallback: number, max: number, within64Bits: boolean): number {
  if (given === undefined || !DIGITS.test(given)) return fallback;
  const text = given.replace(LEADING_ZEROS, '');
  if (text.length <= EXACT_DIGITS) return Math.min(Math.max(Number(text), 1), max);
  return within64Bits && BigInt(text) > UINT64_MAX ? fallback : max;
}

function cursorOf(text: string | undefined): string | null {
  if (text === undefined || !DIGITS.test(text) || text.length > CURSOR_DIGITS_MAX) return null;
  return BigInt(text) > UINT64_MAX ? null : text;
}

function badQuery(detail: string): FirnError {
  return new FirnError('INVALID_QUERY', { detail });
}
