/**
 * Events that readers at the same place of a stream read from storage.
 *
 * Owns: those that are being read, and the newest of the others, over all streams of a node. Promises: an event is read and framed once for all who come to it together or soon after
 * (R052); at most `bytesMax` are kept (I11); neither a failure nor what lay at the tail is, as more may follow there.
 */
import type { Offset } from '../../../shared/protocol/types.js';
import type { Frame } from './frame.js';
import { STORED_EVENTS_BYTES_MAX } from './limits.js';
import type { Reach } from './representation.js';

export interface StoredEvent {
  /** null: no event can be made of what is there. */
  readonly frame: Frame | null;
  readonly end: Offset;
  readonly reach: Reach;
  /** Bytes behind `end` up to the tail, which wait for what follows. */
  readonly rest: Buffer;
}

export class StoredEvents {
  readonly #reading = new Map<string, Promise<StoredEvent | number>>();
  /** The oldest first. */
  readonly #kept = new Map<string, StoredEvent & { readonly frame: Frame }>();
  #bytes = 0;

  constructor(readonly bytesMax = STORED_EVENTS_BYTES_MAX) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** The event of that name, by `read` unless it is there; a number: it is too large to be read here. */
  take(name: string, read: () => Promise<StoredEvent | number>): Promise<StoredEvent | number> {
    const kept = this.#kept.get(name);
    if (kept !== undefined) return Promise.resolve(kept);
    let reading = this.#reading.get(name);
    if (reading === undefined) this.#reading.set(name, (reading = this.#read(name, read)));
    return reading;
  }

  async #read(name: string, read: () => Promise<StoredEvent | number>): Promise<StoredEvent | number> {
    try {
      const event = await read();
      if (typeof event !== 'number' && event.reach === 'below' && event.frame !== null) this.#keep(name, { ...event, frame: event.frame });
      return event;
    } finally {
      this.#reading.delete(name);
    }
  }

  #keep(name: string, event: StoredEvent & { readonly frame: Frame }): void {
    this.#kept.set(name, event);
    this.#bytes += event.frame.framed.length;
    for (const [oldest, { frame }] of this.#kept) {
      if (this.#bytes <= this.bytesMax) return;
      this.#kept.delete(oldest);
      this.#bytes -= frame.framed.length;
    }
  }
}
