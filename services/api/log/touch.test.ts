import { describe, expect, it } from 'vitest';
import type { StreamKey } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { Slot } from './slot.js';
import { TouchKeeper } from './touch.js';

function stream(over: Partial<StreamRecord>): StreamRecord {
  return { ttl: null, expiresAtMs: null, touchedAtMs: 0, ...over } as StreamRecord;
}

function slot(): Slot {
  return new Slot('demo/ttl' as StreamKey, 1, 0);
}

describe('sliding expiry', () => {
  it('TTL-02 ends a stream exactly when its seconds have passed without a use', () => {
    let now = 10_000;
    const touch = new TouchKeeper(() => now);
    const at = slot();
    const record = stream({ ttl: '2', touchedAtMs: 10_000 });
    at.touchedAtMs = touch.afterLoad(record);
    now = 11_999;
    expect(touch.expired(at, record)).toBe(false);
    now = 12_000;
    expect(touch.expired(at, record)).toBe(true);
  });

  it('TTL-03 renews in memory at once and asks for a write after a quarter of the TTL', () => {
    let now = 0;
    const touch = new TouchKeeper(() => now);
    const at = slot();
    const record = stream({ ttl: '100', touchedAtMs: 0 });
    now = 24_999;
    expect(touch.renew(at, record)).toBe(false);
    expect(touch.endsAtMs(at, record)).toBe(124_999);
    now = 25_000;
    expect(touch.renew(at, record)).toBe(true);
  });

  it('R147 after a restart a stream gets the renewals that only memory knew, never more than the restart', () => {
    const touch = new TouchKeeper(() => 1_000_000);
    expect(touch.afterLoad(stream({ ttl: '100', touchedAtMs: 950_000 }))).toBe(975_000);
    expect(touch.afterLoad(stream({ ttl: '1000', touchedAtMs: 990_000 }))).toBe(1_000_000);
  });

  it('TTL-06 an absolute end does not move; TTL-10 a live reader holds a sliding one', () => {
    const touch = new TouchKeeper(() => 0);
    const at = slot();
    at.liveReaders = 1;
    expect(touch.endsAtMs(at, stream({ expiresAtMs: 5 }))).toBe(5);
    expect(touch.endsAtMs(at, stream({ ttl: '1' }))).toBe(Infinity);
  });

  it('TTL-11 a huge TTL never ends, zero ends at once', () => {
    const touch = new TouchKeeper(() => 0);
    expect(touch.expired(slot(), stream({ ttl: '9'.repeat(20) }))).toBe(false);
    expect(touch.expired(slot(), stream({ ttl: '0' }))).toBe(true);
  });
});
