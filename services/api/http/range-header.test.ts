import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { parseRange } from './range-header.js';

describe('Range', () => {
  it('SNAP-34 takes one range of bytes', () => {
    expect(parseRange('bytes=0-3', 10)).toEqual({ kind: 'part', from: 0, length: 4 });
    expect(parseRange('bytes=4-', 10)).toEqual({ kind: 'part', from: 4, length: 6 });
    expect(parseRange('bytes=-2', 10)).toEqual({ kind: 'part', from: 8, length: 2 });
    expect(parseRange('BYTES = 8-99', 10)).toEqual({ kind: 'part', from: 8, length: 2 });
    expect(parseRange('bytes=-99', 10)).toEqual({ kind: 'part', from: 0, length: 10 });
  });

  it('SNAP-34 gives the whole for several ranges, another unit and nonsense', () => {
    for (const header of [undefined, '', 'bytes=0-1,4-5', 'items=0-1', 'bytes', 'bytes=-', 'bytes=a-b', 'bytes=5-2']) expect([header, parseRange(header, 10)]).toEqual([header, { kind: 'whole' }]);
  });

  it('SNAP-34 tells what lies outside', () => {
    for (const [header, size] of [['bytes=10-', 10], ['bytes=10-20', 10], ['bytes=-0', 10], ['bytes=0-3', 0], ['bytes=-2', 0], ['bytes=99999999999999999999-', 10]] as const) expect([header, parseRange(header, size)]).toEqual([header, { kind: 'outside' }]);
  });

  it('never leaves the body', () => {
    fc.assert(fc.property(fc.nat(1000), fc.option(fc.nat(2000)), fc.option(fc.nat(2000)), (size, first, last) => {
      const range = parseRange(`bytes=${first ?? ''}-${last ?? ''}`, size);
      if (range.kind !== 'part') return;
      expect(range.from).toBeGreaterThanOrEqual(0);
      expect(range.length).toBeGreaterThan(0);
      expect(range.from + range.length).toBeLessThanOrEqual(size);
    }));
  });
});
