import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatExpiresAt, parseExpiresAt, parseTtl, ttlMs } from './ttl.js';

const refusedHeader = expect.objectContaining({ code: 'INVALID_HEADER', status: 400 });

describe('ttl', () => {
  it.each(['+3600', '03600', '3600.0', '3.6e3', '-1', 'abc', '', '00', ' 1', '1 ', '0x10', '٣', '9'.repeat(1025)])(
    'TTL-01 refuses %j', (text) => expect(() => parseTtl(text)).toThrow(refusedHeader));

  it.each(['0', '1', '3600', '9'.repeat(20), '9'.repeat(400)])('TTL-01 TTL-11 keeps %j', (text) => expect(parseTtl(text)).toBe(text));

  it('ERR-03 says that zeros lead', () => expect(() => parseTtl('03600')).toThrow(/leading zeros/));

  it('TTL-02 TTL-11 milliseconds, and never for huge values', () => {
    expect(ttlMs('0')).toBe(0);
    expect(ttlMs('3600')).toBe(3_600_000);
    expect(ttlMs('9'.repeat(20))).toBe(Infinity);
    expect(ttlMs('9'.repeat(400))).toBe(Infinity);
    expect(Number.isSafeInteger(Date.UTC(2200, 0) + ttlMs('4503599627370'))).toBe(true);
  });

  it.each([
    ['2030-01-02T03:04:05Z', Date.UTC(2030, 0, 2, 3, 4, 5)],
    ['2030-01-02t03:04:05z', Date.UTC(2030, 0, 2, 3, 4, 5)],
    ['2030-01-02T03:04:05+00:00', Date.UTC(2030, 0, 2, 3, 4, 5)],
    ['2030-01-02T03:04:05-00:00', Date.UTC(2030, 0, 2, 3, 4, 5)],
    ['2030-01-02T05:04:05+02:00', Date.UTC(2030, 0, 2, 3, 4, 5)],
    ['2030-01-01T22:34:05-04:30', Date.UTC(2030, 0, 2, 3, 4, 5)],
    ['2030-01-02T03:04:05.1Z', Date.UTC(2030, 0, 2, 3, 4, 5, 100)],
    ['2030-01-02T03:04:05.123999999Z', Date.UTC(2030, 0, 2, 3, 4, 5, 123)],
    ['2028-02-29T00:00:00Z', Date.UTC(2028, 1, 29)],
    ['2016-12-31T23:59:60Z', Date.UTC(2017, 0, 1)],
    ['1969-12-31T23:59:59Z', 0],
    ['0001-01-01T00:00:00Z', 0],
    ['9999-12-31T23:59:59-23:59', 253_402_300_799_999],
  ])('TTL-05 TTL-12 reads %s', (text, ms) => expect(parseExpiresAt(text)).toBe(ms));

  it.each(['not-a-timestamp', '', '2030-01-02', '2030-01-02T03:04Z', '2030-01-02T03:04:05', '2030-01-02 03:04:05Z', '2030-02-29T00:00:00Z', '2100-02-29T00:00:00Z',
    '2030-04-31T00:00:00Z', '2030-13-01T00:00:00Z', '2030-00-01T00:00:00Z', '2030-01-00T00:00:00Z', '2030-01-02T24:00:00Z', '2030-01-02T03:60:00Z',
    '2030-01-02T03:04:61Z', '2030-01-02T03:04:05.Z', '2030-01-02T03:04:05+24:00', '2030-01-02T03:04:05+00:60', '2030-01-02T03:04:05+0000', '2030-01-02T03:04:05+02',
    '02030-01-02T03:04:05Z', '+2030-01-02T03:04:05Z', '2030-1-2T03:04:05Z', 'Wed, 02 Jan 2030 03:04:05 GMT', '1900000000'])(
    'TTL-05 refuses %j', (text) => expect(() => parseExpiresAt(text)).toThrow(refusedHeader));

  it('HD-13 an instant comes back as the same instant', () => {
    const year10000 = 253_402_300_799_999;
    fc.assert(fc.property(fc.integer({ min: 0, max: year10000 }), (ms) => {
      expect(formatExpiresAt(ms)).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(parseExpiresAt(formatExpiresAt(ms))).toBe(ms);
    }));
  });
});
