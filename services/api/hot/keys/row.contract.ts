/**
 * What every kind of row must do. For tests: `rowContract` and `valueContract` in the test of the catalogue.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BadBytes } from '../../../../shared/storage/codec.js';
import { expectEveryDamageRefused } from '../../../../shared/storage/decoder.contract.js';
import type { KeyRange } from './layout.js';

/** A row kind seen through one tuple of parts `P` and values `V`. */
export interface RowKind<P extends readonly (number | string)[], V> {
  readonly kind: number;
  /** Parts in the order of the key. */
  readonly parts: fc.Arbitrary<P>;
  key(parts: P): Buffer;
  /** Back from a key to its parts. */
  decodeKey(key: Buffer): P;
  /** A range that must hold the key, and nothing of the parts that differ before its end. */
  readonly ranges: readonly { readonly fixed: number; range(parts: P): KeyRange }[];
  readonly values: fc.Arbitrary<V>;
  encode(value: V): Buffer;
  decode(buffer: Buffer): V;
}

export function rowContract<P extends readonly (number | string)[], V>(name: string, row: RowKind<P, V>): void {
  describe(`${name} row`, () => {
    it('gives key and value back', () => {
      fc.assert(
        fc.property(row.parts, row.values, (parts, value) => {
          const key = row.key(parts);
          expect(key[0]).toBe(row.kind);
          expect(row.decodeKey(key)).toEqual(parts);
          expect(row.decode(row.encode(value))).toEqual(value);
        }),
      );
    });

    it('orders keys as their parts', () => {
      fc.assert(
        fc.property(row.parts, row.parts, (a, b) => {
          expect(Math.sign(Buffer.compare(row.key(a), row.key(b)))).toBe(compareParts(a, b));
        }),
      );
    });

    it('makes ranges that hold what belongs to them and nothing else', () => {
      fc.assert(
        fc.property(row.parts, row.parts, fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }), (a, other, same) => {
          const b = a.map((part, index) => (same[index] === true ? part : other[index])) as unknown as P;
          for (const { fixed, range } of row.ranges) {
            const { from, to } = range(a);
            const within = (key: Buffer): boolean => Buffer.compare(key, from) >= 0 && Buffer.compare(key, to) < 0;
            expect(within(row.key(a))).toBe(true);
            expect(within(row.key(b))).toBe(compareParts(a.slice(0, fixed), b.slice(0, fixed)) === 0);
          }
        }),
      );
    });

    it('refuses keys that it did not build', () => {
      fc.assert(
        fc.property(row.parts, fc.nat(), (parts, cut) => {
          const key = row.key(parts);
          const ofAnotherKind = Buffer.from(key);
          ofAnotherKind[0] = (row.kind + 1) & 0xff;
          expect(() => row.decodeKey(ofAnotherKind)).toThrow(BadBytes);
          const short = key.subarray(0, cut % key.length);
          const outcome = attempt(() => row.decodeKey(short));
          // A shorter text is another key; a shorter number is none.
          if (!(outcome instanceof BadBytes)) expect(row.key(outcome as P)).toEqual(short);
          const long = Buffer.concat([key, Buffer.from([0])]);
          const longer = attempt(() => row.decodeKey(long));
          if (!(longer instanceof BadBytes)) expect(row.key(longer as P)).toEqual(long);
        }),
      );
      expect(() => row.decodeKey(Buffer.alloc(0))).toThrow(BadBytes);
      expect(() => row.decodeKey(Buffer.from([row.kind]))).toThrow(BadBytes);
    });
  });
}

/** For kinds whose values carry a sum of their own: all but raw bytes and rows without a value. */
export function valueContract<V>(name: string, row: Pick<RowKind<[], V>, 'values' | 'encode' | 'decode'>): void {
  describe(`${name} row`, () => {
    it('refuses damaged values', () => {
      fc.assert(fc.property(row.values, (value) => expectEveryDamageRefused(row.encode(value), (buffer) => row.decode(buffer))), { numRuns: 5 });
    });
  });
}

function attempt(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}

/** Numbers by size, texts by their UTF-8 bytes, the first difference decides. */
function compareParts(a: readonly (number | string)[], b: readonly (number | string)[]): number {
  for (const [index, left] of a.entries()) {
    const right = b[index] as number | string;
    const order = typeof left === 'number' && typeof right === 'number' ? left - right : Buffer.compare(Buffer.from(String(left)), Buffer.from(String(right)));
    if (order !== 0) return Math.sign(order);
  }
  return 0;
}
