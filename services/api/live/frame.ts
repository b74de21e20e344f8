/**
 * One write of an SSE answer: its bytes, and the same as a chunk of HTTP/1.1.
 *
 * Promises: built once, written to any number of sockets, never changed.
 */

const CRLF = '\r\n';

export class Frame {
  /** With chunk head and tail, for a socket that is written directly. */
  readonly framed: Buffer;
  /** The bytes alone, for an answer that Node frames itself. */
  readonly payload: Buffer;

  /** `parts`: not empty together; an empty chunk would end the answer. */
  constructor(...parts: readonly Buffer[]) {
    let bytes = 0;
    for (const part of parts) bytes += part.length;
    if (bytes === 0) throw new Error('a chunk holds at least one byte');
    const head = bytes.toString(16) + CRLF;
    const framed = Buffer.allocUnsafe(head.length + bytes + CRLF.length);
    let at = framed.write(head, 0, 'latin1');
    for (const part of parts) at += part.copy(framed, at);
    framed.write(CRLF, at, 'latin1');
    this.framed = framed;
    this.payload = framed.subarray(head.length, head.length + bytes);
  }
}
