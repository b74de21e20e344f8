/**
 * Which data objects the readers of this node are reading from (I8).
 *
 * Owns: the open readers. Promises: an object that a reader may still ask for is held for at most `READER_PIN_MS_MAX`; a reader that holds one longer, while
 * collection wants it, is cut with `ReaderCut`, so that it ends with an error and never short (I9). A reader costs one entry here and nothing for each object.
 */
import { objectKey } from '../../../../shared/storage/records/object-id.js';
import type { ObjectId } from '../../../../shared/storage/records/types.js';
import { READER_PIN_MS_MAX } from '../limits.js';

/** A reader held an object for too long that nothing names any more. */
export class ReaderCut extends Error {
  constructor(readonly key: string, ms: number) {
    super(`a reader held object ${key} for ${ms} ms after the last reference to it may have gone`);
    this.name = 'ReaderCut';
  }
}

export interface HeldBy {
  /** What the reader may still ask the store for. */
  readonly objects: () => Iterable<ObjectId>;
  readonly cut: (why: ReaderCut) => void;
}

class ReaderPin {
  /** When the oldest of what it holds now was looked up, ms. */
  sinceMs: number;

  constructor(private readonly pins: ReaderPins, readonly by: HeldBy) {
    this.sinceMs = pins.now();
  }

  /** The reader has looked up what it reads next. */
  renew(): void {
    this.sinceMs = this.pins.now();
  }

  close(): void {
    this.pins.forget(this);
  }
}

export class ReaderPins {
  readonly #open = new Set<ReaderPin>();

  constructor(readonly now: () => number) {}

  open(by: HeldBy): ReaderPin {
    const pin = new ReaderPin(this, by);
    this.#open.add(pin);
    return pin;
  }

  forget(pin: ReaderPin): void {
    this.#open.delete(pin);
  }

  /** Those of the objects that a reader holds. Readers that have held one of them for too long are cut first, and hold nothing any more. */
  held(wanted: ReadonlySet<string>): Set<string> {
    const held = new Set<string>();
    const now = this.now();
    for (const pin of this.#open) {
      // A clock that was set back makes nobody's time longer than it is from now on.
      pin.sinceMs = Math.min(pin.sinceMs, now);
      const keys = [...new Set([...pin.by.objects()].map(objectKey))].filter((key) => wanted.has(key));
      const [first] = keys;
      if (first === undefined) continue;
      const ms = now - pin.sinceMs;
      if (ms <= READER_PIN_MS_MAX) {
        for (const key of keys) held.add(key);
        continue;
      }
      const why = new ReaderCut(first, ms);
      this.#open.delete(pin);
      pin.by.cut(why);
    }
    return held;
  }
}
