/** A purged bucket whose id is not taken again: `kind | bucket id` -> when. Never changed. */
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

const VERSION = 1;

export interface BucketFence {
  readonly atMs: number;
}

export const bucketFenceRow = {
  kind: KIND.bucketFence,
  key(bucket: string): Buffer {
    return putText(newKey(KIND.bucketFence, textBytes(bucket)), bucket, 1);
  },
  range(): KeyRange {
    return within(newKey(KIND.bucketFence, 0));
  },
  decodeKey(key: Buffer): { readonly bucket: string } {
    return { bucket: new KeyReader(key, 'bucket fence', KIND.bucketFence, 1).text() };
  },
  encode(fence: BucketFence): Buffer {
    return encodeStored(VERSION, fence, (writer, value) => writer.varint(value.atMs));
  },
  decode(value: Buffer): BucketFence {
    return decodeStored(value, 'bucket fence row', VERSION, (reader) => ({ atMs: reader.varint() }));
  },
};
