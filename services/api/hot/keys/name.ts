/** Index of stream keys in bytewise order, for listing: `kind | stream key` -> nothing. Lives as long as the stream's state. */
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { BadBytes } from '../../../../shared/storage/codec.js';
import { EMPTY, KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

function key(text: string): Buffer {
  return putText(newKey(KIND.name, textBytes(text)), text, 1);
}

export const nameRow = {
  kind: KIND.name,
  key(streamKey: StreamKey): Buffer {
    return key(streamKey);
  },
  /** Streams whose key begins with `prefix` and lies above `after`. */
  range(prefix = '', after?: string): KeyRange {
    const all = within(key(prefix));
    if (after === undefined) return all;
    const next = Buffer.concat([key(after), Buffer.from([0])]);
    return Buffer.compare(next, all.from) > 0 ? { from: next, to: all.to } : all;
  },
  decodeKey(row: Buffer): { readonly key: StreamKey } {
    return { key: new KeyReader(row, 'name', KIND.name, 1).streamKey() };
  },
  encode(): Buffer {
    return EMPTY;
  },
  decode(value: Buffer): void {
    if (value.length !== 0) throw new BadBytes('name row', 'has a value');
  },
};
