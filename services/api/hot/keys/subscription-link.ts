/** A stream that a subscription names itself: `kind | number of the subscription (4) | stream key` -> its incarnation (0: there was none) and cursor. Replaced, deleted with the link. */
import type { StreamKey } from '../../../../shared/protocol/types.js';
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { readLinkCursor, writeLinkCursor } from '../../../../shared/storage/records/subscription-config.js';
import type { LinkCursor } from '../../../../shared/storage/records/types.js';
import { KIND, KeyReader, newKey, putText, putU32, textBytes, within, type KeyRange } from './layout.js';

const VERSION = 1;

export const subscriptionLinkRow = {
  kind: KIND.subscriptionLink,
  key(number: number, key: StreamKey): Buffer {
    const row = newKey(KIND.subscriptionLink, 4 + textBytes(key));
    putU32(row, number, 1);
    return putText(row, key, 5);
  },
  range(number: number): KeyRange {
    const prefix = newKey(KIND.subscriptionLink, 4);
    putU32(prefix, number, 1);
    return within(prefix);
  },
  decodeKey(row: Buffer): { readonly number: number; readonly key: StreamKey } {
    const reader = new KeyReader(row, 'subscription link', KIND.subscriptionLink, 5);
    return { number: reader.u32(), key: reader.streamKey() };
  },
  encode(link: LinkCursor): Buffer {
    return encodeStored(VERSION, link, writeLinkCursor);
  },
  decode(value: Buffer): LinkCursor {
    return decodeStored(value, 'subscription link row', VERSION, readLinkCursor);
  },
};
