/**
 * Progress bars on standard error; silent where that is no terminal, or lines of the log for what may take minutes.
 */
import { SingleBar } from 'cli-progress';
import type { Logger } from '../../shared/observability/index.js';
import type { Context } from './context.js';

export interface Progress {
  set(value: number, total?: number): void;
  stop(): void;
}

const SILENT: Progress = { set: () => undefined, stop: () => undefined };

/** A bar for work that may take longer than a second. */
export function progressBar(context: Context, title: string, total: number): Progress {
  if (context.stderr.isTTY !== true) return SILENT;
  const bar = new SingleBar({ format: `${title} [{bar}] {percentage}% | {value}/{total} | {duration_formatted}`, stream: context.stderr as unknown as NodeJS.WritableStream, hideCursor: true, clearOnComplete: true });
  bar.start(total, 0);
  return {
    set: (value, newTotal) => {
      if (newTotal !== undefined) bar.setTotal(newTotal);
      bar.update(value);
    },
    stop: () => bar.stop(),
  };
}

/** How often a line tells of work where no bar is shown, ms. */
const LINE_MS = 5_000;

/** A bar for work that may take minutes; where standard error is no terminal, a line of the log every few seconds. */
export function progressOrLines(context: Context, title: string, logger: Logger): Progress {
  if (context.stderr.isTTY === true) return progressBar(context, title, 1);
  let toldAtMs = context.now();
  return {
    set: (value, total) => {
      if (context.now() - toldAtMs < LINE_MS) return;
      toldAtMs = context.now();
      logger.info({ event: 'progress', what: title, done: value, about: total }, 'under way');
    },
    stop: () => undefined,
  };
}

/** Runs work whose length nobody knows under a clock. */
export async function withClock<T>(context: Context, title: string, work: () => Promise<T>): Promise<T> {
  if (context.stderr.isTTY !== true) return work();
  const bar = new SingleBar({ format: `${title} {spinner} {seconds} s`, stream: context.stderr as unknown as NodeJS.WritableStream, hideCursor: true, clearOnComplete: true });
  let seconds = 0;
  bar.start(1, 0, { spinner: '…', seconds });
  const tick = setInterval(() => {
    seconds += 1;
    bar.update(0, { spinner: '…', seconds });
  }, 1_000);
  tick.unref();
  try {
    return await work();
  } finally {
    clearInterval(tick);
    bar.stop();
  }
}
