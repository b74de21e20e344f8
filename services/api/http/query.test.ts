import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { FirnError } from '../../../shared/protocol/errors.js';
import { READ_BYTES_MAX } from '../log/types.js';
import { LONG_POLL_DEFAULT_MS, LONG_POLL_MAX_MS, namesParameter, parseReadQuery } from './query.js';

const parse = (query: string): ReturnType<typeof parseReadQuery> => parseReadQuery(query, 'bucketed');

function codeOf(query: string): string {
  try {
    parse(query);
  } catch (error) {
    if (error instanceof FirnError) return error.code;
    throw error;
  }
  return 'none';
}

describe('query of a read', () => {
  it('READ-02 without a query reads from the start with the cap', () => {
    expect(parseReadQuery(null, 'base')).toEqual({ offset: null, live: null, maxBytes: READ_BYTES_MAX, timeoutMs: LONG_POLL_DEFAULT_MS, cursor: null });
    expect(parse('')).toEqual(parseReadQuery(null, 'base'));
  });

  it('OFF-07 OFF-17 reads sentinels and plain digits, also escaped', () => {
    expect(parse('offset=-1').offset).toBe('start');
    expect(parse('offset=now').offset).toBe('now');
    expect(parse('offset=00000000000000000005').offset).toBe(5);
    expect(parse('off%73et=%35').offset).toBe(5);
  });

  it('READ-21 READ-22 LEAD-03 LEAD-04 LP-01 SSE-02 refuses what is ambiguous', () => {
    for (const query of ['offset=', 'offset=0,1', 'offset=0+1', 'offset=%ZZ', 'offset=+5', 'offset=%2B5', `offset=${'9'.repeat(30)}`]) expect([query, codeOf(query)]).toEqual([query, 'INVALID_OFFSET']);
    for (const query of [
      'offset=1&offset=1', 'live=foo', 'live=', 'live=sse&live=sse&offset=-1', 'live=sse', 'live=long-poll', 'consistency=foo', 'consistency=', 'consistency=LEADER', 'consistency=local&consistency=local',
      'offset=-1&live=sse&consistency=leader',
    ]) {
      expect([query, codeOf(query)]).toEqual([query, 'INVALID_QUERY']);
    }
    expect(codeOf('offset=-1&consistency=leader')).toBe('none');
    expect(codeOf('offset=-1&live=sse&consistency=local')).toBe('none');
  });

  it('SIZE-03 .. SIZE-06 SIZE-11 clamps max_bytes and ignores what is no integer', () => {
    const cases: [string, number][] = [
      ['10', 10], ['0', 1], ['99999999', READ_BYTES_MAX], ['9'.repeat(40), READ_BYTES_MAX], ['00000000000000000007', 7], ['abc', READ_BYTES_MAX], ['1.5', READ_BYTES_MAX], ['1e3', READ_BYTES_MAX], ['', READ_BYTES_MAX],
      ['-5', READ_BYTES_MAX], ['%zz', READ_BYTES_MAX],
    ];
    for (const [text, bytes] of cases) expect([text, parse(`max_bytes=${text}`).maxBytes]).toEqual([text, bytes]);
    expect(parse('max_bytes=1&max_bytes=2').maxBytes).toBe(READ_BYTES_MAX);
  });

  it('LP-09 .. LP-11 LP-16 clamps timeout_ms; what does not parse means the default', () => {
    const cases: [string, number][] = [['300', 300], ['0', 1], ['600000', LONG_POLL_MAX_MS], ['18446744073709551615', LONG_POLL_MAX_MS], ['18446744073709551616', LONG_POLL_DEFAULT_MS], ['abc', LONG_POLL_DEFAULT_MS], ['-5', LONG_POLL_DEFAULT_MS], ['%2B5', LONG_POLL_DEFAULT_MS]];
    for (const [text, ms] of cases) expect([text, parse(`timeout_ms=${text}`).timeoutMs]).toEqual([text, ms]);
  });

  it('CACHE-14 R063 takes a cursor only when it is a decimal number of 64 bits', () => {
    expect(parse('cursor=123').cursor).toBe('123');
    for (const text of ['abc', '', '-1', '1.5', '18446744073709551616', '9'.repeat(500)]) expect([text, parse(`cursor=${text}`).cursor]).toEqual([text, null]);
    expect(parse('cursor=1&cursor=2').cursor).toBeNull();
  });

  it('READ-24 ignores unknown parameters, decodable or not', () => {
    expect(parse('foo=bar&%zz=1&&=&offset=now&record=1').offset).toBe('now');
  });

  it('BOOT-02 sees a parameter whatever its value', () => {
    for (const query of ['live', 'live=', 'a=1&live=sse', 'l%69ve=x']) expect(namesParameter(query, 'live')).toBe(true);
    for (const query of [null, '', 'lives=1', 'a=live']) expect(namesParameter(query, 'live')).toBe(false);
  });

  it('ends in a value or in a refusal, for any text', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary-ascii' }), (text) => {
      try {
        const query = parse(text);
        expect(query.maxBytes).toBeGreaterThanOrEqual(1);
        expect(query.maxBytes).toBeLessThanOrEqual(READ_BYTES_MAX);
        expect(query.timeoutMs).toBeGreaterThanOrEqual(1);
        expect(query.timeoutMs).toBeLessThanOrEqual(LONG_POLL_MAX_MS);
      } catch (error) {
        expect(error).toBeInstanceOf(FirnError);
      }
    }));
  });
});
