/**
 * What node and workers asked of the object store, over several lives of the node: its counters begin at 0 with each.
 */
import type { FirnProcess } from '../lib/firn-process.js';
import { parseSamples, type Samples } from '../lib/metrics.js';
import { bytes, count } from '../lib/table.js';
import { call } from './client.js';

/** Who asks, and how that begins in the names of the metrics. */
const ASKING = { node: 'firn_store', workers: 'firn_worker_store' } as const;
type Asking = keyof typeof ASKING;

export class StoreTraffic {
  readonly #lives: Samples[] = [];

  /** To be called at the end of each life of the node. */
  async note(node: FirnProcess): Promise<void> {
    this.#lives.push(parseSamples((await call(`${node.adminUrl}/__firn/metrics`, { expect: [200] })).body.toString('utf8')));
  }

  /** Rows of the table. */
  rows(): [string, string][] {
    const each = (text: (who: Asking) => string): string => `node ${text('node')}, workers ${text('workers')}`;
    // The size of an object is found out by a GET.
    const requests = (who: Asking, ops: readonly string[]): string => count(ops.reduce((sum, op) => sum + this.#sum(`${ASKING[who]}_requests_total`, { op }), 0));
    const moved = (who: Asking, direction: string): string => bytes(this.#sum(`${ASKING[who]}_bytes_total`, { direction }));
    return [
      ['PUTs', each((who) => requests(who, ['put', 'put-large']))],
      ['GETs', each((who) => requests(who, ['get', 'size']))],
      ['bytes to the object store', each((who) => moved(who, 'written'))],
      ['bytes from the object store', each((who) => moved(who, 'read'))],
    ];
  }

  #sum(name: string, labels: Readonly<Record<string, string>>): number {
    return this.#lives.reduce((sum, life) => sum + life.sum(name, labels), 0);
  }
}
