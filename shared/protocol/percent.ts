/**
 * Percent-escapes of one path segment.
 *
 * Promises: escapes are decoded once and strictly; the result is what the bytes spell in UTF-8, or a 400 (ID-13). Bytes that came
 * unescaped (Node hands them over as one character each) count as the bytes they are.
 */
import { isUtf8 } from 'node:buffer';
import { FirnError, type ErrorCode } from './errors.js';

const PERCENT = 37;

/** Decodes `raw`, a part of the request target as received. Throws `code` for broken escapes and invalid UTF-8. */
export function decodeEscapes(raw: string, code: ErrorCode): string {
  for (let i = 0; i < raw.length; i++) {
    const unit = raw.charCodeAt(i);
    if (unit === PERCENT || unit > 126) return decodeSlowly(raw, code);
  }
  return raw;
}

function decodeSlowly(raw: string, code: ErrorCode): string {
  const bytes = Buffer.allocUnsafe(raw.length);
  let length = 0;
  for (let i = 0; i < raw.length; i++) {
    let byte = raw.charCodeAt(i);
    if (byte === PERCENT) {
      byte = hexDigit(raw.charCodeAt(i + 1)) * 16 + hexDigit(raw.charCodeAt(i + 2));
      if (Number.isNaN(byte)) throw new FirnError(code, { detail: 'a percent escape in the path is broken' });
      i += 2;
    }
    if (byte > 255) throw new FirnError(code, { detail: 'the path holds a character outside a byte' });
    bytes[length++] = byte;
  }
  const decoded = bytes.subarray(0, length);
  if (!isUtf8(decoded)) throw new FirnError(code, { detail: 'the path does not decode to UTF-8' });
  return decoded.toString('utf8');
}

/** NaN for anything but a hex digit, the end of the text included. */
function hexDigit(unit: number): number {
  if (unit >= 48 && unit <= 57) return unit - 48;
  const lower = unit | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : NaN;
}
