import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { COUNTER_LIMIT, PARTITION_LIMIT, SESSION_LIMIT, incarnationSource, issueIncarnation, parseIncarnation, parsePathIncarnation } from './incarnation.js';
import type { Incarnation } from './types.js';

const key = Buffer.alloc(32, 7);
const partitions = fc.integer({ min: 0, max: PARTITION_LIMIT - 1 });
const sessions = fc.integer({ min: 0, max: SESSION_LIMIT - 1 });
const counters = fc.integer({ min: 0, max: COUNTER_LIMIT - 1 });

describe('incarnations', () => {
  it('INC-24 every token has 16 digits from 2^52 to 2^53-1 and tells its source to the key alone', () => {
    fc.assert(fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), partitions, sessions, counters, (bytes, partition, session, counter) => {
      const secret = Buffer.from(bytes);
      const token = issueIncarnation(secret, partition, session, counter);
      expect(String(token)).toMatch(/^[1-9][0-9]{15}$/);
      expect(token).toBeGreaterThanOrEqual(2 ** 52);
      expect(token).toBeLessThan(2 ** 53);
      expect(parseIncarnation(String(token))).toBe(token);
      expect(incarnationSource(secret, token)).toEqual({ partition, session, counter });
    }));
  });

  it('I7 neighbouring sources give distinct tokens that do not look like neighbours', () => {
    const tokens = new Set<number>();
    let rising = 0;
    let last = 0;
    for (let counter = 0; counter < 4000; counter++) {
      const token = issueIncarnation(key, 3, 17, counter);
      tokens.add(token);
      if (token > last) rising++;
      last = token;
    }
    expect(tokens.size).toBe(4000);
    expect(rising).toBeGreaterThan(1800);
    expect(rising).toBeLessThan(2200);
  });

  it('the limits of each part are usable, and nothing beyond', () => {
    const highest = { partition: PARTITION_LIMIT - 1, session: SESSION_LIMIT - 1, counter: COUNTER_LIMIT - 1 };
    expect(incarnationSource(key, issueIncarnation(key, highest.partition, highest.session, highest.counter))).toEqual(highest);
    expect(() => issueIncarnation(key, PARTITION_LIMIT, 0, 0)).toThrow('partition');
    expect(() => issueIncarnation(key, 0, SESSION_LIMIT, 0)).toThrow('session');
    expect(() => issueIncarnation(key, 0, 0, COUNTER_LIMIT)).toThrow('counter');
    expect(() => issueIncarnation(key, 0, 0, -1)).toThrow('counter');
    expect(() => issueIncarnation(key.subarray(1), 0, 0, 0)).toThrow('32 bytes');
  });

  it('the permutation is part of the stored format', () => {
    expect([issueIncarnation(key, 0, 0, 0), issueIncarnation(key, 0, 1, 0), issueIncarnation(key, 1, 2, 3)]).toEqual([8919753477718619, 6335731277292417, 6238548563344783]);
  });

  it('INC-24 a number that was never issued has no source', () => {
    expect(incarnationSource(key, 5 as Incarnation)).toBeNull();
    expect(incarnationSource(key, (2 ** 52 - 1) as Incarnation)).toBeNull();
  });

  it.each(['', 'x', '0', '007', '9007199254740992', '9007199254740993', '99999999999999999', '1 ', ' 1', '1, 1', '1,1', '-1', '+1', '1.0', '1e3', 'a'.repeat(1000)])(
    'INC-14 INC-15 INC-24 refuses %j', (text) => {
      expect(() => parseIncarnation(text)).toThrow(expect.objectContaining({ code: 'INVALID_HEADER' }));
      expect(() => parsePathIncarnation(text)).toThrow(expect.objectContaining({ code: 'INVALID_RESOURCE' }));
    });

  it('INC-24 any other well-formed number is only a mismatch', () => {
    expect(parseIncarnation('5')).toBe(5);
    expect(parseIncarnation('9007199254740991')).toBe(Number.MAX_SAFE_INTEGER);
  });
});
