/**
 * The words of the protocol as types that cannot be mixed up.
 *
 * Owns: the branded primitives that every other module uses. Promises: a branded value was checked once, where it was made.
 */

declare const brand: unique symbol;
type Brand<T, B extends string> = T & { readonly [brand]: B };

/** Byte position in a stream, 0 .. 2^53-1. On the wire: 20 decimal digits (requirements OFF-16). */
export type Offset = Brand<number, 'Offset'>;
/** Token of one life of a stream, 2^52 .. 2^53-1, never issued twice (INC-24, invariant I7). */
export type Incarnation = Brand<number, 'Incarnation'>;
/** `{bucket}/{stream}` or any other base path: at most 122 bytes of UTF-8, checked by `protocol/ids`. */
export type StreamKey = Brand<string, 'StreamKey'>;

export const ZERO = 0 as Offset;

/** Moves an offset forward by a count of bytes. */
export function advance(from: Offset, bytes: number): Offset {
  return (from + bytes) as Offset;
}

/** Which of the two surfaces a request came in on: they differ where the base protocol and the extension profile do. */
export type Dialect = 'bucketed' | 'base';
