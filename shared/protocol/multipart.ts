/**
 * Framing of a bootstrap answer (requirements section 21, RFC 2046 5.1).
 *
 * Promises: a part is head, body, `PART_TAIL`; nothing in a body is looked at: the
 * boundary has 128 random bits, so no stored content can hold it (BOOT-16 .. BOOT-18).
 */

/** Ends each part's body. */
export const PART_TAIL = Buffer.from('\r\n');
const BOUNDARY_RANDOM_BYTES = 16;

/** A boundary of its own for one answer. `random` gives so many unpredictable bytes, as `crypto.randomBytes`. */
export function newBoundary(random: (bytes: number) => Buffer): string {
  return `firn-bootstrap-${random(BOUNDARY_RANDOM_BYTES).toString('hex')}`;
}

/** `Content-Type` of the answer. */
export function multipartType(boundary: string): string {
  return `multipart/mixed; boundary=${boundary}`;
}

/** What stands in front of a part's body. `contentType` was checked: it holds no line break. */
export function partHead(boundary: string, contentType: string): Buffer {
  return Buffer.from(`--${boundary}\r\nContent-Type: ${contentType}\r\n\r\n`, 'latin1');
}

/** What stands behind the last part. */
export function multipartEnd(boundary: string): Buffer {
  return Buffer.from(`--${boundary}--\r\n`, 'latin1');
}
