/**
 * A reader of `multipart/mixed` bodies by RFC 2046, independent of the code that writes them.
 */
import type { Answer } from './http.js';

export interface Part {
  readonly contentType: string;
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** The boundary that the answer's content type names. */
export function boundaryOf(answer: Answer): string {
  const found = /^multipart\/mixed;\s*boundary="?([^";]+)"?$/.exec(answer.need('content-type'));
  if (found?.[1] === undefined) throw new Error(`not a multipart type: ${answer.header('content-type')}`);
  return found[1];
}

/** Splits a multipart body into its parts; fails on any byte out of place, the closing delimiter included. */
export function partsOf(answer: Answer): Part[] {
  const delimiter = Buffer.from(`--${boundaryOf(answer)}`);
  const body = answer.body;
  const parts: Part[] = [];
  if (!body.subarray(0, delimiter.length).equals(delimiter)) throw new Error('the body does not begin with the delimiter');
  let at = delimiter.length;
  while (body.toString('latin1', at, at + 2) === '\r\n') {
    const headEnd = body.indexOf('\r\n\r\n', at);
    if (headEnd < 0) throw new Error('a part has no end of headers');
    const headers = headEnd === at ? [] : body.toString('latin1', at + 2, headEnd).split('\r\n');
    const bodyAt = headEnd + 4;
    const end = body.indexOf(Buffer.concat([Buffer.from('\r\n'), delimiter]), bodyAt);
    if (end < 0) throw new Error('a part has no end');
    const type = headers.find((line) => line.toLowerCase().startsWith('content-type:'));
    parts.push({ contentType: type?.slice('content-type:'.length).trim() ?? '', headers, body: body.subarray(bodyAt, end) });
    at = end + 2 + delimiter.length;
  }
  const rest = body.toString('latin1', at);
  if (rest !== '--' && rest !== '--\r\n') throw new Error(`the body does not end with the closing delimiter: ${JSON.stringify(rest.slice(0, 40))}`);
  return parts;
}
