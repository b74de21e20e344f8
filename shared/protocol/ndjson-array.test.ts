import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arrayLength, arrayPieces, writeArray } from './ndjson-array.js';

const messages = fc.array(fc.json({ noUnicodeString: false }).map((text) => JSON.stringify(JSON.parse(text))), { maxLength: 8 });

function arrayOf(ndjson: string): string {
  const out = Buffer.alloc(arrayLength(Buffer.byteLength(ndjson)) + 2, '.');
  expect(writeArray(out, 1, Buffer.from(ndjson))).toBe(out.length - 1);
  return out.toString().slice(1, -1);
}

/** Cuts a buffer at the given places. */
function cut(whole: Buffer, places: readonly number[]): Buffer[] {
  const borders = [0, ...places.map((place) => place % (whole.length + 1)).toSorted((a, b) => a - b), whole.length];
  return borders.slice(1).map((to, i) => whole.subarray(borders[i]!, to));
}

async function* source(pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* pieces;
}

async function collected(pieces: readonly Buffer[], bytes: number): Promise<Buffer> {
  const out: Buffer[] = [];
  for await (const piece of arrayPieces(source(pieces), bytes)) out.push(piece);
  return Buffer.concat(out);
}

describe('ndjson as an array', () => {
  it('READ-15 JSON-19 embeds every message as it is, whatever the pieces', async () => {
    await fc.assert(fc.asyncProperty(messages, fc.array(fc.nat(), { maxLength: 6 }), async (texts, places) => {
      const ndjson = Buffer.from(texts.map((text) => `${text}\n`).join(''));
      const before = Buffer.from(ndjson);
      const expected = `[${texts.join(',')}]`;
      const pieces = cut(ndjson, places);
      expect(arrayOf(ndjson.toString())).toBe(expected);
      expect((await collected(pieces, ndjson.length)).toString()).toBe(expected);
      expect(arrayLength(ndjson.length)).toBe(Buffer.byteLength(expected));
      expect(ndjson).toEqual(before);
    }));
  });

  it('READ-15 OFF-09 nothing is an empty array', async () => {
    expect(arrayOf('')).toBe('[]');
    expect((await collected([Buffer.alloc(0)], 0)).toString()).toBe('[]');
    expect(arrayLength(0)).toBe(2);
  });

  it('JSON-19 spellings stay', () => expect(arrayOf('1.50e3\n{"a":1,"a":"\\ud800"}\n')).toBe('[1.50e3,{"a":1,"a":"\\ud800"}]'));

  it('JSON-22 stored text that is older than the rule is given as it is', () => expect(arrayOf('{ "a" : 1 }\n[ ]\n')).toBe('[{ "a" : 1 },[ ]]'));

  it('I9 a source that is short, long or cut is an error', async () => {
    await expect(collected([Buffer.from('1\n')], 4)).rejects.toThrow('2 bytes');
    await expect(collected([Buffer.from('1\n2\n')], 2)).rejects.toThrow('more than 2');
    await expect(collected([Buffer.from('1\n2')], 3)).rejects.toThrow('whole messages');
    expect(() => arrayOf('1\n2')).toThrow('whole messages');
  });
});
