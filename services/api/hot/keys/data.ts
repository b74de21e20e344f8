/**
 * Bytes of a stream: `kind | slot (2) | incarnation (8) | end offset (8)` -> an encoded block. Never changed, but small neighbours are folded into one; gone
 * when evicted, trimmed or deleted. Keys end in the END so that a read at any offset is one seek forward to the value that holds it.
 */
import type { Incarnation, Offset } from '../../../../shared/protocol/types.js';
import { BLOCK_PAYLOAD_MAX } from '../../../../shared/storage/block.js';
import { KIND, KeyReader, newOffsetKey, SLOTS_END, U64_END, withinSlots, type KeyRange } from './layout.js';

export const dataRow = {
  kind: KIND.data,
  key(slot: number, incarnation: Incarnation, end: Offset): Buffer {
    return newOffsetKey(KIND.data, slot, incarnation, end);
  },
  /** Values whose end lies in [fromEnd, toEnd); all of them without bounds. */
  range(slot: number, incarnation: Incarnation, fromEnd = 0, toEnd: number = U64_END): KeyRange {
    return { from: newOffsetKey(KIND.data, slot, incarnation, fromEnd), to: newOffsetKey(KIND.data, slot, incarnation, toEnd) };
  },
  /** Values that may hold bytes of [from, to): the last one may end a block later. */
  covering(slot: number, incarnation: Incarnation, from: Offset, to: Offset): KeyRange {
    return dataRow.range(slot, incarnation, from + 1, Math.min(U64_END, to + BLOCK_PAYLOAD_MAX));
  },
  /** Values of all streams of the slots [from, to). */
  slots(from = 0, to = SLOTS_END): KeyRange {
    return withinSlots(KIND.data, from, to);
  },
  decodeKey(key: Buffer): { readonly slot: number; readonly incarnation: Incarnation; readonly end: Offset } {
    const reader = new KeyReader(key, 'data', KIND.data, 18);
    const decoded = { slot: reader.u16(), incarnation: reader.incarnation(), end: reader.offset() };
    reader.end();
    return decoded;
  },
  /** The encoded block as it is: it carries its own sums. */
  encode(block: Buffer): Buffer {
    return block;
  },
  decode(value: Buffer): Buffer {
    return value;
  },
};
