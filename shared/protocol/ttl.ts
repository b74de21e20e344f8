/**
 * `Stream-TTL` and `Stream-Expires-At` (requirements section 15).
 *
 * Promises: a TTL is kept as its digits, so any valid one comes back as it was sent (TTL-11); an expiry is an instant in ms, so two
 * spellings of one instant are equal (TTL-12).
 */
import { FirnError } from './errors.js';

/** Digits of a TTL; it is stored with the stream. */
const TTL_DIGITS_MAX = 1024;
/** Longer times never end; so many ms after any date of this era is still an exact integer. */
const TTL_MS_MAX = 2 ** 52;
/** 9999-12-31T23:59:59.999Z, the last instant that RFC 3339 can write in UTC. */
const EXPIRES_AT_MS_MAX = 253_402_300_799_999;

const TTL = /^(?:0|[1-9][0-9]*)$/;
const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** Checks a `Stream-TTL` value (seconds) and returns its digits. Throws INVALID_HEADER (TTL-01). */
export function parseTtl(text: string): string {
  if (TTL.test(text) && text.length <= TTL_DIGITS_MAX) return text;
  throw badHeader(ttlFault(text));
}

/** Milliseconds of a checked TTL; Infinity: never. */
export function ttlMs(ttl: string): number {
  const ms = Number(ttl) * 1000;
  return ms <= TTL_MS_MAX ? ms : Infinity;
}

/**
 * Checks a `Stream-Expires-At` value, an RFC 3339 date and time, and returns ms since 1970, fractions of a ms cut off. Instants before
 * 1970 become 0: just as long past. Throws INVALID_HEADER (TTL-05).
 */
export function parseExpiresAt(text: string): number {
  const match = RFC_3339.exec(text);
  if (match === null) throw badHeader('stream-expires-at must be an RFC 3339 date and time');
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [number, number, number, number, number, number];
  const offsetHour = Number(match[9] ?? 0);
  const offsetMinute = Number(match[10] ?? 0);
  // A minute may have a 61st second (RFC 3339 5.7).
  const clockOk = hour < 24 && minute < 60 && second <= 60 && offsetHour < 24 && offsetMinute < 60;
  if (!clockOk || month < 1 || month > 12 || day < 1 || day > daysOf(year, month)) {
    throw badHeader('stream-expires-at names a date or time that does not exist');
  }
  const ms = Number((match[7] ?? '').slice(0, 3).padEnd(3, '0'));
  // Not Date.UTC, which takes the years 0 to 99 for 1900 to 1999.
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second, ms);
  const ahead = (offsetHour * 60 + offsetMinute) * 60_000 * (match[8] === '-' ? -1 : 1);
  return Math.min(Math.max(date.getTime() - ahead, 0), EXPIRES_AT_MS_MAX);
}

/** UTC with milliseconds and `Z` (HD-13). */
export function formatExpiresAt(ms: number): string {
  return new Date(ms).toISOString();
}

function daysOf(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

function ttlFault(text: string): string {
  if (text.length > TTL_DIGITS_MAX) return `stream-ttl has at most ${TTL_DIGITS_MAX} digits`;
  if (/^0[0-9]+$/.test(text)) return 'stream-ttl must not have leading zeros';
  return 'stream-ttl must be a number of seconds in plain decimal digits';
}

function badHeader(detail: string): FirnError {
  return new FirnError('INVALID_HEADER', { detail });
}
