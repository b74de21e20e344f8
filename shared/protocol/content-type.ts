/**
 * Content types: syntax, comparison, and which streams are JSON or text (CRE-22, JSON-01, BIN-01).
 *
 * Promises: a checked type is visible ASCII and safe in a header; the creator's spelling is kept; only type and subtype count in a
 * comparison, without regard to case.
 */
import { FirnError } from './errors.js';

/** What a stream without a stated type holds (CRE-05). */
export const OCTET_STREAM = 'application/octet-stream';
/** The form in which the bucketed surface gives JSON streams (READ-16). */
export const NDJSON = 'application/x-ndjson';
export const JSON_TYPE = 'application/json';
/** Bytes of a content type with its parameters; it is stored with each stream and snapshot. */
export const CONTENT_TYPE_BYTES_MAX = 1024;

// RFC 9110 8.3.1. No two parts of the pattern can share white space, so a failing match cannot take long.
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const QUOTED = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e]|\\\\[\\t \\x21-\\x7e])*"';
const CONTENT_TYPE = new RegExp(`^${TOKEN}/${TOKEN}(?:[ \\t]*;(?:[ \\t]*${TOKEN}=(?:${TOKEN}|${QUOTED}))?)*$`);

/** Checks a `Content-Type` value and returns it trimmed, case kept. Throws INVALID_HEADER (APP-07, CRE-15). */
export function parseContentType(text: string): string {
  if (text === JSON_TYPE) return text;
  const trimmed = text.trim();
  if (trimmed.length > CONTENT_TYPE_BYTES_MAX) throw badType(`content-type has at most ${CONTENT_TYPE_BYTES_MAX} bytes`);
  if (!CONTENT_TYPE.test(trimmed)) throw badType('content-type must be a type and a subtype with optional parameters');
  return trimmed;
}

/** Type and subtype in lower case, without parameters. */
export function mediaType(contentType: string): string {
  const semicolon = contentType.indexOf(';');
  const essence = semicolon < 0 ? contentType : contentType.slice(0, semicolon).trimEnd();
  return essence.toLowerCase();
}

/** Whether two checked types name the same media type; parameters do not count (CRE-22). */
export function sameMediaType(a: string, b: string): boolean {
  return a === b || mediaType(a) === mediaType(b);
}

/** `application/json`, with or without parameters; nothing with a `+json` suffix (JSON-01). */
export function isJson(contentType: string): boolean {
  return contentType === JSON_TYPE || mediaType(contentType) === JSON_TYPE;
}

/** `text/*`. */
export function isText(contentType: string): boolean {
  return mediaType(contentType).startsWith('text/');
}

function badType(detail: string): FirnError {
  return new FirnError('INVALID_HEADER', { detail });
}
