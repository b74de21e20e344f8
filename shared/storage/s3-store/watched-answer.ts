/**
 * Answers that the SDK reads by itself, such as pages of a listing: as long as their bytes come, the try moves.
 *
 * Owns: how the watch of a try learns of them.
 */
import { Readable } from 'node:stream';
import type { Watch } from './watch.js';

/** The middleware of a command: closest to the connection, before the answer is read. */
export function watchedAnswer(watch: Watch) {
  return <Args, Result extends { response: unknown }>(next: (args: Args) => Promise<Result>) => async (args: Args): Promise<Result> => {
    const result = await next(args);
    const response = result.response as { body: AsyncIterable<Buffer> };
    response.body = Readable.from(noting(response.body, watch), { objectMode: false });
    return result;
  };
}

async function* noting(body: AsyncIterable<Buffer>, watch: Watch): AsyncGenerator<Buffer> {
  for await (const piece of body) {
    watch.arrived(piece.length);
    yield piece;
  }
}
