/**
 * Sees to it that what the journal holds is written when no batch of others takes it along.
 *
 * Owns: the timer, and the waiting of readers of rows. Promises: an end that is asked for is in rows when the wait is over, or the core is closed or opens its store again, which makes rows of everything.
 */
import type { Journal } from './journal.js';
import { JOURNAL_LOOK_MS } from './limits.js';
import type { JournalTail } from './slot.js';

export class JournalWriter {
  readonly #journal: Journal;
  /** Writes a batch of what the journal has to write; resolves when it is over, never rejects. null: no batch can be written now. */
  readonly #batch: () => Promise<void> | null;
  #timer: NodeJS.Timeout | null = null;
  #writing = false;

  constructor(journal: Journal, batch: () => Promise<void> | null) {
    this.#journal = journal;
    this.#batch = batch;
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.#writeDue(), JOURNAL_LOOK_MS).unref();
  }

  async written(tails: Iterable<JournalTail>): Promise<void> {
    const waiting = [...tails];
    for (const tail of waiting) this.#journal.want(tail);
    while (waiting.some((tail) => this.#journal.holds(tail))) {
      const batch = this.#batch();
      if (batch === null) return;
      await batch;
    }
  }

  async #writeDue(): Promise<void> {
    if (this.#writing) return;
    this.#writing = true;
    for (let batch: Promise<void> | null = null; this.#journal.isDue && (batch = this.#batch()) !== null; ) await batch;
    this.#writing = false;
  }

  /** Ends the timer and writes everything. */
  async drain(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    while (!this.#journal.isEmpty) {
      await this.written(this.#journal.tails());
      const batch = this.#journal.isEmpty ? null : this.#batch();
      if (batch === null) return;
      await batch;
    }
  }
}
