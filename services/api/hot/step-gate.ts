/**
 * Lets a bounded number of steps run at once; the others wait in order, a bounded number of them.
 *
 * Owns: the count. Used to keep scans from taking every thread of libuv's pool (architecture section 5, I11).
 */
import { HotStoreBusy } from './errors.js';

export class StepGate {
  private running = 0;
  private readonly waiting: (() => void)[] = [];
  private head = 0;

  constructor(private readonly runningMax: number, private readonly waitingMax: number) {}

  /** True: the step may start now, without a turn of the event loop. False: call `wait`. */
  tryEnter(): boolean {
    if (this.running >= this.runningMax) return false;
    this.running++;
    return true;
  }

  /** Resolves when the step may start; throws `HotStoreBusy` when too many wait. */
  wait(): Promise<void> {
    if (this.waiting.length - this.head >= this.waitingMax) return Promise.reject(new HotStoreBusy());
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /** Ends a step: its place goes to the one that waits longest. */
  leave(): void {
    const next = this.waiting[this.head];
    if (next === undefined) {
      this.running--;
      return;
    }
    this.head++;
    if (this.head === this.waiting.length) {
      this.waiting.length = 0;
      this.head = 0;
    } else if (this.head >= 1_024 && this.head * 2 >= this.waiting.length) {
      this.waiting.splice(0, this.head);
      this.head = 0;
    }
    next();
  }
}
