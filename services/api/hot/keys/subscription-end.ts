/**
 * A subscription that was deleted: `kind | id` -> its last generation, its number and when. A later one of the same id goes on counting from there (SUB-57). The number is 0 once its
 * rows of links are gone too.
 */
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

const VERSION = 1;

export interface SubscriptionEnd {
  readonly generation: number;
  readonly number: number;
  readonly atMs: number;
}

export const subscriptionEndRow = {
  kind: KIND.subscriptionEnd,
  key(id: string): Buffer {
    return putText(newKey(KIND.subscriptionEnd, textBytes(id)), id, 1);
  },
  range(): KeyRange {
    return within(newKey(KIND.subscriptionEnd, 0));
  },
  decodeKey(key: Buffer): { readonly id: string } {
    return { id: new KeyReader(key, 'subscription end', KIND.subscriptionEnd, 1).text() };
  },
  encode(end: SubscriptionEnd): Buffer {
    return encodeStored(VERSION, end, (writer, { generation, number, atMs }) => {
      writer.varint(generation);
      writer.varint(number);
      writer.varint(atMs);
    });
  },
  decode(value: Buffer): SubscriptionEnd {
    return decodeStored(value, 'subscription end row', VERSION, (reader) => ({ generation: reader.varint(), number: reader.varint(), atMs: reader.varint() }));
  },
};
