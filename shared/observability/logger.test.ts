import { describe, expect, it } from 'vitest';
import { createLogger } from './logger.js';

function capture(level: 'info' | 'warn'): { lines: string[]; logger: ReturnType<typeof createLogger> } {
  const lines: string[] = [];
  return { lines, logger: createLogger(level, { write: (line: string) => void lines.push(line) }) };
}

describe('logger', () => {
  it('writes one JSON object a line with a readable level and time', () => {
    const { lines, logger } = capture('info');
    logger.info({ event: 'listening', port: 4437 }, 'ready');
    expect(lines).toHaveLength(1);
    expect(lines[0]?.endsWith('\n')).toBe(true);
    const line = JSON.parse(lines[0] ?? '') as Record<string, unknown>;
    expect(line).toMatchObject({ level: 'info', event: 'listening', port: 4437, msg: 'ready', pid: process.pid });
    expect(Number.isNaN(Date.parse(String(line['time'])))).toBe(false);
  });

  it('keeps quiet below its level', () => {
    const { lines, logger } = capture('warn');
    logger.info('not this');
    logger.warn('this');
    expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual(['this']);
  });

  it('masks secrets at each of the first three levels', () => {
    const { lines, logger } = capture('info');
    logger.info({ token: 'aa11', config: { adminToken: 'bb22', redisUrl: 'redis://u:cc33@h' }, request: { headers: { authorization: 'Bearer dd44' } } }, 'x');
    logger.child({ part: 'admin' }).info({ password: 'ee55' }, 'y');
    const all = lines.join('');
    expect(all).not.toMatch(/aa11|bb22|cc33|dd44|ee55/);
    expect(all.match(/\(hidden\)/g)).toHaveLength(5);
  });
});
