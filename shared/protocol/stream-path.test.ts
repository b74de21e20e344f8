import { expect, it } from 'vitest';
import { streamPathKey } from './stream-path.js';

it('SUB-55 a path in a body is the key of the URL with the same segments', () => {
  for (const [text, key] of [['events/abc', 'events/abc'], ['/events/abc/', 'events/abc'], ['a b/ü?#', 'a b/ü?#'], ['a%20b', 'a%20b'], ['*', '*']]) expect(streamPathKey(text!)).toBe(key);
});

it('SUB-49 what no URL could name is refused', () => {
  for (const text of ['', '/', 'a//b', '..', 'a/../b', 'a\0b', '__ds', '__ds/x', '\ud800', 'x'.repeat(123)]) expect(() => streamPathKey(text), JSON.stringify(text)).toThrow(expect.objectContaining({ code: 'INVALID_STREAM_ID' }));
});
