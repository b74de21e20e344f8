import { describe, expect, it } from 'vitest';
import { judge, TryFailed, type FailureKind } from './failures.js';

function answer(status: number, code: string, message = ''): Error {
  return Object.assign(new Error(message), { name: code, $metadata: { httpStatusCode: status } });
}

describe('what an error of S3 means', () => {
  it.each<[FailureKind, readonly Error[]]>([
    ['passing', [
      answer(500, 'InternalError'), answer(503, 'SlowDown'), answer(503, 'ServiceUnavailable'), answer(504, 'UnknownError'), answer(429, 'TooManyRequests'), answer(408, 'RequestTimeout'), answer(400, 'RequestTimeout'),
      answer(400, 'XAmzContentSHA256Mismatch'), answer(400, 'BadDigest'), answer(400, 'ExpiredToken'), answer(403, 'RequestTimeTooSkewed'), answer(404, 'NotFound'), answer(404, 'UnknownError'), answer(200, 'SyntaxError'), answer(416, 'Unknown'),
      Object.assign(new Error('read'), { code: 'ECONNRESET' }), Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }), Object.assign(new Error('lookup'), { code: 'ENOTFOUND' }),
      Object.assign(new Error('late'), { name: 'TimeoutError' }), new TryFailed('no byte moved'), Object.assign(new SyntaxError('cut'), { $response: { statusCode: 200 } }),
    ]],
    ['conflict', [answer(409, 'ConditionalRequestConflict'), answer(409, 'OperationAborted')]],
    ['exists', [answer(412, 'PreconditionFailed')]],
    ['missing', [answer(404, 'NoSuchKey')]],
    ['beyond', [answer(416, 'InvalidRange')]],
    ['no-upload', [answer(404, 'NoSuchUpload')]],
    ['refused', [
      answer(404, 'NoSuchBucket'), answer(403, 'AccessDenied'), answer(403, 'SignatureDoesNotMatch'), answer(403, 'InvalidAccessKeyId'), answer(401, 'Unauthorized'), answer(301, 'PermanentRedirect'), answer(501, 'NotImplemented'), answer(400, 'InvalidArgument'),
      Object.assign(new Error('none'), { name: 'CredentialsProviderError' }), Object.assign(new Error('self-signed'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }), Object.assign(new Error('names'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }),
    ]],
  ])('%s', (kind, errors) => {
    for (const error of errors) expect(judge(error), `${error.name} ${error.message}`).toMatchObject({ kind });
  });

  it('leaves errors of this program alone', () => {
    for (const error of [new Error('broken invariant'), new RangeError('x'), 'text', null, undefined]) expect(judge(error)).toBeNull();
  });

  it('says status, code and sentence', () => {
    expect(judge(answer(403, 'AccessDenied', 'not you'))?.why).toBe('403 AccessDenied: not you');
    expect(judge(answer(404, 'NoSuchBucket', 'UnknownError'))?.why).toBe('404 NoSuchBucket');
    expect(judge(answer(200, 'Error', 'unexpected content.\n  to see the raw response, inspect the hidden field'))?.why).toBe('200 Error: unexpected content.');
    expect(judge(Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:9'), { code: 'ECONNREFUSED' }))?.why).toContain('ECONNREFUSED');
  });
});
