/**
 * Cursors of many streams that a pattern matched, as they were when the row was written: `kind | number of the subscription (4) | page (4)` -> pairs of incarnation and cursor. The page of a stream
 * follows from its incarnation. A stream may have a row of its own too (`subscriptionCursorRow`): cursors only grow, so the larger one counts.
 */
import { decodeStored, encodeStored } from '../../../../shared/storage/codec.js';
import { LINK_CURSOR_BYTES_MIN, readLinkCursor, writeLinkCursor } from '../../../../shared/storage/records/subscription-config.js';
import type { LinkCursor } from '../../../../shared/storage/records/types.js';
import { KIND, KeyReader, newKey, putU32, within, type KeyRange } from './layout.js';

const VERSION = 1;

export const subscriptionBaseRow = {
  kind: KIND.subscriptionBase,
  key(number: number, page: number): Buffer {
    const key = newKey(KIND.subscriptionBase, 8);
    putU32(key, number, 1);
    putU32(key, page, 5);
    return key;
  },
  range(number: number): KeyRange {
    const prefix = newKey(KIND.subscriptionBase, 4);
    putU32(prefix, number, 1);
    return within(prefix);
  },
  decodeKey(key: Buffer): { readonly number: number; readonly page: number } {
    const reader = new KeyReader(key, 'subscription base', KIND.subscriptionBase, 8);
    const decoded = { number: reader.u32(), page: reader.u32() };
    reader.end();
    return decoded;
  },
  encode(links: readonly LinkCursor[]): Buffer {
    return encodeStored(VERSION, links, (writer) => {
      writer.varint(links.length);
      for (const link of links) writeLinkCursor(writer, link);
    });
  },
  decode(value: Buffer): LinkCursor[] {
    return decodeStored(value, 'subscription base row', VERSION, (reader) => reader.many(LINK_CURSOR_BYTES_MIN, readLinkCursor));
  },
};
