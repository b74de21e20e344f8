import { beforeEach, describe, expect, it } from 'vitest';
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import { STAGED_BYTES_MAX, STAGED_BYTES_NODE_MAX, STAGED_PARTS_MAX, STAGED_PARTS_NODE_MAX } from './limits.js';
import { incarnationOfPart, newPartId, StagedParts, type StagedPart } from './snapshot-parts-staged.js';

const inc = (n: number): Incarnation => (2 ** 52 + n) as Incarnation;
const KEY = 'demo/a' as StreamKey;
const refused = (header: string, limit: number): unknown => expect.objectContaining({ code: 'STAGED_PARTS_LIMIT', status: 429, headers: { [header]: String(limit) } });

function part(incarnation: Incarnation, bytes: number): StagedPart {
  return { id: newPartId(incarnation), key: KEY, incarnation, bytes, crc: 0, stagedAtMs: 0 };
}

describe('part ids', () => {
  it('have the documented form and tell the incarnation', () => {
    const id = newPartId(inc(77));
    expect(id).toMatch(/^[0-9a-f]{32}-[0-9a-f]{16}\.part$/);
    expect(incarnationOfPart(id)).toBe(inc(77));
    expect(newPartId(inc(77))).not.toBe(id);
    for (const other of ['', 'x', id.toUpperCase(), `${id}x`, `x${id}`, id.slice(1)]) expect(incarnationOfPart(other)).toBeNull();
  });
});

describe('staged parts', () => {
  let staged: StagedParts;
  beforeEach(() => {
    staged = new StagedParts();
  });

  const stage = (incarnation: Incarnation, bytes: number): StagedPart => {
    const one = part(incarnation, bytes);
    staged.take(KEY, incarnation, 1, bytes);
    staged.add(one);
    return one;
  };

  it('are found under their own incarnation alone (I7)', () => {
    const one = stage(inc(1), 10);
    expect(staged.find(inc(1), one.id)).toBe(one);
    expect(staged.find(inc(2), one.id)).toBeUndefined();
    expect(staged.of(inc(1))).toEqual([one]);
    staged.remove(one);
    staged.remove(one);
    expect(staged.of(inc(1))).toEqual([]);
  });

  it('of one stream are 8,192 and 2 GiB at most, those under way included, and make room again when they go', () => {
    const first = stage(inc(1), 0);
    staged.take(KEY, inc(1), STAGED_PARTS_MAX - 1, 0);
    expect(() => staged.take(KEY, inc(1), 1, 0)).toThrow(refused('Ursula-Max-Staged-Parts', 8_192) as Error);
    staged.remove(first);
    staged.take(KEY, inc(1), 1, STAGED_BYTES_MAX);
    expect(() => staged.take(KEY, inc(1), 0, 1)).toThrow(refused('Ursula-Max-Staged-Bytes', 2_147_483_648) as Error);
    staged.give(inc(1), 1, 1);
    staged.take(KEY, inc(1), 1, 1);
    staged.take(KEY, inc(2), 1, 1);
  });

  it('of a node have a bound of their own', () => {
    const full = STAGED_PARTS_NODE_MAX / STAGED_PARTS_MAX;
    for (let n = 0; n < full; n++) staged.take(KEY, inc(n), STAGED_PARTS_MAX, 0);
    expect(() => staged.take(KEY, inc(full), 1, 0)).toThrow(refused('Ursula-Max-Staged-Parts', STAGED_PARTS_NODE_MAX) as Error);
    staged = new StagedParts();
    for (let n = 0; n < STAGED_BYTES_NODE_MAX / STAGED_BYTES_MAX; n++) staged.take(KEY, inc(n), 1, STAGED_BYTES_MAX);
    expect(() => staged.take(KEY, inc(99), 1, 1)).toThrow(refused('Ursula-Max-Staged-Bytes', STAGED_BYTES_NODE_MAX) as Error);
    staged.give(inc(0), 1, STAGED_BYTES_MAX);
    staged.take(KEY, inc(99), 1, 1);
  });

  it('of a former run count, however many there are', () => {
    for (let n = 0; n <= STAGED_PARTS_MAX; n++) staged.load(part(inc(1), 1));
    expect(() => staged.take(KEY, inc(1), 1, 0)).toThrow(refused('Ursula-Max-Staged-Parts', 8_192) as Error);
  });

  it('are walked in steps, round and round, while some go', () => {
    const parts = [1, 2, 3].map((n) => stage(inc(n), 0));
    const walked = (max: number): number[] => [...staged.next(max)].map(({ incarnation }) => incarnation - inc(0));
    expect([walked(2), walked(2), walked(9)]).toEqual([[1, 2], [3], [1, 2, 3]]);
    expect(walked(1)).toEqual([1]);
    staged.remove(parts[0]!);
    staged.remove(parts[1]!);
    expect(walked(2)).toEqual([3]);
    expect(walked(2)).toEqual([3]);
  });

  it('never gives back more room than was taken', () => {
    stage(inc(1), 5);
    expect(() => staged.give(inc(1), 0, 6)).toThrow(Error);
    expect(() => staged.give(inc(2), 1, 0)).toThrow(Error);
  });
});
