/**
 * How bytes of a stream become SSE data events (requirements sections 9 and 10).
 *
 * Owns: the choice of the form, and where an event may end. Promises: no text event splits a character (SSE-21); an array holds whole
 * messages; what is not sent yet begins exactly where the event ended (SSE-06). A CR at the tail is sent at once, as nobody knows what
 * will follow: should an LF come with a later append, a reader at the tail sees two line breaks. Everywhere else CR LF arrives as one.
 */
import { isJson, isText } from '../../../shared/protocol/content-type.js';
import { dataEventBase64, dataEventJsonArray, dataEventText } from '../../../shared/protocol/sse.js';
import type { Dialect } from '../../../shared/protocol/types.js';
import { wholeCharacters } from '../../../shared/protocol/utf8.js';

/** `ndjson`: JSON of the bucketed surface; `array`: JSON of the base surface. */
export type Representation = 'text' | 'ndjson' | 'array' | 'base64';

const LF = 10;
const CR = 13;

export function representationOf(contentType: string, dialect: Dialect): Representation {
  if (isJson(contentType)) return dialect === 'base' ? 'array' : 'ndjson';
  return isText(contentType) ? 'text' : 'base64';
}

/** Where a read for this form may be cut. */
export function cutOf(representation: Representation): 'bytes' | 'messages' {
  return representation === 'array' ? 'messages' : 'bytes';
}

/** `tail`: the bytes reach the tail of the stream; `end`: and it is closed, so nothing follows. */
export type Reach = 'below' | 'tail' | 'end';

/** How many of the bytes go into the event; the rest waits for what follows it. 0: nothing can be sent yet. */
export function eventLength(representation: Representation, bytes: Buffer, reach: Reach): number {
  if (representation === 'array' || representation === 'base64') return bytes.length;
  const whole = wholeCharacters(bytes, reach === 'end');
  if (reach !== 'below' || whole === 0) return whole;
  if (representation === 'ndjson') {
    const lastBreak = bytes.lastIndexOf(LF, whole - 1);
    return lastBreak < 0 ? whole : lastBreak + 1;
  }
  // CR and LF of one line break stay together, or it would arrive as two.
  return whole > 1 && bytes[whole - 1] === CR ? whole - 1 : whole;
}

export function dataEvent(representation: Representation, bytes: Buffer): Buffer {
  switch (representation) {
    case 'text':
    case 'ndjson':
      return dataEventText(bytes);
    case 'array':
      return dataEventJsonArray(bytes);
    case 'base64':
      return dataEventBase64(bytes);
  }
}
