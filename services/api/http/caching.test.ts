import { describe, expect, it } from 'vitest';
import { ZERO, type Incarnation } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { readCacheControl } from './caching.js';

const NOW_MS = 1_800_000_000_000;
const plain: StreamRecord = {
  incarnation: 2 ** 52 as Incarnation, contentType: 'text/plain', createdAtMs: NOW_MS, tail: ZERO, retained: ZERO, sealed: ZERO, hotStart: ZERO, closed: false, closedBy: null,
  ttl: null, expiresAtMs: null, touchedAtMs: NOW_MS, lastSeq: null, producers: 0, producerFloor: -1, snapshot: null, change: 0, loggedChange: 0, origin: null, forks: 0, softDeleted: false,
};

describe('Cache-Control of reads', () => {
  it('CACHE-01 is a minute, and five more while it is asked for again', () => {
    expect(readCacheControl(plain, NOW_MS, false, false)).toBe('public, max-age=60, stale-while-revalidate=300');
  });

  it('CACHE-13 R065 never outlives the stream', () => {
    const expiring = (seconds: number): string => readCacheControl({ ...plain, expiresAtMs: NOW_MS + seconds * 1000 }, NOW_MS, false, false);
    expect(expiring(10)).toBe('public, max-age=10');
    expect(expiring(100)).toBe('public, max-age=60');
    expect(expiring(3600)).toBe('public, max-age=60, stale-while-revalidate=300');
    expect(expiring(-5)).toBe('public, max-age=0');
    expect(readCacheControl({ ...plain, ttl: '30' }, NOW_MS + 5_000, false, false)).toBe('public, max-age=25');
    expect(readCacheControl({ ...plain, ttl: '9'.repeat(20) }, NOW_MS, false, false)).toBe('public, max-age=60, stale-while-revalidate=300');
  });

  it('CACHE-18 R137 keeps checked and personal answers out of shared caches', () => {
    expect(readCacheControl(plain, NOW_MS, true, false)).toBe('private, no-cache');
    expect(readCacheControl(plain, NOW_MS, false, true)).toBe('private, max-age=60, stale-while-revalidate=300');
  });
});
