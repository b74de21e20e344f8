/**
 * What caches may do with an answer (requirements section 16, CINC-06).
 *
 * Promises: a cache never outlives the stream (CACHE-13); an answer that was asked for with a precondition is never reused without it
 * (CACHE-18); only what cannot change is called immutable.
 */
import { ttlMs } from '../../../shared/protocol/ttl.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';

const FRESH_S = 60;
const STALE_S = 300;
const SHARED_FRESH = `public, max-age=${FRESH_S}, stale-while-revalidate=${STALE_S}`;

/** A range that can never change. */
export const IMMUTABLE = 'public, max-age=31536000, immutable';

/** `Cache-Control` of a catch-up answer. `withToken`: the request carried `Stream-Incarnation`; `withCredentials`: `Authorization`. */
export function readCacheControl(record: StreamRecord, nowMs: number, withToken: boolean, withCredentials: boolean): string {
  if (withToken) return 'private, no-cache';
  const leftS = record.ttl === null && record.expiresAtMs === null ? Infinity : secondsLeft(record, nowMs);
  if (leftS >= FRESH_S + STALE_S && !withCredentials) return SHARED_FRESH;
  const scope = withCredentials ? 'private' : 'public';
  const stale = leftS >= FRESH_S + STALE_S ? `, stale-while-revalidate=${STALE_S}` : '';
  return `${scope}, max-age=${Math.min(FRESH_S, leftS)}${stale}`;
}

/** Whole seconds until the stream may end when nobody uses it any more. */
function secondsLeft(record: StreamRecord, nowMs: number): number {
  const slidingEnd = record.ttl === null ? Infinity : record.touchedAtMs + ttlMs(record.ttl);
  const endMs = Math.min(slidingEnd, record.expiresAtMs ?? Infinity);
  return Math.max(0, Math.floor((endMs - nowMs) / 1000));
}
