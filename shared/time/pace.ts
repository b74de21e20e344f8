/**
 * Long work on the event loop that leaves most of it to whoever answers clients.
 *
 * Owns: the rests. Promises: others get their turn each time; while the loop is busy, whoever keeps it so, the work rests three times as long as it worked, and goes on without rest on a loop that has time.
 */
import { performance } from 'node:perf_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { idlePause } from './pause.js';

/** Share of the time that the loop was at work since the last rest, above which it counts as busy. */
const BUSY_SHARE = 0.7;
/** A rest for each millisecond of work, and the longest one, ms. */
const REST_FACTOR = 3;
const REST_MS_MAX = 100;
/** Shorter stretches than this are no reason for a rest, ms: a timer is not finer. */
const WORK_MS_MIN = 2;

export class Pace {
  #beganMs = performance.now();
  #loop = performance.eventLoopUtilization();

  /** To be awaited after each piece of work of a few milliseconds. Rejects with the signal's reason. */
  async rest(signal: AbortSignal): Promise<void> {
    const workedMs = performance.now() - this.#beganMs;
    if (workedMs < WORK_MS_MIN) {
      await turn();
    } else {
      const { utilization } = performance.eventLoopUtilization(this.#loop);
      if (utilization < BUSY_SHARE) await turn();
      else await idlePause(Math.min(workedMs * REST_FACTOR, REST_MS_MAX), signal);
      this.#beganMs = performance.now();
      this.#loop = performance.eventLoopUtilization();
    }
    signal.throwIfAborted();
  }
}
