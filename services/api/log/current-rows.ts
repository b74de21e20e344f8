/**
 * The hot store as everything but the log's own hot path sees it: rows of streams say all that is durable.
 *
 * Owns: who has to wait for the journal. Promises: a read of stream, producer or data rows begins after the ends that the journal held of these streams lie in rows; reads of other rows, and reads of
 * streams that are not in the journal, cost nothing more.
 */
import type { Incarnation } from '../../../shared/protocol/types.js';
import { KIND, streamRow } from '../hot/keys/index.js';
import { successor } from '../hot/keys/layout.js';
import type { HotEntry, HotReads, ScanRange } from '../hot/store.js';
import type { Journal } from './journal.js';
import type { JournalTail } from './slot.js';

/** Keys of rows of one life of a stream begin with kind, slot and incarnation. */
const LIFE_BYTES = 11;

export class CurrentRows implements HotReads {
  readonly #store: HotReads;
  readonly #journal: Journal;
  readonly #write: (tails: Iterable<JournalTail>) => Promise<void>;

  /** `write`: resolves when rows hold these ends. */
  constructor(store: HotReads, journal: Journal, write: (tails: Iterable<JournalTail>) => Promise<void>) {
    this.#store = store;
    this.#journal = journal;
    this.#write = write;
  }

  async get(key: Buffer): Promise<Buffer | undefined> {
    const tail = this.#tailOf(key);
    if (tail !== undefined) await this.#write([tail]);
    return this.#store.get(key);
  }

  async getMany(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    const tails = new Set<JournalTail>();
    for (const key of keys) {
      const tail = this.#tailOf(key);
      if (tail !== undefined) tails.add(tail);
    }
    if (tails.size > 0) await this.#write(tails);
    return this.#store.getMany(keys);
  }

  async *scan(range: ScanRange): AsyncGenerator<readonly HotEntry[], void, void> {
    const tails = this.#tailsIn(range);
    if (tails.length > 0) await this.#write(tails);
    yield* this.#store.scan(range);
  }

  /** The end that a row may lack. */
  #tailOf(key: Buffer): JournalTail | undefined {
    if (this.#journal.isEmpty) return undefined;
    if (key[0] === KIND.data || key[0] === KIND.producer) return this.#journal.tailOf(incarnationOf(key));
    if (key[0] !== KIND.stream) return undefined;
    return this.#journal.tailOfKey(streamRow.decodeKey(key).key);
  }

  #tailsIn({ from, to, through }: ScanRange): JournalTail[] {
    if (this.#journal.isEmpty || !overlaps(from, to)) return [];
    if (isOneLife(from, to)) {
      const tail = this.#journal.tailOf(incarnationOf(from));
      return tail === undefined || (through !== undefined && tail.from >= through) ? [] : [tail];
    }
    return [...this.#journal.tails()];
  }
}

function incarnationOf(key: Buffer): Incarnation {
  return (key.readUInt32BE(3) * 0x1_0000_0000 + key.readUInt32BE(7)) as Incarnation;
}

/** Rows of one incarnation and no other. */
function isOneLife(from: Buffer, to: Buffer): boolean {
  return from[0] !== KIND.stream && from.length >= LIFE_BYTES && Buffer.compare(to, successor(from.subarray(0, LIFE_BYTES))) <= 0;
}

function overlaps(from: Buffer, to: Buffer): boolean {
  return [KIND.stream, KIND.data, KIND.producer].some((kind) => Buffer.compare(from, Buffer.from([kind + 1])) < 0 && Buffer.compare(to, Buffer.from([kind])) > 0);
}
