/**
 * What bodies and ranges an object store takes, the same for every implementation.
 */
import type { ByteRange } from './object-store.js';
import { lengthOf } from './pieces.js';

/** Largest body of `putOnce`, bytes. */
const PUT_ONCE_BYTES_MAX = 67_108_864;

/** The length of a body that `putOnce` takes. Throws RangeError. */
export function putOnceBytes(key: string, parts: readonly Buffer[]): number {
  const bytes = lengthOf(parts);
  if (bytes > PUT_ONCE_BYTES_MAX) throw new RangeError(`${bytes} bytes for ${key}, at most ${PUT_ONCE_BYTES_MAX} in one put`);
  return bytes;
}

/** Throws RangeError for what is not a range. */
export function checkRange(range: ByteRange | undefined): void {
  if (range !== undefined && !(Number.isSafeInteger(range.from) && Number.isSafeInteger(range.length) && range.from >= 0 && range.length >= 0)) {
    throw new RangeError(`${range.length} bytes from ${range.from} are no range: both are whole numbers from 0 on`);
  }
}

/** Passes a body on; throws Error when it is not as long as was declared. */
export async function* exactLength(body: AsyncIterable<Buffer>, bytes: number, key: string): AsyncGenerator<Buffer> {
  let seen = 0;
  for await (const part of body) {
    seen += part.length;
    if (seen > bytes) break;
    yield part;
  }
  if (seen !== bytes) throw new Error(`${seen > bytes ? 'more than ' : ''}${Math.min(seen, bytes)} bytes for ${key}, ${bytes} were declared`);
}
