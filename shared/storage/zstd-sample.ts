/**
 * A guess, from a sample, at what zstd makes of some bytes: whether it will be through with them quickly.
 *
 * Owns: the sample. A wrong guess costs time on this thread or the other and nothing else: the result is that of zstd in either case.
 */

/** Bytes looked at; some 3 us. */
const SAMPLE_BYTES = 2_048;
/** Pairs of equal bytes against those of random ones, 1 in 256, of which the sample is off by a hundredth: zstd gives up on such bytes within 20 us for 128 KiB, where text takes 200. */
const RANDOM_PAIRS_MAX = 1.25 / 256;
/** ... and nearly all are equal: the rest is one long repeat. */
const EQUAL_PAIRS_MIN = 0.9;

const counts = new Uint32Array(256);

/** Of input in pieces, `bytes` in all: encrypted, compressed and other random bytes, or the same byte over and over. */
export function compressesQuickly(pieces: readonly Uint8Array[], bytes: number): boolean {
  // Odd: records of a length that is a power of two are not met at the same place every time.
  const step = Math.floor(bytes / SAMPLE_BYTES) | 1;
  counts.fill(0);
  let looked = 0;
  let at = 0;
  for (const piece of pieces) {
    for (; at < piece.length; at += step, looked++) {
      const byte = piece[at] as number;
      counts[byte] = (counts[byte] as number) + 1;
    }
    at -= piece.length;
  }
  let pairs = 0;
  for (const count of counts) pairs += count * (count - 1);
  const share = pairs / (looked * (looked - 1));
  return share <= RANDOM_PAIRS_MAX || share >= EQUAL_PAIRS_MIN;
}
