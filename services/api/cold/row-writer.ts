/** Writes many rows in synced batches of bounded size, while nothing else writes to the store. */
import type { DurableStore } from '../hot/durable.js';
import type { HotOp } from '../hot/store.js';
import { SLICE_BYTES_MAX } from './limits.js';

/** Rows of one batch. */
const BATCH_ROWS = 4_096;

export class RowWriter {
  #ops: HotOp[] = [];
  #bytes = 0;

  constructor(private readonly store: DurableStore) {}

  async put(key: Buffer, value: Buffer): Promise<void> {
    this.#ops.push({ type: 'put', key, value });
    this.#bytes += key.length + value.length;
    if (this.#bytes >= SLICE_BYTES_MAX || this.#ops.length >= BATCH_ROWS) await this.flush();
  }

  async flush(): Promise<void> {
    if (this.#ops.length === 0) return;
    const ops = this.#ops;
    this.#ops = [];
    this.#bytes = 0;
    await this.store.commit(ops);
  }
}
