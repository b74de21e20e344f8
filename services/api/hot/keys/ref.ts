/**
 * Where a sealed range of a stream lies: `kind | slot (2) | incarnation (8) | end offset (8)` -> `ColdRef`. Written when a log record is applied, replaced by
 * compaction, gone with retention or the stream. As with data, keys end in the END.
 */
import type { Incarnation, Offset } from '../../../../shared/protocol/types.js';
import { decodeColdRef, encodeColdRef } from '../../../../shared/storage/records/cold-ref.js';
import type { ColdRef } from '../../../../shared/storage/records/types.js';
import { KIND, KeyReader, newOffsetKey, SLOTS_END, U64_END, withinSlots, type KeyRange } from './layout.js';

export const refRow = {
  kind: KIND.ref,
  key(slot: number, incarnation: Incarnation, end: Offset): Buffer {
    return newOffsetKey(KIND.ref, slot, incarnation, end);
  },
  /** References whose end lies in [fromEnd, toEnd); the one that holds offset `o` is the first with an end of at least `o + 1`. */
  range(slot: number, incarnation: Incarnation, fromEnd = 0, toEnd: number = U64_END): KeyRange {
    return { from: newOffsetKey(KIND.ref, slot, incarnation, fromEnd), to: newOffsetKey(KIND.ref, slot, incarnation, toEnd) };
  },
  /** References of all streams of the slots [from, to). */
  slots(from = 0, to = SLOTS_END): KeyRange {
    return withinSlots(KIND.ref, from, to);
  },
  decodeKey(key: Buffer): { readonly slot: number; readonly incarnation: Incarnation; readonly end: Offset } {
    const reader = new KeyReader(key, 'reference', KIND.ref, 18);
    const decoded = { slot: reader.u16(), incarnation: reader.incarnation(), end: reader.offset() };
    reader.end();
    return decoded;
  },
  encode(ref: ColdRef): Buffer {
    return encodeColdRef(ref);
  },
  decode(value: Buffer): ColdRef {
    return decodeColdRef(value);
  },
};
