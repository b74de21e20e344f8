/**
 * Bodies of snapshots that readers still want.
 *
 * Owns: which snapshots are being read, and the removal of superseded hot bodies once nobody reads them. Promises: a body whose read was begun in the same turn
 * as the look at the stream's state stays until that read is over; a read that is never continued holds it for READ_BEGINS_MS. What a crash leaves
 * behind is removed by the next publish.
 */
import type { Logger } from '../../../shared/observability/logger.js';
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';

/** A read begins to fetch its body within this time after it was opened, or not at all. */
const READ_BEGINS_MS = 5_000;

interface Pin {
  active: number;
  takenAtMs: number;
  /** Set once the snapshot is superseded. */
  remove: (() => Promise<void>) | null;
}

export class SnapshotPins {
  readonly #pins = new Map<string, Pin>();
  readonly #now: () => number;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | null = null;

  /** `now`: wall clock, ms. */
  constructor(now: () => number, logger: Logger) {
    this.#now = now;
    this.#logger = logger;
  }

  start(): void {
    this.#timer = setInterval(() => this.#sweep(), READ_BEGINS_MS);
    this.#timer.unref();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  /** A read of this snapshot was opened. */
  take(incarnation: Incarnation, offset: Offset): void {
    this.#pin(incarnation, offset).takenAtMs = this.#now();
  }

  /** The same pieces; the snapshot is held while they are read. */
  async *during(incarnation: Incarnation, offset: Offset, pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const pin = this.#pin(incarnation, offset);
    pin.active++;
    try {
      yield* pieces;
    } finally {
      pin.active--;
    }
  }

  isFree(incarnation: Incarnation, offset: Offset): boolean {
    return !this.#pins.has(nameOf(incarnation, offset));
  }

  /** The snapshot is superseded, durably: its body is removed at once when nobody reads it, else later. */
  retire(incarnation: Incarnation, offset: Offset, remove: () => Promise<void>): void {
    const pin = this.#pins.get(nameOf(incarnation, offset));
    if (pin === undefined) this.#run(remove);
    else pin.remove = remove;
  }

  #pin(incarnation: Incarnation, offset: Offset): Pin {
    const name = nameOf(incarnation, offset);
    let pin = this.#pins.get(name);
    if (pin === undefined) {
      pin = { active: 0, takenAtMs: this.#now(), remove: null };
      this.#pins.set(name, pin);
    }
    return pin;
  }

  #sweep(): void {
    const before = this.#now() - READ_BEGINS_MS;
    for (const [name, pin] of this.#pins) {
      if (pin.active > 0 || pin.takenAtMs > before) continue;
      this.#pins.delete(name);
      if (pin.remove !== null) this.#run(pin.remove);
    }
  }

  #run(remove: () => Promise<void>): void {
    remove().catch((error: unknown) => this.#logger.warn({ err: error, event: 'snapshot-body-left' }, 'the body of a superseded snapshot stays until the next one'));
  }
}

function nameOf(incarnation: Incarnation, offset: Offset): string {
  return `${incarnation}/${offset}`;
}
