/**
 * gzip of JSON answers.
 *
 * Promises: a source that fails or ends short makes the compressed form fail too.
 */
import { pipeline, Readable } from 'node:stream';
import { promisify } from 'node:util';
import { constants, createGzip, gzip } from 'node:zlib';
import { resumed } from './answer-body.js';

/** Favours speed: the readers are near, and the event loop is shared. */
const OPTIONS = { level: constants.Z_BEST_SPEED };
const compress = promisify(gzip) as (body: Buffer, options: typeof OPTIONS) => Promise<Buffer>;

/** All of a short source. `length`: its bytes. */
export async function gzipWhole(first: Buffer, rest: AsyncIterator<Buffer>, length: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of resumed([first], rest, length)) pieces.push(piece);
  return compress(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length), OPTIONS);
}

/** A longer source, piece by piece. */
export function gzipPieces(first: Buffer, rest: AsyncIterator<Buffer>, length: number): AsyncIterator<Buffer> {
  const stream = createGzip(OPTIONS);
  // A failure of the source destroys the stream, and so reaches its reader.
  pipeline(Readable.from(resumed([first], rest, length), { objectMode: false }), stream, () => undefined);
  return stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
}
