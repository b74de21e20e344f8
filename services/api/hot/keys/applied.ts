/** How far the log of a partition was applied to this store: `kind | partition (2)` -> session, sequence, slices done of the record in work. */
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putU16, within, type KeyRange } from './layout.js';

const VERSION = 1;

export interface Applied {
  readonly session: number;
  readonly seq: number;
  readonly slice: number;
}

export const appliedRow = {
  kind: KIND.applied,
  key(partition: number): Buffer {
    const key = newKey(KIND.applied, 2);
    putU16(key, partition, 1);
    return key;
  },
  range(): KeyRange {
    return within(newKey(KIND.applied, 0));
  },
  decodeKey(key: Buffer): { readonly partition: number } {
    const reader = new KeyReader(key, 'applied', KIND.applied, 2);
    const decoded = { partition: reader.u16() };
    reader.end();
    return decoded;
  },
  encode(applied: Applied): Buffer {
    return encodeStored(VERSION, applied, (writer, value) => {
      writer.varint(value.session);
      writer.varint(value.seq);
      writer.varint(value.slice);
    });
  },
  decode(value: Buffer): Applied {
    return decodeStored(value, 'applied row', VERSION, (reader) => ({ session: reader.varint(), seq: reader.varint(), slice: reader.varint() }));
  },
};
