/**
 * Reads of objects that were written a moment ago (architecture section 6, step 3).
 *
 * Owns: the time that a store gets to show them. Not every store lists or gives an object as soon as it has taken it; that such an object is missing is no damage before that time is over (I9), and
 * to write its bytes again under another name would only begin the wait anew.
 */
import { crc32c } from '../../../shared/storage/crc.js';
import { DATA_OBJECT_BYTES_MAX } from '../../../shared/storage/data-object.js';
import { ObjectDamaged, ObjectMissing, type ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import type { ObjectInfo } from '../../../shared/storage/records/types.js';
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

/** A data object as it was written. Throws `ObjectDamaged` when other bytes are there, and like `onceShown`. */
export function writtenBody(store: ObjectStore, object: ObjectInfo, signal: AbortSignal): Promise<Buffer> {
  return onceShown(() => wholeBody(store, object, signal), signal);
}

/** Taken and summed piece by piece: 32 MiB at once would make every append wait for some milliseconds. */
async function wholeBody(store: ObjectStore, object: ObjectInfo, signal: AbortSignal): Promise<Buffer> {
  const key = objectKey(object.id);
  if (object.bytes > DATA_OBJECT_BYTES_MAX) throw new ObjectDamaged(key, `said to be ${object.bytes} bytes long`);
  const body = Buffer.allocUnsafeSlow(object.bytes);
  let at = 0;
  let crc = 0;
  for await (const piece of store.stream(key, undefined, signal)) {
    if (at + piece.length > body.length) throw new ObjectDamaged(key, `longer than the ${object.bytes} bytes that were written`);
    body.set(piece, at);
    crc = crc32c(piece, crc);
    at += piece.length;
  }
  if (at !== object.bytes || crc !== object.crc) throw new ObjectDamaged(key, 'read back other than it was written');
  return body;
}
