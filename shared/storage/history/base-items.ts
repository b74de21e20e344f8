/** Items of a checkpoint, read one subscription or stream at a time. */
import type { CheckpointItem } from '../checkpoint-item.js';

export type HeadItem = Extract<CheckpointItem, { kind: 'stream' | 'subscription' }>;

export class BaseItems {
  readonly #items: AsyncIterator<CheckpointItem>;
  #next: CheckpointItem | null = null;
  #ended = false;

  constructor(base: AsyncIterable<CheckpointItem>) {
    this.#items = base[Symbol.asyncIterator]();
  }

  async peek(): Promise<CheckpointItem | null> {
    if (this.#next === null && !this.#ended) {
      const result = await this.#items.next();
      if (result.done === true) this.#ended = true;
      else this.#next = result.value;
    }
    return this.#next;
  }

  async take(): Promise<CheckpointItem | null> {
    const item = await this.peek();
    this.#next = null;
    return item;
  }

  /** What follows the stream or subscription that was taken, up to the next one. */
  async *rest(): AsyncGenerator<Exclude<CheckpointItem, HeadItem>> {
    for (let item = await this.peek(); item !== null && item.kind !== 'stream' && item.kind !== 'subscription'; item = await this.peek()) {
      this.#next = null;
      yield item;
    }
  }

  async close(): Promise<void> {
    await this.#items.return?.();
  }
}
