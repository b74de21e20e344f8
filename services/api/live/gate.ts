/**
 * How many live readers a node takes.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { LIVE_READERS_MAX } from './limits.js';

export class LiveGate {
  #open = 0;

  constructor(readonly max = LIVE_READERS_MAX) {}

  get open(): number {
    return this.#open;
  }

  /** Takes a place. Throws LIVE_READ_BACKPRESSURE. Pair with `leave`. */
  enter(): void {
    if (this.#open >= this.max) throw new FirnError('LIVE_READ_BACKPRESSURE');
    this.#open++;
  }

  leave(): void {
    if (this.#open === 0) throw new Error('more live readers left than came');
    this.#open--;
  }
}
