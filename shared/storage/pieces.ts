/**
 * Bytes in several pieces that are one value: their length, and how they are laid one behind the other.
 */

export function lengthOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, piece) => sum + piece.length, 0);
}

/** Copies the pieces to `target` from `at` on; where the next one would go. */
export function layDown(pieces: readonly Uint8Array[], target: Uint8Array, at: number): number {
  let end = at;
  for (const piece of pieces) {
    target.set(piece, end);
    end += piece.length;
  }
  return end;
}
