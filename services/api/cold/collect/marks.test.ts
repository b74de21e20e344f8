import { describe, expect, it } from 'vitest';
import { COLLECT_MARKED_MAX } from '../limits.js';
import { Marks } from './marks.js';

describe('marks', () => {
  it('give an object its whole grace from the first look on', () => {
    let now = 1_000;
    const marks = new Marks(() => now, 100);
    marks.begin();
    expect(marks.leftMs('a')).toBe(100);
    now += 60;
    expect([marks.leftMs('a'), marks.leftMs('b')]).toEqual([40, 100]);
    now += 40;
    expect([marks.leftMs('a'), marks.leftMs('b')]).toEqual([0, 60]);
  });

  it('begin anew when the clock is set back', () => {
    let now = 10_000;
    const marks = new Marks(() => now, 100);
    marks.begin();
    marks.leftMs('a');
    now -= 5_000;
    expect(marks.leftMs('a')).toBe(100);
    now += 99;
    expect(marks.leftMs('a')).toBe(1);
  });

  it('of what a round did not find again are forgotten', () => {
    let now = 0;
    const marks = new Marks(() => now, 100);
    marks.begin();
    for (const key of ['a', 'b']) marks.leftMs(key);
    marks.end();
    marks.begin();
    marks.leftMs('b');
    marks.end();
    now += 100;
    expect([marks.leftMs('a'), marks.leftMs('b')]).toEqual([100, 0]);
  });

  it('are bounded: one more than there is room for never ends its grace (I11)', () => {
    let now = 0;
    const marks = new Marks(() => now, 100);
    marks.begin();
    for (let n = 0; n <= COLLECT_MARKED_MAX; n++) marks.leftMs(`k${n}`);
    now += 1_000;
    expect([marks.size, marks.leftMs('k0'), marks.leftMs(`k${COLLECT_MARKED_MAX}`)]).toEqual([COLLECT_MARKED_MAX, 0, 100]);
  });
});
