/**
 * What may be a key of the object store, the same for every implementation.
 *
 * Owns: the rule: segments of visible ASCII letters, digits and `-_.`, none of them starting with a dot, joined by single slashes. So no key leaves the store's
 * place (`..`), hides in it, or means something else on another store.
 */
const SEGMENT = /^[A-Za-z0-9_-][A-Za-z0-9_.-]*$/;
/** S3 takes 1,024 bytes, a part of which is the bucket's prefix; a file name takes 255. */
export const KEY_BYTES_MAX = 512;
const SEGMENT_BYTES_MAX = 200;

/** Throws RangeError for what is not a key. */
export function checkKey(key: string): void {
  const sound = key.length <= KEY_BYTES_MAX && key.split('/').every((segment) => segment.length <= SEGMENT_BYTES_MAX && SEGMENT.test(segment));
  if (!sound) throw new RangeError(`not an object key: ${JSON.stringify(key.slice(0, 100))}`);
}

/** A prefix of a possible key, the empty one included. Throws RangeError. */
export function checkPrefix(prefix: string): void {
  if (prefix !== '') checkKey(prefix.endsWith('/') ? `${prefix}x` : prefix);
}
