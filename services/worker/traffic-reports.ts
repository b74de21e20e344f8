/**
 * What a worker asks of the object store, told to its node: an operator finds it among the node's metrics, and a worker needs no listener of its own.
 *
 * Promises: told every `REPORT_MS` and at the end, while there is something to tell; what the node did not take is told again later. A worker that is killed takes what it had not told with it.
 */
import type { StoreTally, StoreTraffic } from '../../shared/storage/measured-store.js';
import { addTraffic } from '../../shared/storage/measured-store.js';

const REPORT_MS = 2_000;

export class TrafficReports {
  readonly #timer: NodeJS.Timeout;
  #telling: Promise<void> = Promise.resolve();

  /** `tell`: rejects when the node did not take it. */
  constructor(private readonly tally: StoreTally, private readonly tell: (traffic: StoreTraffic) => Promise<void>) {
    this.#timer = setInterval(() => void this.report(), REPORT_MS).unref();
  }

  /** Tells what there is, one report at a time. Never rejects. */
  report(): Promise<void> {
    this.#telling = this.#telling.then(() => this.#once());
    return this.#telling;
  }

  /** Tells the rest. */
  end(): Promise<void> {
    clearInterval(this.#timer);
    return this.report();
  }

  async #once(): Promise<void> {
    const traffic = this.tally.take();
    if (traffic === null) return;
    try {
      await this.tell(traffic);
    } catch {
      addTraffic(this.tally, traffic);
    }
  }
}
