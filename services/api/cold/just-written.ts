/**
 * Reads of objects that were written a moment ago (design section 6, step 3).
 *
 * Owns: the time that a store gets to show them. Not every store lists or gives an object as soon as it has taken it; that such an object is missing is no damage before that time is over (I9), and
 * to write its bytes again under another name would only begin the wait anew.
 */
import { ObjectMissing } from '../../../shared/storage/object-store.js';
import { pause } from '../../../shared/time/pause.js';
import { SHOWN_TRIES_MAX, SHOWN_WAIT_MS } from './limits.js';

/** What `read` gives once the store shows the object. Throws `ObjectMissing` when it never does, and whatever else `read` throws at once. */
export async function onceShown<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ObjectMissing) || tries >= SHOWN_TRIES_MAX) throw error;
      await pause(SHOWN_WAIT_MS * 2 ** (tries - 1), signal);
    }
  }
}
