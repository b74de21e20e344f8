/**
 * Requests that no client library would send, one to a connection, and the ways in which a value can be bad.
 *
 * After each answer the connection has to take another request, or to be closed in good order: as `Connection: close` in the answer says, and not by a reset.
 */
import { expect } from 'vitest';
import { ERRORS } from '../../shared/protocol/errors.js';
import type { ErrorCode } from '../../shared/protocol/errors.js';
import { rawCode, RawConnection } from '../support/raw.js';

const ANSWER_MS_MAX = 8_000;

export interface Odd {
  readonly status: number;
  /** Of the error body; empty when there is none. */
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Sends one request; `Host` and `Content-Length` are added unless the lines name them. Fails when no whole answer comes, or when the connection is neither usable nor closed after it. */
export async function odd(origin: string, lines: readonly string[], body = ''): Promise<Odd> {
  const names = (name: string): boolean => lines.some((line) => line.toLowerCase().startsWith(`${name}:`));
  const all = [...lines];
  if (!names('host')) all.splice(1, 0, 'Host: x');
  if (body !== '' && !names('content-length') && !names('transfer-encoding')) all.push(`Content-Length: ${Buffer.byteLength(body, 'latin1')}`);
  const what = JSON.stringify(lines.map((line) => line.slice(0, 80)));
  const connection = await RawConnection.open(origin);
  let reset = false;
  connection.socket.on('error', () => {
    reset = true;
  });
  try {
    connection.write(`${all.join('\r\n')}\r\n\r\n${body}`);
    const answer = await connection.answer(ANSWER_MS_MAX, all[0]!.startsWith('HEAD '));
    if (answer === null) throw new Error(`no answer to ${what}: ${JSON.stringify(connection.received.slice(0, 200))}`);
    if (answer.headers['connection'] === 'close') await connection.until(() => false, ANSWER_MS_MAX);
    else {
      connection.write('GET /v1/stream/after HTTP/1.1\r\nHost: x\r\n\r\n');
      const next = await connection.answer(ANSWER_MS_MAX);
      expect([what, next?.status]).toEqual([what, 404]);
    }
    expect([what, 'closed', answer.headers['connection'] === 'close', 'reset', reset]).toEqual([what, 'closed', connection.closed, 'reset', false]);
    return { status: answer.status, code: rawCode(answer), headers: answer.headers, body: answer.body.toString() };
  } finally {
    connection.destroy();
  }
}

/** The code of a refusal, or the status of an answer that is none (or has no body of ours). */
export type Outcome = ErrorCode | number;

export function expectOutcome(what: string, answer: Odd, wanted: Outcome): void {
  const status = typeof wanted === 'number' ? wanted : ERRORS[wanted].status;
  expect([what, answer.status, answer.code]).toEqual([what, status, typeof wanted === 'number' ? '' : wanted]);
}

/** Kinds of bad values, made from a good one. */
export function badValues(good: string): Readonly<Record<BadKind, string>> {
  return {
    empty: '',
    'white space': '  \t ',
    'wrong case': good === good.toUpperCase() ? good.toLowerCase() : good.toUpperCase(),
    'leading zeros': `00${good}`,
    'plus sign': `+${good}`,
    'minus sign': `-${good}`,
    huge: '9'.repeat(400),
    fraction: `${good}.5`,
    exponent: `${good}e3`,
    'hexadecimal digits': '0x1f',
    'two values': `${good}, ${good}`,
    'inner space': `${good} ${good}`,
    'non-ASCII': `${good}\xe9`,
    'invalid UTF-8': `${good}\xff\xfe`,
    'control character': `${good}\x01`,
    'delete character': `${good}\x7f`,
    'percent escapes': [...good].map((char) => `%${char.charCodeAt(0).toString(16)}`).join(''),
    quoted: `"${good}"`,
    'too long': good.padEnd(9_000, good),
  };
}

export type BadKind =
  | 'empty' | 'white space' | 'wrong case' | 'leading zeros' | 'plus sign' | 'minus sign' | 'huge' | 'fraction' | 'exponent' | 'hexadecimal digits' | 'two values' | 'inner space' | 'non-ASCII' | 'invalid UTF-8'
  | 'control character' | 'delete character' | 'percent escapes' | 'quoted' | 'too long';
