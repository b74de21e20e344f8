/** Facts about the whole directory: `kind | name` -> raw bytes. The names in use are those of `META`. */
import { KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

export const META = {
  /** Format version of the directory. */
  format: 'format',
  /** Up to which batch the chain of commit markers was checked. */
  verified: 'verified',
} as const;

export const metaRow = {
  kind: KIND.meta,
  key(name: string): Buffer {
    return putText(newKey(KIND.meta, textBytes(name)), name, 1);
  },
  range(): KeyRange {
    return within(newKey(KIND.meta, 0));
  },
  decodeKey(key: Buffer): { readonly name: string } {
    return { name: new KeyReader(key, 'meta', KIND.meta, 1).text() };
  },
  encode(value: Buffer): Buffer {
    return value;
  },
  decode(value: Buffer): Buffer {
    return value;
  },
};
