import { describe, expect, it } from 'vitest';
import { matchesIfNoneMatch, rangeTag, snapshotTag, type TaggedRange } from './etag.js';
import type { Incarnation, Offset } from './types.js';

const base: TaggedRange = { incarnation: (2 ** 52 + 5) as Incarnation, start: 0 as Offset, end: 10 as Offset, form: 'raw', at: 'tail', session: null };

describe('entity tags', () => {
  it('CACHE-02 is a quoted strong tag', () => {
    expect(rangeTag(base)).toMatch(/^"[!#-~]+"$/);
    expect(rangeTag(base)).toBe(rangeTag({ ...base }));
  });

  it('CACHE-03 CACHE-05 CACHE-06 CACHE-07 CACHE-15 every difference makes another tag', () => {
    const variants: TaggedRange[] = [
      base,
      { ...base, incarnation: (2 ** 52 + 6) as Incarnation },
      { ...base, start: 1 as Offset },
      { ...base, end: 11 as Offset },
      { ...base, start: 1 as Offset, end: 0 as Offset },
      { ...base, form: 'ndjson' },
      { ...base, form: 'array' },
      { ...base, at: 'below' },
      { ...base, at: 'closed' },
      { ...base, session: 0 },
      { ...base, session: 1 },
      { ...base, start: 0 as Offset, end: 101 as Offset },
      { ...base, start: 10 as Offset, end: 101 as Offset },
    ];
    expect(new Set(variants.map(rangeTag)).size).toBe(variants.length);
  });

  it('SNAP-34 a snapshot has its digest', () => expect(snapshotTag('ab12')).toBe('"ab12"'));

  it.each(['"x"', 'W/"x"', '"a", "x"', '"a","x"', 'W/"a" , W/"x"', ' "x" ', '"a, b", "x"', '"y","x","z"'])('CACHE-04 %s matches', (header) => {
    expect(matchesIfNoneMatch(header, '"x"')).toBe(true);
    expect(matchesIfNoneMatch(header, 'W/"x"')).toBe(true);
  });

  it.each([undefined, '', '*', 'x', '"xx"', '"a"', '"x', 'x"', '"a, x"', '"a x b"', '"', '""', '"a""'])('CACHE-04 %s does not match', (header) => {
    expect(matchesIfNoneMatch(header, '"x"')).toBe(false);
  });

  it('a tag inside another one does not match', () => expect(matchesIfNoneMatch('"a" "x" "b"', '" "')).toBe(false));
});
