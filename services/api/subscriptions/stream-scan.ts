/**
 * Looks for streams that subscriptions follow, by the index of names (P6.2, "internal stream listing facility").
 *
 * Owns: one pass over names. Promises: what is durable when the pass comes by is told to `LinkedStreams`; together with its notices of changes nothing is missed. A pass holds SCAN_READS streams at a time.
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import { nameRow } from '../hot/keys/index.js';
import type { LogCore } from '../log/core.js';
import { SCAN_READS } from './limits.js';
import type { LinkedStreams } from './linked-streams.js';
import type { Subscription } from './subscription.js';

export class StreamScan {
  readonly #core: LogCore;
  readonly #streams: LinkedStreams<Subscription>;
  #pass = 0;

  constructor(core: LogCore, streams: LinkedStreams<Subscription>) {
    this.#core = core;
    this.#streams = streams;
  }

  /** Streams whose name begins with `prefix` and that a pattern matches. */
  async names(prefix: string, pass = 0, signal?: AbortSignal): Promise<void> {
    for await (const page of this.#core.store.scan({ ...nameRow.range(prefix), values: false, pageBytes: PAGE_BYTES })) {
      signal?.throwIfAborted();
      const matched = page.map(({ key }) => nameRow.decodeKey(key).key).filter((key) => this.#streams.isMatched(key));
      await inSlices(matched, (key) => this.#core.using(key, (slot) => {
        const stream = this.#streams.sighted(key, slot.durable);
        if (stream !== null) stream.seen = pass;
      }));
    }
  }

  /** Everything that is followed, and everything that should be: finds what a failed batch had left unsaid. */
  async all(signal: AbortSignal): Promise<void> {
    const pass = ++this.#pass;
    if (this.#streams.hasPatterns) await this.names('', pass, signal);
    const unseen = [...this.#streams.all()].filter((stream) => stream.seen !== pass).map((stream) => stream.key);
    await inSlices(unseen, (key) => this.look(key));
  }

  /** One stream that is followed. */
  look(key: StreamKey): Promise<void> {
    return this.#core.using(key, (slot) => {
      const stream = this.#streams.get(key);
      if (stream !== undefined) this.#streams.observe(stream, slot.durable);
    });
  }
}

/** Names looked at in one turn of the event loop, bytes. */
const PAGE_BYTES = 65_536;

async function inSlices(keys: readonly StreamKey[], work: (key: StreamKey) => Promise<void>): Promise<void> {
  for (let at = 0; at < keys.length; at += SCAN_READS) await Promise.all(keys.slice(at, at + SCAN_READS).map(work));
}
