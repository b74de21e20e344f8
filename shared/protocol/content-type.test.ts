import { describe, expect, it } from 'vitest';
import { CONTENT_TYPE_BYTES_MAX, isJson, isText, mediaType, parseContentType, sameMediaType } from './content-type.js';
import { FirnError } from './errors.js';

describe('content types', () => {
  it.each(['application/json', 'Text/Plain', 'text/plain; charset=utf-8', 'a/b;c=d', 'a/b ; c="d; \\"e\\""', 'a/b;', 'image/svg+xml', "x!#$%&'*+.^_`|~-/y"])(
    'CRE-22 keeps %j as it is', (text) => expect(parseContentType(text)).toBe(text));

  it('trims white space around', () => expect(parseContentType(' \ttext/plain ')).toBe('text/plain'));

  it.each(['', ' ', 'json', '///', 'a/', '/b', 'a/b/c', 'a /b', 'a/b c', 'a/b;c', 'a/b;c=', 'a/b;c="d', 'a/b,c/d', 'a/b;=d', 'é/b', 'a/b;c="é"', 'a/b;c="\n"',
    `a/${'b'.repeat(CONTENT_TYPE_BYTES_MAX)}`])('APP-07 CRE-15 refuses %j', (text) => {
    expect(() => parseContentType(text)).toThrow(expect.objectContaining({ code: 'INVALID_HEADER' }));
    expect(() => parseContentType(text)).toThrow(FirnError);
  });

  it('a hostile value is refused at once', () => {
    const started = performance.now();
    expect(() => parseContentType(`a/b${';  '.repeat(330)}!`)).toThrow(FirnError);
    expect(performance.now() - started).toBeLessThan(1000);
  });

  it('CRE-22 compares type and subtype without case and parameters', () => {
    expect(sameMediaType('text/plain', 'TEXT/PLAIN')).toBe(true);
    expect(sameMediaType('text/plain', 'text/plain; charset=utf-8')).toBe(true);
    expect(sameMediaType('text/plain ;a=b', 'text/plain')).toBe(true);
    expect(sameMediaType('text/plain', 'text/html')).toBe(false);
    expect(mediaType('Application/JSON ; a=B')).toBe('application/json');
  });

  it('JSON-01 tells JSON streams', () => {
    expect(isJson('application/json')).toBe(true);
    expect(isJson('Application/JSON; charset=utf-8')).toBe(true);
    expect(isJson('application/problem+json')).toBe(false);
    expect(isJson('application/x-ndjson')).toBe(false);
  });

  it('BIN-01 tells text streams', () => {
    expect(isText('text/csv')).toBe(true);
    expect(isText('TEXT/plain; charset=latin1')).toBe(true);
    for (const other of ['application/xml', 'image/png', 'application/json', 'application/ndjson']) expect(isText(other)).toBe(false);
  });
});
