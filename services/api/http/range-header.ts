/**
 * `Range` on snapshot reads (SNAP-34, RFC 9110 section 14).
 *
 * Promises: one range of bytes is understood; anything else (several ranges, another unit, nonsense) asks for the whole.
 */

export type ByteRange =
  | { readonly kind: 'whole' }
  | { readonly kind: 'part'; readonly from: number; readonly length: number }
  /** No byte of the body lies in the range. */
  | { readonly kind: 'outside' };

const WHOLE: ByteRange = { kind: 'whole' };
const OUTSIDE: ByteRange = { kind: 'outside' };
const ONE_RANGE = /^bytes[ \t]*=[ \t]*([0-9]*)[ \t]*-[ \t]*([0-9]*)[ \t]*$/i;

/** `size`: bytes of the body. */
export function parseRange(header: string | undefined, size: number): ByteRange {
  const match = header === undefined ? null : ONE_RANGE.exec(header);
  if (match === null) return WHOLE;
  const first = match[1]!;
  const last = match[2]!;
  if (first === '') return last === '' ? WHOLE : suffix(Number(last), size);
  const from = Number(first);
  const to = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  // A range that ends before it begins is no valid range and counts as absent.
  if (last !== '' && Number(last) < from) return WHOLE;
  return from >= size ? OUTSIDE : { kind: 'part', from, length: to - from + 1 };
}

function suffix(bytes: number, size: number): ByteRange {
  if (bytes === 0 || size === 0) return OUTSIDE;
  const length = Math.min(bytes, size);
  return { kind: 'part', from: size - length, length };
}
