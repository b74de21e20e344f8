/**
 * Lives of streams whose part of a log record was passed over, for their row could not be read: the log knows more of them than this store (I9, R123).
 *
 * Owns: the marks `behind/…` of one partition. Promises: a mark is durable with the record that was passed over; nothing more of such a life reaches the log from here, not
 * even when its row can be read again, for its frontier has stayed where it was, and ranges that overlap would end every later checkpoint. Its bytes, hot and cold, stay. The mark
 * goes when the log holds the end of the life; `firn restore` builds the stream from what the log knows.
 */
import type { Incarnation } from '../../../shared/protocol/types.js';
import { metaRow } from '../hot/keys/index.js';
import { within } from '../hot/keys/layout.js';
import type { HotOp, HotReads } from '../hot/store.js';
import { BEHIND_MAX } from './limits.js';

export class BehindStreams {
  readonly #lives = new Set<string>();
  readonly #prefix: string;

  constructor(private readonly store: HotReads, partition: number) {
    this.#prefix = `behind/${partition}/`;
  }

  async load(): Promise<void> {
    for await (const page of this.store.scan({ ...within(metaRow.key(this.#prefix)), values: false })) {
      for (const { key } of page) this.#lives.add(metaRow.decodeKey(key).name.slice(this.#prefix.length));
    }
  }

  get count(): number {
    return this.#lives.size;
  }

  /** So many are no damage of single streams any more (I11). */
  get full(): boolean {
    return this.#lives.size >= BEHIND_MAX;
  }

  has(incarnation: Incarnation): boolean {
    return this.#lives.size > 0 && this.#lives.has(String(incarnation));
  }

  /** May be asked for again: a batch that failed has left none. */
  mark(incarnation: Incarnation): HotOp {
    this.#lives.add(String(incarnation));
    return { type: 'put', key: metaRow.key(this.#prefix + String(incarnation)), value: Buffer.from('{}') };
  }

  unmark(incarnation: Incarnation): HotOp {
    return { type: 'del', key: metaRow.key(this.#prefix + String(incarnation)) };
  }
}
