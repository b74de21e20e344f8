/** The checker of histories finds nothing in histories that happened, and something in each that cannot have happened. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../support/random.js';
import { faultsOf } from './history.js';
import type { AppendOp, Final, Op, ReadOp, TailOp } from './history.js';

interface Told {
  history: Op[];
  final: Final;
}

/** What clients see of a stream that does one thing after the other; each operation takes effect somewhere between its begin and its end. */
function happened(seed: number): Told {
  const luck = new Random(seed);
  const history: Op[] = [];
  let content = '';
  let closed = false;
  for (let n = 0; n < 60; n += 1) {
    const at = n * 10;
    const invoked = at - luck.int(0, 35);
    const returned = at + luck.int(0, 35);
    const what = luck.next();
    if (what < 0.5) {
      const stored = Array.from({ length: luck.int(1, 4) }, (_, line) => `${n}.${line} ${'x'.repeat(luck.int(0, 20))}\n`).join('');
      const lost = luck.chance(0.25);
      const applied = !closed && (!lost || luck.chance(0.5));
      if (applied) content += stored;
      history.push({ kind: 'append', invoked, returned: lost ? Infinity : returned, stored, outcome: lost ? 'lost' : closed ? 'refused' : 'applied', end: lost || closed ? null : content.length });
    } else if (what < 0.75) {
      const from = luck.int(0, content.length + 1);
      const next = luck.chance(0.5) ? content.length : luck.int(from, content.length + 1);
      history.push({ kind: 'read', invoked, returned, from, body: content.slice(from, next), next, upToDate: next === content.length, closed: closed && next === content.length });
    } else if (what < 0.98) {
      history.push({ kind: 'tail', invoked, returned, tail: content.length, closed });
    } else {
      closed = true;
      history.push({ kind: 'close', invoked }, { kind: 'tail', invoked, returned, tail: content.length, closed });
    }
  }
  return { history, final: { content, closed } };
}

/** A history that surely happened, with operations one after the other: three appends, an observation behind each. */
function orderly(): Told & { appends: AppendOp[]; reads: ReadOp[]; tails: TailOp[] } {
  const appends: AppendOp[] = [];
  const reads: ReadOp[] = [];
  const tails: TailOp[] = [];
  let content = '';
  for (let n = 0; n < 3; n += 1) {
    const stored = `${n}.0\n${n}.1\n`;
    content += stored;
    appends.push({ kind: 'append', invoked: n * 10, returned: n * 10 + 1, stored, outcome: 'applied', end: content.length });
    reads.push({ kind: 'read', invoked: n * 10 + 2, returned: n * 10 + 3, from: 0, body: content, next: content.length, upToDate: true, closed: false });
    tails.push({ kind: 'tail', invoked: n * 10 + 4, returned: n * 10 + 5, tail: content.length, closed: false });
  }
  return { appends, reads, tails, history: [...appends, ...reads, ...tails], final: { content, closed: false } };
}

function wrong(change: (story: ReturnType<typeof orderly>) => { history?: readonly Op[]; final?: Partial<Final> } | void): string {
  const story = orderly();
  expect(faultsOf(story.history, story.final)).toEqual([]);
  const changed = change(story) ?? {};
  return faultsOf(changed.history ?? story.history, { ...story.final, ...changed.final }).join('; ');
}

const set = <T extends Op>(op: T, values: Partial<T>): void => void Object.assign(op, values);

describe('checker of histories', () => {
  it('finds nothing in what happened, with lost answers and overlaps', () => {
    fc.assert(fc.property(fc.integer(), (seed) => {
      const { history, final } = happened(seed);
      expect(faultsOf(history, final)).toEqual([]);
    }), { numRuns: 300 });
  });

  it('finds what is lost, doubled, torn, foreign, moved, or there although it was refused', () => {
    const at = (text: string, from: number, to: number): string => text.slice(0, from) + text.slice(to);
    expect(wrong(({ final }) => ({ final: { content: at(final.content, 8, 16) } }))).toContain('is not there');
    expect(wrong(({ final }) => ({ final: { content: final.content + final.content.slice(0, 8) } }))).toContain('is there twice');
    expect(wrong(({ final }) => ({ final: { content: at(final.content, 20, 24) } }))).toContain('nobody wrote');
    expect(wrong(({ final }) => ({ final: { content: `${final.content}9.0\n` } }))).toContain('nobody wrote');
    expect(wrong(({ appends }) => set(appends[1]!, { end: 24 }))).toContain('its answer said 24');
    expect(wrong(({ appends }) => set(appends[1]!, { outcome: 'refused' }))).toContain('was refused and is there');
  });

  it('finds acknowledged appends in another order than that of their answers', () => {
    expect(wrong(({ appends, reads, tails, final: { content } }) => {
      for (const op of appends) set(op, { end: null });
      return { history: [...appends, reads[0]!, tails[0]!], final: { content: content.slice(0, 8) + content.slice(16) + content.slice(8, 16) } };
    })).toContain('belongs before');
    // The same order is right when the two were under way at once, or when the first got no answer.
    for (const values of [{ invoked: 15, returned: 29 }, { returned: Infinity, outcome: 'lost' }] as const) {
      expect(wrong(({ appends, reads, tails, final: { content } }) => {
        for (const op of appends) set(op, { end: null });
        set(appends[1]!, values);
        return { history: [...appends, reads[0]!, tails[0]!], final: { content: content.slice(0, 8) + content.slice(16) + content.slice(8, 16) } };
      })).toBe('');
    }
  });

  it('finds reads of the past, of the future, and of other bytes', () => {
    expect(wrong(({ reads, final }) => set(reads[2]!, { body: final.content.slice(0, 16), next: 16 }))).toContain('a read of [0, 16) belongs before');
    // A short answer that does not claim to be at the tail says nothing about it.
    expect(wrong(({ reads, final }) => set(reads[2]!, { body: final.content.slice(0, 16), next: 16, upToDate: false }))).toBe('');
    expect(wrong(({ reads, final }) => set(reads[0]!, { body: final.content, next: 24 }))).toContain('belongs before a read of [0, 24)');
    expect(wrong(({ reads, final }) => set(reads[0]!, { body: final.content, next: 24, upToDate: false }))).toContain('belongs before');
    expect(wrong(({ reads }) => set(reads[1]!, { body: reads[1]!.body.replace('0.1', '0.7') }))).toContain('other bytes');
    expect(wrong(({ reads }) => set(reads[1]!, { body: reads[1]!.body.slice(1) }))).toContain('other bytes');
  });

  it('finds tails that go back or are too long', () => {
    expect(wrong(({ tails }) => set(tails[2]!, { tail: 16 }))).toContain('a tail of 16 belongs before');
    expect(wrong(({ tails }) => set(tails[1]!, { tail: 8 }))).toContain('a tail of 8 belongs before');
    expect(wrong(({ tails }) => set(tails[2]!, { tail: 32 }))).toContain('where no append ends');
    expect(wrong(({ reads, final }) => set(reads[2]!, { body: final.content.slice(0, 20), next: 20 }))).toContain('where no append ends');
  });

  it('finds an end that nobody asked for, that is taken back, or that more follows', () => {
    const close: Op = { kind: 'close', invoked: 11.5 };
    const seen: Op = { kind: 'tail', invoked: 11.5, returned: 11.6, tail: 16, closed: true };
    expect(wrong(({ history }) => ({ history: [...history, seen], final: { closed: true } }))).toContain('before anybody asked');
    expect(wrong(() => ({ final: { closed: true } }))).toContain('before anybody asked');
    expect(wrong(({ history }) => ({ history: [...history, close, { ...seen, tail: 24, invoked: 26, returned: 27 }], final: { closed: false } }))).toContain('which is open');
    expect(wrong(({ history }) => ({ history: [...history, close, seen], final: { closed: true } }))).toContain('belongs before a tail of 16');
    expect(wrong(({ history }) => ({ history: [...history, close, { ...seen, tail: 24, invoked: 26, returned: 27 }], final: { closed: true } }))).toBe('');
  });

  it('finds a change to any one thing in what happened: a byte, a position, an answer', () => {
    let found = 0;
    let tried = 0;
    fc.assert(fc.property(fc.integer(), fc.nat({ max: 1_000 }), (seed, pick) => {
      const { history, final } = happened(seed);
      const applied = history.filter((op): op is AppendOp => op.kind === 'append' && op.outcome === 'applied');
      if (applied.length === 0) return;
      const victim = applied[pick % applied.length]!;
      const from = final.content.indexOf(victim.stored);
      const ways: readonly (readonly [Op[], Final])[] = [
        [history, { ...final, content: final.content.slice(0, from) + final.content.slice(from + victim.stored.length) }],
        [history, { ...final, content: final.content + victim.stored }],
        [history.map((op) => (op === victim ? { ...victim, outcome: 'refused' } : op)), final],
        [history.map((op) => (op === victim ? { ...victim, end: victim.end! + 1 } : op)), final],
        [[...history, { kind: 'tail', invoked: 10_000, returned: 10_001, tail: final.content.length - 1, closed: final.closed }], final],
        [[...history, { kind: 'read', invoked: -100, returned: -99, from, body: victim.stored, next: from + victim.stored.length, upToDate: false, closed: false }], final],
      ];
      for (const [told, end] of ways) {
        tried += 1;
        if (faultsOf(told, end).length > 0) found += 1;
      }
    }), { numRuns: 200 });
    expect([found, tried > 500]).toEqual([tried, true]);
  });
});
