import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as keys from './keys.js';

const partition = fc.integer({ min: 0, max: 1_023 });
const session = fc.integer({ min: 0, max: 262_143 });
const seq = fc.integer({ min: 0, max: 9_999_999_999 });
const place = fc.record({ partition, session, seq });
const partPlace = fc.record({ partition, session, seq, attempt: fc.integer({ min: 0, max: 9_999 }), part: fc.integer({ min: 0, max: 99_999 }) });

function expectSorted<T extends Record<string, number>>(a: T, b: T, key: (value: T) => string): void {
  const name = Object.keys(a).find((field) => a[field] !== b[field]);
  const expected = name === undefined ? 0 : Math.sign((a[name] as number) - (b[name] as number));
  expect(Math.sign(Buffer.compare(Buffer.from(key(a)), Buffer.from(key(b))))).toBe(expected);
}

describe('keys of the object store', () => {
  it('come back and sort as numbers do', () => {
    fc.assert(
      fc.property(place, place, (a, b) => {
        for (const [build, parse] of [
          [keys.logKey, keys.parseLogKey],
          [keys.checkpointKey, keys.parseCheckpointKey],
        ] as const) {
          const key = ({ partition: p, session: n, seq: s }: typeof a): string => build(p, n, s);
          expect(parse(key(a))).toEqual(a);
          expectSorted({ partition: a.partition, session: a.session, seq: a.seq }, { partition: b.partition, session: b.session, seq: b.seq }, key);
        }
        expect(keys.parseSessionKey(keys.sessionKey(a.partition, a.session))).toEqual({ partition: a.partition, session: a.session });
      }),
    );
    fc.assert(
      fc.property(partPlace, partPlace, (a, b) => {
        expect(keys.parseCheckpointPartKey(keys.checkpointPartKey(a))).toEqual(a);
        const ordered = ({ partition: p, session: n, seq: s, attempt, part }: typeof a): typeof a => ({ partition: p, session: n, seq: s, attempt, part });
        expectSorted(ordered(a), ordered(b), keys.checkpointPartKey);
      }),
    );
  });

  it('lie under the prefixes that list them', () => {
    expect(keys.sessionKey(0, 7)).toBe('partitions/0000/sessions/000007');
    expect(keys.logKey(2, 7, 41)).toBe('partitions/0002/log/000007/0000000041');
    expect(keys.checkpointKey(2, 7, 41)).toBe('partitions/0002/checkpoints/000007/0000000041');
    expect(keys.sessionKey(0, 7).startsWith(keys.sessionPrefix(0))).toBe(true);
    expect(keys.logKey(2, 7, 41).startsWith(keys.logPrefix(2, 7))).toBe(true);
    expect(keys.logPrefix(2, 7).startsWith(keys.logPrefix(2))).toBe(true);
    expect(keys.checkpointKey(2, 7, 41).startsWith(keys.checkpointPrefix(2))).toBe(true);
    const part = { partition: 2, session: 7, seq: 41, attempt: 1, part: 3 };
    expect(keys.checkpointPartKey(part).startsWith(keys.checkpointPartPrefix(2))).toBe(true);
    expect(keys.checkpointPartKey(part).startsWith(keys.checkpointPrefix(2))).toBe(false);
  });

  it('take nothing else and no numbers beyond their digits', () => {
    for (const key of ['', 'store.json', 'partitions/0000/log/000007/41', 'partitions/1024/log/000007/0000000041', 'partitions/0000/log/262144/0000000041', 'xpartitions/0000/log/000007/0000000041']) {
      expect([keys.parseLogKey(key), keys.parseSessionKey(key), keys.parseCheckpointKey(key), keys.parseCheckpointPartKey(key)]).toEqual([null, null, null, null]);
    }
    expect(() => keys.sessionKey(0, 262_144)).toThrow(RangeError);
    expect(() => keys.logKey(1_024, 1, 1)).toThrow(RangeError);
    expect(() => keys.logKey(0, 1, 10_000_000_000)).toThrow(RangeError);
    expect(() => keys.logKey(0, 1, 1.5)).toThrow(RangeError);
    expect(() => keys.checkpointPartKey({ partition: 0, session: 1, seq: 1, attempt: 10_000, part: 0 })).toThrow(RangeError);
  });
});
