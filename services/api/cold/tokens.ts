/**
 * Incarnation tokens that are never issued twice (architecture section 6, I7).
 *
 * Owns: the counter of one partition. Promises: a counter is durably reserved before it is used, so a crash loses numbers but never repeats one; a used-up
 * counter goes on in the next session.
 */
import { COUNTER_LIMIT, issueIncarnation } from '../../../shared/protocol/incarnation.js';
import type { Incarnation } from '../../../shared/protocol/types.js';
import { readTokenReserve, tokenReserveRow, type MetaRows } from './directory.js';
import { TOKEN_BLOCK } from './limits.js';

export interface TokenSession {
  /** Session to issue under, now. */
  session(): number;
  /** Moves to a session above the current one, durable before it resolves. */
  next(): Promise<void>;
}

export class TokenIssuer {
  readonly #partition: number;
  readonly #key: Buffer;
  readonly #rows: MetaRows;
  readonly #sessions: TokenSession;
  #loaded = false;
  #session = 0;
  #next = 0;
  #reserved = 0;
  #reserving: Promise<void> | null = null;

  constructor(partition: number, key: Buffer, rows: MetaRows, sessions: TokenSession) {
    this.#partition = partition;
    this.#key = key;
    this.#rows = rows;
    this.#sessions = sessions;
  }

  async issue(): Promise<Incarnation> {
    while (!this.#loaded || this.#session !== this.#sessions.session() || this.#next >= this.#reserved) {
      await (this.#reserving ??= this.#reserve().finally(() => {
        this.#reserving = null;
      }));
    }
    return issueIncarnation(this.#key, this.#partition, this.#session, this.#next++);
  }

  /** Reserves the next block of counters; the first time, goes on behind what an earlier run reserved. */
  async #reserve(): Promise<void> {
    if (!this.#loaded) {
      const stored = await readTokenReserve(this.#rows, this.#partition);
      this.#session = stored?.session ?? 0;
      this.#next = stored?.reserved ?? 0;
      this.#reserved = this.#next;
      this.#loaded = true;
    }
    let session = this.#sessions.session();
    if (session === this.#session && this.#reserved >= COUNTER_LIMIT) {
      if (this.#next < this.#reserved) return;
      await this.#sessions.next();
      session = this.#sessions.session();
      if (session === this.#session) throw new Error(`partition ${this.#partition} stayed in session ${session} with its counters used up`);
    }
    const from = session === this.#session ? this.#reserved : 0;
    const reserved = Math.min(from + TOKEN_BLOCK, COUNTER_LIMIT);
    await this.#rows.write([tokenReserveRow(this.#partition, { session, reserved })]);
    // Counters of an earlier block that were not used yet are given up: the ones of a new session begin at 0.
    this.#next = session === this.#session ? Math.max(this.#next, from) : 0;
    this.#session = session;
    this.#reserved = reserved;
  }
}
