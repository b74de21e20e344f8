/**
 * The log of a process: JSON lines on standard output.
 *
 * Owns: the shape of a line and what is never in it. Promises: fields that carry secrets are masked at any of the first three levels.
 */
import pino, { type DestinationStream, type Logger } from 'pino';
import type { LogLevel } from '../config/index.js';

export type { Logger } from 'pino';

/** Field names whose values are secrets wherever they appear. */
const SECRET_FIELDS = [
  'adminToken', 'token', 'authorization', 'Authorization', 'cookie', 'password', 'secret', 'redisUrl', 'secretAccessKey', 'sessionToken', 'tokenKey',
  'FIRN_ADMIN_TOKEN', 'FIRN_REDIS_URL',
] as const;

const REDACTED_PATHS = SECRET_FIELDS.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]);

/** `destination`: standard output when left out; lines are written before the call returns, so that a crash loses none. */
export function createLogger(level: LogLevel, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: { pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: REDACTED_PATHS, censor: '(hidden)' },
  };
  return pino(options, destination ?? pino.destination({ fd: 1, sync: true }));
}
