/**
 * Background work of one partition: one of each kind at a time, and no kind waits for another (architecture section 6: what frees space must go on while the
 * log waits for its store).
 *
 * Owns: which kinds are under way, and the report of what failed for no known reason. Everything here is begun again by the regular tick.
 */
import type { Logger } from '../../../shared/observability/logger.js';
import { StoreUnavailable } from '../../../shared/storage/object-store.js';
import { isPassing } from './damage.js';
import { Stopped } from './timing.js';

export class Background {
  readonly #busy = new Set<string>();

  constructor(private readonly partition: number, private readonly logger: Logger) {}

  /** Starts work of a kind unless it is under way. */
  start(what: string, work: () => Promise<unknown>): void {
    if (this.#busy.has(what)) return;
    this.#busy.add(what);
    work()
      .catch((error: unknown) => {
        const expected = error instanceof Stopped || error instanceof StoreUnavailable || isPassing(error);
        if (!expected) this.logger.error({ err: error, event: 'cold-work-failed', what, partition: this.partition }, 'background work of the cold tier failed; it will be tried again');
      })
      .finally(() => this.#busy.delete(what));
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#busy.size > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
