/**
 * Proof that a body arrived as it was sent: its SHA-256, covered by the signature of the request.
 *
 * Owns: how it gets there. Every server that speaks version 4 of the signature compares it with what it received (a mismatch is refused as
 * `XAmzContentSHA256Mismatch` and tried again), which is more than can be said of any newer checksum header. It is made once for all tries, in slices, so that
 * requests of clients run in between: 64 MiB at once would hold them up for as long as they take.
 */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { UPLOAD_PIECE_BYTES } from './limits.js';

/** Hashed between two turns of the event loop, bytes: under a millisecond. */
const SLICE_BYTES = 1_048_576;

/** In hex. */
export async function bodyHash(parts: readonly Buffer[]): Promise<string> {
  const hash = createHash('sha256');
  let sinceTurn = 0;
  for (const piece of pieces(parts)) {
    hash.update(piece);
    sinceTurn += piece.length;
    if (sinceTurn < SLICE_BYTES) continue;
    sinceTurn = 0;
    await setImmediate();
  }
  return hash.digest('hex');
}

/** The same bytes in pieces of at most `UPLOAD_PIECE_BYTES`. */
export function* pieces(parts: readonly Buffer[]): Generator<Buffer> {
  for (const part of parts) for (let at = 0; at < part.length; at += UPLOAD_PIECE_BYTES) yield part.subarray(at, at + UPLOAD_PIECE_BYTES);
}

/** The middleware of a command that sends a body: the signer takes the hash from this header instead of making it. */
export function signedHash(hash: string) {
  return <Args extends { request: unknown }, Result>(next: (args: Args) => Promise<Result>) => (args: Args): Promise<Result> => {
    (args.request as { headers: Record<string, string> }).headers['x-amz-content-sha256'] = hash;
    return next(args);
  };
}
