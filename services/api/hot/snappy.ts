/**
 * Decompression of Snappy blocks, as far as table files need it.
 *
 * Owns: the decoder. Promises: it never reads or writes beyond its buffers; null for anything that is not one whole Snappy block.
 */

/** Largest block that is decompressed, in bytes: an index of a table of 64 MiB takes well below 1 MiB. */
const DECOMPRESSED_BYTES_MAX = 67_108_864;

export function unsnappy(input: Buffer): Buffer | null {
  let at = 0;
  let length = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = input[at++];
    if (byte === undefined || shift > 28) return null;
    length += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) break;
  }
  if (length > DECOMPRESSED_BYTES_MAX) return null;
  const output = Buffer.allocUnsafe(length);
  let filled = 0;
  while (at < input.length) {
    const tag = input[at++] as number;
    if ((tag & 3) === 0) {
      let bytes = (tag >>> 2) + 1;
      const extra = bytes - 60;
      if (extra > 0) {
        if (at + extra > input.length) return null;
        bytes = input.readUIntLE(at, extra) + 1;
        at += extra;
      }
      if (at + bytes > input.length || filled + bytes > length) return null;
      input.copy(output, filled, at, at + bytes);
      at += bytes;
      filled += bytes;
      continue;
    }
    const offsetBytes = (tag & 3) === 1 ? 1 : (tag & 3) === 2 ? 2 : 4;
    if (at + offsetBytes > input.length) return null;
    const low = input.readUIntLE(at, offsetBytes);
    const [back, bytes] = offsetBytes === 1 ? [((tag & 0xe0) << 3) | low, ((tag >>> 2) & 7) + 4] : [low, (tag >>> 2) + 1];
    at += offsetBytes;
    if (back === 0 || back > filled || filled + bytes > length) return null;
    // The source may overlap what is being written: byte by byte.
    for (let index = 0; index < bytes; index++, filled++) output[filled] = output[filled - back] as number;
  }
  return filled === length ? output : null;
}
