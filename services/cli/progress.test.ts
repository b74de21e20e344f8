import { PassThrough, Writable } from 'node:stream';
import { expect, it } from 'vitest';
import { createLogger } from '../../shared/observability/index.js';
import type { Context } from './context.js';
import { progressOrLines } from './progress.js';

it('where no bar is shown, long work is told of in a line every few seconds and not more often', () => {
  const lines: string[] = [];
  const stderr = new Writable({ write: (piece: Buffer, _, done) => (lines.push(piece.toString()), done()) });
  let nowMs = 1_000;
  const context: Context = { env: {}, stdin: new PassThrough(), stdout: new PassThrough(), stderr, now: () => nowMs, onSignal: () => () => undefined, onFatal: () => undefined, exit: () => undefined };
  const progress = progressOrLines(context, 'restore', createLogger('info', stderr));
  for (let done = 1; done <= 120; done += 1) {
    nowMs += 100;
    progress.set(done * 10, 2_000);
  }
  progress.stop();
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { event: 'progress', what: 'restore', done: 500, about: 2_000 },
    { event: 'progress', what: 'restore', done: 1_000, about: 2_000 },
  ]);
});
