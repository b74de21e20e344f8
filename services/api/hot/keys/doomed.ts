/** An incarnation that was deleted and whose rows are still to be removed: `kind | slot (2) | incarnation (8)` -> stream key. Gone when the work is done. */
import type { Incarnation, StreamKey } from '../../../../shared/protocol/types.js';
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newIncarnationKey, SLOTS_END, withinSlots, type KeyRange } from './layout.js';

const VERSION = 1;

export interface Doomed {
  readonly key: StreamKey;
}

export const doomedRow = {
  kind: KIND.doomed,
  key(slot: number, incarnation: Incarnation): Buffer {
    return newIncarnationKey(KIND.doomed, slot, incarnation, 0);
  },
  /** All of the slots [from, to). */
  range(from = 0, to = SLOTS_END): KeyRange {
    return withinSlots(KIND.doomed, from, to);
  },
  decodeKey(key: Buffer): { readonly slot: number; readonly incarnation: Incarnation } {
    const reader = new KeyReader(key, 'doomed', KIND.doomed, 10);
    const decoded = { slot: reader.u16(), incarnation: reader.incarnation() };
    reader.end();
    return decoded;
  },
  encode(doomed: Doomed): Buffer {
    return encodeStored(VERSION, doomed, (writer, value) => writer.string(value.key));
  },
  decode(value: Buffer): Doomed {
    return decodeStored(value, 'doomed row', VERSION, (reader) => ({ key: reader.string() as StreamKey }));
  },
};
