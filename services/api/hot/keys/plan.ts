/** A job's plan and how far it got: `kind | partition (2) | session (4) | plan (8)` -> `Plan`. Replaced by each step, gone when it is finished and cleaned up. */
import { decodePlan, encodePlan, type Plan } from '../../../../shared/storage/records/plan.js';
import { KIND, KeyReader, newKey, putU16, putU32, putU64, within, type KeyRange } from './layout.js';

export const planRow = {
  kind: KIND.plan,
  key(partition: number, session: number, plan: number): Buffer {
    const key = newKey(KIND.plan, 14);
    putU16(key, partition, 1);
    putU32(key, session, 3);
    putU64(key, plan, 7);
    return key;
  },
  /** Plans of a partition, or of one session of it. */
  range(partition: number, session?: number): KeyRange {
    const prefix = newKey(KIND.plan, session === undefined ? 2 : 6);
    putU16(prefix, partition, 1);
    if (session !== undefined) putU32(prefix, session, 3);
    return within(prefix);
  },
  decodeKey(key: Buffer): { readonly partition: number; readonly session: number; readonly plan: number } {
    const reader = new KeyReader(key, 'plan', KIND.plan, 14);
    const decoded = { partition: reader.u16(), session: reader.u32(), plan: reader.u64() };
    reader.end();
    return decoded;
  },
  encode(plan: Plan): Buffer {
    return encodePlan(plan);
  },
  decode(value: Buffer): Plan {
    return decodePlan(value);
  },
};
