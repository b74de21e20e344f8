/** How far one stream that a pattern matches was acknowledged: `kind | number of the subscription (4) | incarnation (8)` -> cursor. Replaced, deleted with the stream. */
import type { Incarnation } from '../../../../shared/protocol/types.js';
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putU32, putU64, within, type KeyRange } from './layout.js';

const VERSION = 1;

export const subscriptionCursorRow = {
  kind: KIND.subscriptionCursor,
  key(number: number, incarnation: Incarnation): Buffer {
    const key = newKey(KIND.subscriptionCursor, 12);
    putU32(key, number, 1);
    putU64(key, incarnation, 5);
    return key;
  },
  range(number: number): KeyRange {
    const prefix = newKey(KIND.subscriptionCursor, 4);
    putU32(prefix, number, 1);
    return within(prefix);
  },
  decodeKey(key: Buffer): { readonly number: number; readonly incarnation: Incarnation } {
    const reader = new KeyReader(key, 'subscription cursor', KIND.subscriptionCursor, 12);
    const decoded = { number: reader.u32(), incarnation: reader.incarnation() };
    reader.end();
    return decoded;
  },
  /** -1: nothing was acknowledged. */
  encode(acked: number): Buffer {
    return encodeStored(VERSION, acked, (writer) => writer.varint(acked + 1));
  },
  decode(value: Buffer): number {
    return decodeStored(value, 'subscription cursor row', VERSION, (reader) => reader.varint() - 1);
  },
};
