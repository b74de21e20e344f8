/**
 * The streams of a plan, page by page: `kind | partition (2) | session (4) | plan (8) | page (4)` -> an encoded page of at most 256 KiB, pages from 0. Written with the plan, gone with it.
 */
import { KIND, KeyReader, newKey, putU16, putU32, putU64, within, type KeyRange } from './layout.js';

export const planPageRow = {
  kind: KIND.planPage,
  key(partition: number, session: number, plan: number, page: number): Buffer {
    const key = newKey(KIND.planPage, 18);
    putU16(key, partition, 1);
    putU32(key, session, 3);
    putU64(key, plan, 7);
    putU32(key, page, 15);
    return key;
  },
  /** Pages of one plan. */
  range(partition: number, session: number, plan: number): KeyRange {
    const prefix = newKey(KIND.planPage, 14);
    putU16(prefix, partition, 1);
    putU32(prefix, session, 3);
    putU64(prefix, plan, 7);
    return within(prefix);
  },
  decodeKey(key: Buffer): { readonly partition: number; readonly session: number; readonly plan: number; readonly page: number } {
    const reader = new KeyReader(key, 'plan page', KIND.planPage, 18);
    const decoded = { partition: reader.u16(), session: reader.u32(), plan: reader.u64(), page: reader.u32() };
    reader.end();
    return decoded;
  },
  /** The encoded page as it is: it carries its own sum. */
  encode(page: Buffer): Buffer {
    return page;
  },
  decode(value: Buffer): Buffer {
    return value;
  },
};
