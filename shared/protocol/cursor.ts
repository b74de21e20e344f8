/**
 * Cursors of live reads: numbers of 20-second intervals (CACHE-08 .. CACHE-11, CACHE-14, LP-05).
 *
 * Promises: a cursor is not below the interval of its moment, is above the one that the request brought, and does not fall within a
 * connection. Cursors are decimal text; values beyond 2^53 stay exact.
 */

const INTERVAL_MS = 20_000;
/** 2024-10-09T00:00:00Z. */
const EPOCH_MS = 1_728_432_000_000;
/** Most seconds by which a cursor is moved ahead of the one it must pass. */
const JITTER_S_MAX = 3_600;
const UINT64_MAX = 2n ** 64n - 1n;
const EXACT_DIGITS = 15;

/** The interval that holds `nowMs`. */
export function intervalAt(nowMs: number): number {
  return Math.max(0, Math.floor((nowMs - EPOCH_MS) / INTERVAL_MS));
}

/**
 * The cursor of an answer. `requested`: the `cursor` parameter, anything but a decimal number of 64 bits counting as absent; `random`
 * gives numbers in [0, 1), as `Math.random`.
 */
export function answerCursor(requested: string | null, nowMs: number, random: () => number): string {
  const interval = intervalAt(nowMs);
  if (requested === null || !/^[0-9]+$/.test(requested)) return String(interval);
  if (requested.length <= EXACT_DIGITS) {
    const cursor = Number(requested);
    return String(cursor < interval ? interval : cursor + jitterIntervals(random));
  }
  const cursor = BigInt(requested);
  if (cursor > UINT64_MAX || cursor < BigInt(interval)) return String(interval);
  return String(cursor + BigInt(jitterIntervals(random)));
}

/** The cursor of a later event on the connection that was last given `last`. */
export function laterCursor(last: string, nowMs: number): string {
  const interval = String(intervalAt(nowMs));
  const higher = last.length === interval.length ? last > interval : last.length > interval.length;
  return higher ? last : interval;
}

/** 1 to 3,600 seconds as whole intervals, at least one. */
function jitterIntervals(random: () => number): number {
  const seconds = 1 + Math.floor(random() * JITTER_S_MAX);
  return Math.ceil((seconds * 1000) / INTERVAL_MS);
}
