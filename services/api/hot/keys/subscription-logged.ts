/** A subscription of which the log holds everything, or whose end it holds: `kind | id` -> none. Gone with the next change that belongs into the log. */
import { BadBytes } from '../../../../shared/storage/codec.js';
import { EMPTY, KIND, KeyReader, newKey, putText, textBytes, within, type KeyRange } from './layout.js';

export const subscriptionLoggedRow = {
  kind: KIND.subscriptionLogged,
  key(id: string): Buffer {
    return putText(newKey(KIND.subscriptionLogged, textBytes(id)), id, 1);
  },
  range(): KeyRange {
    return within(newKey(KIND.subscriptionLogged, 0));
  },
  decodeKey(key: Buffer): { readonly id: string } {
    return { id: new KeyReader(key, 'subscription logged', KIND.subscriptionLogged, 1).text() };
  },
  encode(): Buffer {
    return EMPTY;
  },
  decode(value: Buffer): void {
    if (value.length !== 0) throw new BadBytes('subscription logged row', 'has a value');
  },
};
