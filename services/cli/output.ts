/**
 * Writing to pipes that may be slow or closed.
 */
import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** Writes and waits until the other side takes more. */
export async function write(stream: Writable, chunk: string | Uint8Array): Promise<void> {
  if (!stream.write(chunk)) await once(stream, 'drain');
}

/** Copies bytes to a stream without ending it; answers how many. */
export async function pump(source: AsyncIterable<Uint8Array>, target: Writable): Promise<number> {
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    await write(target, chunk);
  }
  return bytes;
}
