/**
 * Entity tags of stream ranges, and `If-None-Match` (requirements section 16).
 *
 * Promises: two answers with one tag have the same bytes, form and end state: bytes at an offset never change within an incarnation
 * (APP-13), the form is part of the tag (CACHE-15), and so is the session wherever a restore could take the range back (architecture
 * section 6).
 */
import type { Incarnation, Offset } from './types.js';

export interface TaggedRange {
  readonly incarnation: Incarnation;
  readonly start: Offset;
  readonly end: Offset;
  /** Body form: bytes as stored, NDJSON, or a JSON array. */
  readonly form: 'raw' | 'ndjson' | 'array';
  /** Where the range ends: below the tail, at the tail, or at the tail of a closed stream (CACHE-05). A stored answer repeats its end
   * state when it is validated, so one below the tail must not be validated by one at the tail. */
  readonly at: 'below' | 'tail' | 'closed';
  /** Session of a range that ends above the logged frontier, else null. */
  readonly session: number | null;
}

const FORM = { raw: 'r', ndjson: 'n', array: 'a' } as const;
const END = { below: 'b', tail: 't', closed: 'c' } as const;

/** A strong tag, quotes included (CACHE-02, CACHE-03). */
export function rangeTag({ incarnation, start, end, form, at, session }: TaggedRange): string {
  const tail = session === null ? '"' : `-${session}"`;
  return `"${incarnation}-${start}-${end}-${FORM[form]}${END[at]}${tail}`;
}

/** The tag of a snapshot: its digest (SNAP-34). */
export function snapshotTag(digest: string): string {
  return `"${digest}"`;
}

/**
 * Whether an `If-None-Match` value names `tag`, by weak comparison (RFC 9110 13.1.2). `*` names no tag: who has nothing stored could not
 * use a 304.
 */
export function matchesIfNoneMatch(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false;
  if (header === tag) return true;
  const wanted = opaque(tag);
  let at = 0;
  for (;;) {
    const open = header.indexOf('"', at);
    const close = open < 0 ? -1 : header.indexOf('"', open + 1);
    if (close < 0) return false;
    if (close + 1 - open === wanted.length && header.startsWith(wanted, open)) return true;
    at = close + 1;
  }
}

function opaque(tag: string): string {
  return tag.startsWith('W/') ? tag.slice(2) : tag;
}
