import { describe, expect, it } from 'vitest';
import { FirnError } from '../../../shared/protocol/errors.js';
import { parseRoute, refuseMethod } from './routes.js';

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof FirnError) return error.code;
    throw error;
  }
  return 'none';
}

describe('routes', () => {
  it('ID-17 gives one key to both spellings of a stream', () => {
    const bucketed = parseRoute('/demo/s?offset=-1');
    const base = parseRoute('/v1/stream/demo/s');
    expect(bucketed).toMatchObject({ kind: 'stream', dialect: 'bucketed', key: 'demo/s', path: '/demo/s', query: 'offset=-1' });
    expect(base).toMatchObject({ kind: 'stream', dialect: 'base', key: 'demo/s', path: '/v1/stream/demo/s', query: null });
    expect(parseRoute('/demo/%73').key).toBe('demo/s');
  });

  it('PATH-03 finds every subresource with its raw offset and token', () => {
    expect(parseRoute('/demo/s/bootstrap?x')).toMatchObject({ kind: 'bootstrap', key: 'demo/s', query: 'x' });
    expect(parseRoute('/demo/s/snapshot/%30')).toMatchObject({ kind: 'snapshot', rawOffset: '%30' });
    expect(parseRoute('/demo/s/snapshot/%30/parts?x')).toMatchObject({ kind: 'snapshot-parts', key: 'demo/s', rawOffset: '%30' });
    expect(parseRoute('/demo/s/snapshot/parts')).toMatchObject({ kind: 'staged-parts', key: 'demo/s', rawOffset: '' });
    expect(parseRoute('/demo/s/retention/7')).toMatchObject({ kind: 'retention', rawOffset: '7' });
    expect(parseRoute('/demo/s/incarnation/5/chunk/00')).toMatchObject({ kind: 'chunk', rawToken: '5', rawOffset: '00' });
    expect(parseRoute('/demo/s/incarnation/5/snapshot/00?')).toMatchObject({ kind: 'incarnation-snapshot', rawToken: '5', rawOffset: '00', query: '' });
  });

  it('ID-09 takes names of subresources as stream ids', () => {
    expect(parseRoute('/demo/snapshot').key).toBe('demo/snapshot');
    expect(parseRoute('/demo/bootstrap/bootstrap')).toMatchObject({ kind: 'bootstrap', key: 'demo/bootstrap' });
  });

  it.each([
    '/', '/demo/', '/demo/s/', '/demo/s/other', '/demo/s/append-batch', '/demo/s/attrs', '/demo/a/b/c/d', '/demo/s/snapshot', '/demo/s/snapshot/', '/demo/s/retention',
    '/demo/s/snapshot/0/parts/', '/demo/s/snapshot/0/parts/1', '/demo/s/snapshot//parts', '/demo/s/retention/0/parts', '/demo/s/incarnation/5/chunk', '/demo/s/incarnation/5/chunk/', '/demo/s/incarnation/5/other/0', '/v1/stream/', '*', '',
  ])('PATH-02 PATH-04 PATH-07 ID-15 SUB-01 does not know %s', (target) => {
    expect(codeOf(() => parseRoute(target))).toBe('NOT_FOUND');
  });

  it.each([
    ['/UPPER', 'INVALID_BUCKET_ID'], ['/abc/s', 'INVALID_BUCKET_ID'], ['/__ds/x', 'INVALID_BUCKET_ID'], ['/__ursula/live', 'INVALID_BUCKET_ID'], ['/v1/x', 'INVALID_BUCKET_ID'],
    ['/demo/$x', 'INVALID_STREAM_ID'], ['/demo/%zz', 'INVALID_STREAM_ID'], ['/demo/%FF', 'INVALID_STREAM_ID'], ['/demo/a%2Fb', 'INVALID_STREAM_ID'], ['/demo/%2e', 'INVALID_STREAM_ID'],
    ['/v1/stream/../x', 'INVALID_STREAM_ID'], ['/v1/stream/a//b', 'INVALID_STREAM_ID'], [`/demo/${'a'.repeat(118)}`, 'INVALID_STREAM_ID'], [`/demo/${'a'.repeat(9000)}`, 'INVALID_REQUEST'],
    ['/demo/a b', 'INVALID_REQUEST'],
  ])('ID-12 refuses %s with %s', (target, code) => {
    expect(codeOf(() => parseRoute(target))).toBe(code);
  });

  it('takes the absolute form that proxies send', () => {
    expect(parseRoute('http://example.org:80/demo/s?x=1')).toMatchObject({ key: 'demo/s', query: 'x=1' });
    expect(codeOf(() => parseRoute('http://example.org'))).toBe('NOT_FOUND');
  });

  it('BKT-06 PATH-06 names the allowed methods', () => {
    for (const [kind, allow] of [['bucket', 'PUT'], ['bootstrap', 'GET, HEAD, OPTIONS'], ['retention', 'PUT, OPTIONS']] as const) {
      try {
        refuseMethod(kind);
      } catch (error) {
        expect(error).toMatchObject({ code: 'METHOD_NOT_ALLOWED', status: 405, headers: { Allow: allow } });
      }
    }
    expect.assertions(3);
  });
});
