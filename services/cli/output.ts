/**
 * Writing to pipes that may be slow or closed.
 */
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { OutputClosed } from './failures.js';

export function isClosedPipe(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === 'EPIPE';
}

/** Writes and waits until the other side takes more. Throws `OutputClosed` when it takes no more at all. */
export async function write(stream: Writable, chunk: string | Uint8Array): Promise<void> {
  if (isClosedPipe(stream.errored)) throw new OutputClosed();
  if (stream.write(chunk)) return;
  try {
    await once(stream, 'drain');
  } catch (error) {
    throw isClosedPipe(error) ? new OutputClosed() : error;
  }
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
