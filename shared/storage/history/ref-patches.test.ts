import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Offset } from '../../protocol/types.js';
import { sampleColdRef } from '../records/arbitrary.contract.js';
import { refsSum } from '../records/cold-ref.js';
import type { ColdRef, CompactedRange } from '../records/types.js';
import { RefPatches } from './ref-patches.js';

let count = 0;

function refsOver(from: number, sizes: readonly number[]): ColdRef[] {
  let at = from;
  return sizes.map((bytes) => sampleColdRef({ frameAt: ++count, start: at as Offset, end: (at += bytes) as Offset }));
}

/** Replaces some of the references by fewer that cover the same. */
function compacted(refs: readonly ColdRef[]): CompactedRange {
  const [from, to] = [(refs[0] as ColdRef).start, (refs.at(-1) as ColdRef).end];
  return { from, to, was: { refs: refs.length, sum: refsSum(refs) }, refs: refsOver(from, to - from > 1 ? [1, to - from - 1] : [1]) };
}

describe('what a stretch of log does to references', () => {
  it('I1 I6 comes to the same over references that are not at hand as if they were', () => {
    const anyStep = fc.oneof(fc.record({ seal: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 4 }) }), fc.record({ from: fc.nat(1_000), count: fc.integer({ min: 1, max: 12 }) }));
    fc.assert(fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 20 }), fc.array(anyStep, { maxLength: 25 }), fc.integer({ min: 1, max: 7 }), (before, steps, page) => {
      const base = refsOver(5, before);
      const now = [...base];
      const patches = new RefPatches();
      for (const step of steps) {
        if ('seal' in step) {
          const refs = refsOver(now.at(-1)?.end ?? 5, step.seal);
          patches.append(refs);
          now.push(...refs);
        } else if (now.length > 0) {
          const at = step.from % now.length;
          const range = compacted(now.slice(at, at + step.count));
          patches.replace(range);
          now.splice(at, range.was.refs, ...range.refs);
        }
      }
      const over = patches.over();
      const got: ColdRef[] = [];
      for (let at = 0; at < base.length; at += page) got.push(...over.take(base.slice(at, at + page)));
      got.push(...over.end());
      expect(got).toEqual(now);
    }));
  });

  it('a boundary that took references from here, and not from the node yet, is no damage', () => {
    const refs = refsOver(0, [3, 3, 3]);
    const range = compacted(refs);
    for (const left of [[], refs.slice(1), refs.slice(2)]) {
      const patches = new RefPatches();
      patches.replace(range);
      const over = patches.over();
      expect([...over.take(left), ...over.end()]).toEqual(range.refs);
    }
  });

  it('I6 refuses a compaction of references that are not there, known or not', () => {
    const base = refsOver(0, [3, 3, 3]);
    const other = new RefPatches();
    other.replace(compacted(refsOver(3, [3])));
    expect(() => other.over().take(base)).toThrow('not there');
    const across = new RefPatches();
    across.replace(compacted(refsOver(2, [4])));
    expect(() => across.over().take(base)).toThrow('lies across');
    const known = new RefPatches();
    known.append(base);
    expect(() => known.replace(compacted(refsOver(3, [3])))).toThrow('not there');
    expect(() => known.replace(compacted(refsOver(2, [4])))).toThrow('not there');
  });
});
