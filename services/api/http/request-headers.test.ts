import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import { FirnError } from '../../../shared/protocol/errors.js';
import { acceptsGzip, closesStream, lifetimeOf, namesProducer, preconditionOf, producerOf, seqOf } from './request-headers.js';

/** A request as Node presents it: names lower-cased, repeats joined. */
function request(...lines: [string, string][]): IncomingMessage {
  const headers: Record<string, string> = {};
  for (const [name, value] of lines) headers[name.toLowerCase()] = headers[name.toLowerCase()] === undefined ? value : `${headers[name.toLowerCase()]}, ${value}`;
  return { headers, rawHeaders: lines.flat() } as unknown as IncomingMessage;
}

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof FirnError) return error.code;
    throw error;
  }
  return 'none';
}

describe('headers of requests', () => {
  it('INC-14 INC-15 INC-24 reads one canonical token', () => {
    expect(preconditionOf({})).toBeNull();
    expect(preconditionOf({ 'stream-incarnation': '4503599627370497' })).toBe(4503599627370497);
    for (const text of ['', 'x', '0', '007', '5, 5', '9007199254740992']) expect([text, codeOf(() => preconditionOf({ 'stream-incarnation': text }))]).toEqual([text, 'INVALID_HEADER']);
  });

  it('CLO-10 CRE-18 closes on true alone, in any case', () => {
    for (const text of ['true', 'TRUE', 'True']) expect(closesStream({ 'stream-closed': text })).toBe(true);
    for (const text of ['', 'false', '1', 'yes', 'true, true']) expect(closesStream({ 'stream-closed': text })).toBe(false);
  });

  it('PROD-01 PROD-22 takes the producer headers together, the digest on the bucketed surface alone', () => {
    const three: [string, string][] = [['Producer-Id', 'p'], ['Producer-Epoch', '007'], ['Producer-Seq', '0']];
    expect(producerOf(request(...three), 'base')).toEqual({ id: 'p', epoch: 7, seq: 0, digest: null });
    const digest: [string, string] = ['Producer-Digest', 'a'.repeat(64)];
    expect(producerOf(request(...three, digest), 'bucketed')?.digest).toBe(digest[1]);
    expect(producerOf(request(...three, digest), 'base')?.digest).toBeNull();
    expect(producerOf(request(), 'bucketed')).toBeNull();
    expect(codeOf(() => producerOf(request(digest), 'bucketed'))).toBe('INVALID_PRODUCER');
    for (let mask = 1; mask < 7; mask++) {
      const some = three.filter((_, i) => (mask >> i) & 1);
      expect(codeOf(() => producerOf(request(...some), 'base'))).toBe('INVALID_PRODUCER');
    }
  });

  it('PROD-25 tells a comma in an id from an id sent twice', () => {
    const rest: [string, string][] = [['Producer-Epoch', '0'], ['Producer-Seq', '0']];
    expect(producerOf(request(['Producer-Id', 'a, b'], ...rest), 'base')?.id).toBe('a, b');
    expect(codeOf(() => producerOf(request(['Producer-Id', 'a'], ['producer-id', 'b'], ...rest), 'base'))).toBe('INVALID_PRODUCER');
  });

  it('SEQ-09 refuses an empty, a long and a repeated Stream-Seq', () => {
    expect(seqOf(request())).toBeNull();
    expect(seqOf(request(['Stream-Seq', 'a,b']))).toBe('a,b');
    for (const lines of [[['Stream-Seq', '']], [['Stream-Seq', 'x'.repeat(257)]], [['Stream-Seq', 'a'], ['Stream-Seq', 'b']]] as [string, string][][]) expect(codeOf(() => seqOf(request(...lines)))).toBe('INVALID_HEADER');
  });

  it('CRE-14 TTL-01 refuses two lifetimes and bad ones', () => {
    expect(lifetimeOf({ 'stream-ttl': '3600' })).toEqual({ ttl: '3600', expiresAtMs: null });
    expect(lifetimeOf({ 'stream-expires-at': '1970-01-01T00:00:01Z' })).toEqual({ ttl: null, expiresAtMs: 1000 });
    expect(codeOf(() => lifetimeOf({ 'stream-ttl': '1', 'stream-expires-at': '2030-01-01T00:00:00Z' }))).toBe('INVALID_HEADER');
    expect(codeOf(() => lifetimeOf({ 'stream-ttl': '03600' }))).toBe('INVALID_HEADER');
  });

  it('CRE-23 sees any producer header', () => {
    for (const name of ['producer-id', 'producer-epoch', 'producer-seq', 'producer-digest']) expect(namesProducer({ [name]: '' })).toBe(true);
    expect(namesProducer({ 'content-type': 'x' })).toBe(false);
  });

  it('takes gzip only when it is accepted with a weight above 0', () => {
    for (const text of ['gzip', 'deflate, gzip;q=0.5', 'GZIP', '*', 'br;q=1, *;q=0.1']) expect([text, acceptsGzip(text)]).toEqual([text, true]);
    for (const text of [undefined, '', 'br', 'gzip;q=0', '*, gzip;q=0.0', 'identity', 'notgzip']) expect([text, acceptsGzip(text)]).toEqual([text, false]);
  });
});
