/**
 * A fork that ended, whose source does not know yet: `kind | slot of the source (2) | incarnation of the source (8) | incarnation of the fork (8)` -> key of the source. Written in the
 * batch that ends the fork, gone with the one that counts it off.
 */
import type { Incarnation, StreamKey } from '../../../../shared/protocol/types.js';
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newIncarnationKey, putU64, SLOTS_END, withinSlots, type KeyRange } from './layout.js';

const VERSION = 1;

export interface Unpin {
  readonly key: StreamKey;
}

export const unpinRow = {
  kind: KIND.unpin,
  key(slot: number, source: Incarnation, fork: Incarnation): Buffer {
    const key = newIncarnationKey(KIND.unpin, slot, source, 8);
    putU64(key, fork, 11);
    return key;
  },
  range(): KeyRange {
    return withinSlots(KIND.unpin, 0, SLOTS_END);
  },
  decodeKey(key: Buffer): { readonly slot: number; readonly source: Incarnation; readonly fork: Incarnation } {
    const reader = new KeyReader(key, 'unpin', KIND.unpin, 18);
    const decoded = { slot: reader.u16(), source: reader.incarnation(), fork: reader.incarnation() };
    reader.end();
    return decoded;
  },
  encode(unpin: Unpin): Buffer {
    return encodeStored(VERSION, unpin, (writer, value) => writer.string(value.key));
  },
  decode(value: Buffer): Unpin {
    return decodeStored(value, 'unpin row', VERSION, (reader) => ({ key: reader.string() as StreamKey }));
  },
};
