import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { literalPrefix, normalPattern, PatternIndex } from './pattern-index.js';

/** The rule in its plainest form. */
function matches(pattern: readonly string[], path: readonly string[]): boolean {
  const [head, ...rest] = pattern;
  if (head === undefined) return path.length === 0;
  if (head === '**') return matches(rest, path) || (path.length > 0 && matches(pattern, path.slice(1)));
  return path.length > 0 && (head === '*' || head === path[0]) && matches(rest, path.slice(1));
}

function indexOf(patterns: readonly string[]): PatternIndex<string> {
  const index = new PatternIndex<string>();
  for (const pattern of patterns) index.add(pattern, pattern);
  return index;
}

describe('patterns', () => {
  it('SUB-07 one star is one segment, two are any number of them', () => {
    const index = indexOf(['events/*', 'a/**', '**/z', '*', 'a/**/b']);
    expect(index.match('events/a')).toEqual(['events/*']);
    expect(index.match('events/a/b')).toEqual([]);
    expect(index.match('a').sort()).toEqual(['*', 'a/**']);
    expect(index.match('a/b').sort()).toEqual(['a/**', 'a/**/b']);
    expect(index.match('a/b/c')).toEqual(['a/**']);
    expect(index.match('a/x/y/b').sort()).toEqual(['a/**', 'a/**/b']);
    expect(index.match('z').sort()).toEqual(['*', '**/z']);
    expect(index.match('eventsx/a')).toEqual([]);
  });

  it('finds for any set of patterns what the rule says, also after some are gone', () => {
    const segment = fc.constantFrom('a', 'b', 'c', '*', '**');
    const patternText = fc.array(segment, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
    const pathText = fc.array(fc.constantFrom('a', 'b', 'c', '*'), { minLength: 1, maxLength: 6 }).map((parts) => parts.join('/'));
    fc.assert(fc.property(fc.uniqueArray(patternText, { maxLength: 20 }), fc.array(pathText, { maxLength: 10 }), fc.nat(), (patterns, paths, keep) => {
      const index = indexOf(patterns);
      const kept = patterns.filter((_, at) => at % 3 !== keep % 3);
      for (const pattern of patterns) if (!kept.includes(pattern)) index.remove(pattern);
      expect(index.size).toBe(kept.length);
      for (const path of paths) expect(index.match(path).sort()).toEqual(kept.filter((pattern) => matches(pattern.split('/'), path.split('/'))).sort());
    }));
  });

  it('stays fast for a pattern of stars', () => {
    const index = indexOf([Array.from({ length: 30 }, () => '**/a').join('/')]);
    const startedMs = performance.now();
    for (let i = 0; i < 20; i++) expect(index.match('a/'.repeat(60).slice(0, -1))).toHaveLength(1);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  });

  it('have a normal form and a beginning that every match shares', () => {
    expect(normalPattern('/events/*/')).toBe('events/*');
    for (const bad of ['', '/', 'a//b', '\ud800', 'x'.repeat(513), 'a/'.repeat(65)]) expect(() => normalPattern(bad)).toThrow();
    expect(literalPrefix('events/*')).toBe('events/');
    expect(literalPrefix('a/**')).toBe('a');
    expect(literalPrefix('a/b/*/c')).toBe('a/b/');
    expect(literalPrefix('**/x')).toBe('');
    expect(literalPrefix('a/b')).toBe('a/b');
  });
});
