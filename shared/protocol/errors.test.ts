import { describe, expect, it } from 'vitest';
import { ERRORS, FirnError, errorBody, type ErrorCode } from './errors.js';

const codes = Object.keys(ERRORS) as ErrorCode[];

describe('errors', () => {
  it('ERR-07 WO-07 every 503 carries Retry-After', () => {
    const unavailable = codes.filter((code) => ERRORS[code].status === 503);
    expect(unavailable).toContain('OUTCOME_UNKNOWN');
    for (const code of unavailable) expect(new FirnError(code).headers['Retry-After']).toBe('1');
    expect(new FirnError('STREAM_NOT_FOUND').headers).toEqual({});
  });

  it('ERR-01 the body has the code and a message, and nothing else', () => {
    const body = errorBody(new FirnError('STREAM_NOT_FOUND'));
    expect(JSON.parse(body.toString())).toEqual({ error: { code: 'STREAM_NOT_FOUND', message: ERRORS.STREAM_NOT_FOUND.sentence } });
    expect(body.includes('\n')).toBe(false);
  });

  it('ERR-03 a detail is the message of a 4xx', () => {
    const error = new FirnError('INVALID_HEADER', { detail: 'stream-ttl must not have leading zeros' });
    expect(error.status).toBe(400);
    expect(error.message).toBe('stream-ttl must not have leading zeros');
  });

  it('ERR-04 a detail of any other status is for the log only', () => {
    for (const code of codes.filter((each) => ERRORS[each].status >= 500)) {
      const error = new FirnError(code, { detail: 'node 10.0.0.7 failed', cause: new Error('disk') });
      expect(error.message).toBe(ERRORS[code].sentence);
      expect(error.detail).toBe('node 10.0.0.7 failed');
      expect(errorBody(error).toString()).not.toContain('10.0.0.7');
    }
  });

  it('ERR-09 typed headers stand beside the body', () => {
    const error = new FirnError('STREAM_CLOSED', { headers: { 'Stream-Closed': 'true' } });
    expect(error.status).toBe(409);
    expect(error.headers).toEqual({ 'Stream-Closed': 'true' });
    expect(new FirnError('NO_LEADER', { headers: { 'Retry-After': '5' } }).headers['Retry-After']).toBe('5');
  });

  it('ERR-12 sentences are distinct from codes and short', () => {
    for (const code of codes) {
      expect(code).toMatch(/^[A-Z][A-Z_]+$/);
      expect(ERRORS[code].sentence.length).toBeGreaterThan(10);
      expect(ERRORS[code].status).toBeGreaterThanOrEqual(400);
    }
  });
});
