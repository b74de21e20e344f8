import { describe, expect, it } from 'vitest';
import { FirnError } from '../../../shared/protocol/errors.js';
import { COMMIT_PARTS_MAX, PARTS_LIST_BYTES_MAX } from './limits.js';
import { parsePartsList } from './snapshot-parts-list.js';

describe('the list of a commit of snapshot parts', () => {
  it('gives the ids in order, up to the longest list there is', () => {
    expect(parsePartsList(Buffer.from('b\na\n'), 2)).toEqual(['b', 'a']);
    const ids = Array.from({ length: COMMIT_PARTS_MAX }, (_, i) => String(i).padStart(64, '~'));
    const body = Buffer.from(ids.map((id) => `${id}\n`).join(''));
    expect(body.length).toBe(PARTS_LIST_BYTES_MAX);
    expect(parsePartsList(body, COMMIT_PARTS_MAX)).toEqual(ids);
  });

  it.each([
    ['', 1], ['a', 1], ['a\nb', 2], ['a\n', 2], ['a\nb\n', 1], ['a\na\n', 2], ['\n', 1], ['a\n\n', 1], ['a\n\nb\n', 3], ['a\r\n', 1], ['a b\n', 1], [' a\n', 1], ['\u00e9\n', 1], ['a\0\n', 1],
    [`${'x'.repeat(65)}\n`, 1],
  ])('refuses %j as a list of %i', (body, count) => {
    expect(() => parsePartsList(Buffer.from(body), count)).toThrow(FirnError);
    expect(() => parsePartsList(Buffer.from(body), count)).toThrow(expect.objectContaining({ code: 'INVALID_PARTS_COMMIT', status: 400 }) as Error);
  });
});
