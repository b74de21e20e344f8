/**
 * Keeps a job from running beside itself in one process, whoever started it.
 *
 * Owns: the runs under way. A job that is started again while it runs has the outcome of the run that is there.
 */
import { perKind, type JobHandlers } from './types.js';

export function joinRuns(handlers: JobHandlers): JobHandlers {
  return perKind((kind) => {
    const running = new Map<string, Promise<void>>();
    return (id, signal) => {
      const under = running.get(id);
      if (under !== undefined) return under;
      const run = handlers[kind](id, signal).finally(() => running.delete(id));
      running.set(id, run);
      return run;
    };
  });
}
