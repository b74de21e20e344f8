/**
 * What an error of the hot store means for work in the background: try again later, or one stream's damage, which is never a reason to stop the others (I9, R123).
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { HotGap, HotStoreBusy, HotStoreCorrupt, HotStorePoisoned } from '../hot/errors.js';
import { StoreClosed } from '../hot/store.js';

/** The store is being opened again, busy, or closed: the same work succeeds later. */
export function isPassing(error: unknown): boolean {
  if (error instanceof StoreClosed || error instanceof HotStorePoisoned || error instanceof HotStoreBusy) return true;
  return error instanceof FirnError && (error.code === 'OUTCOME_UNKNOWN' || error.code === 'GROUP_RESTARTING');
}

/** Stored bytes are not what was written. */
export function isHotDamage(error: unknown): error is Error {
  return error instanceof BadBytes || error instanceof HotStoreCorrupt;
}

/** Damage, or a copy that is not where the stream's state said it is. */
export function isUnreadable(error: unknown): error is Error {
  return isHotDamage(error) || error instanceof HotGap;
}

/** What a row says, null when it is damaged: what rests on many rows goes on with the others. */
export function decodedOr<T>(decode: () => T, damaged: (error: Error) => void): T | null {
  try {
    return decode();
  } catch (error) {
    if (!isHotDamage(error)) throw error;
    damaged(error);
    return null;
  }
}

/** The same of a row that has to be read first. */
export async function readOr<T>(read: () => Promise<T>, damaged: (error: Error) => void): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (!isHotDamage(error)) throw error;
    damaged(error);
    return null;
  }
}
