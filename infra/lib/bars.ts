/** Progress bars on standard error: a bar on a terminal, a line at the end elsewhere. */
import { SingleBar } from 'cli-progress';
import { duration } from './table.js';

export interface Bar {
  add(count?: number): void;
}

/** Runs a step of known or unknown (`total` 1) length under a bar; answers how long it took, ms. */
export async function step(title: string, total: number, work: (bar: Bar) => Promise<void>): Promise<number> {
  const started = performance.now();
  const terminal = process.stderr.isTTY === true;
  const bar = terminal ? new SingleBar({ format: `${title.padEnd(34)} [{bar}] {value}/{total} {duration_formatted}`, hideCursor: true, stream: process.stderr }) : null;
  bar?.start(total, 0);
  let done = 0;
  try {
    await work({
      add: (count = 1) => {
        done += count;
        bar?.update(done);
      },
    });
    bar?.update(total);
  } finally {
    bar?.stop();
  }
  const took = performance.now() - started;
  if (!terminal) process.stderr.write(`${title.padEnd(34)} ${duration(took)}\n`);
  return took;
}
