/**
 * Forks in a restore: each is bound to its source as that is restored, and sources count the forks that are there (requirements section 28, architecture section 7).
 *
 * Owns: the order (sources first) and the counts. Promises: the log held a source, up to where a fork begins, before it got the fork; so a fork without a source is one whose end the log does not hold yet, and is not
 * restored. Holds keys of forks and of their sources in memory, nothing of other streams.
 */
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import { heldFrom } from '../../../shared/storage/records/stream-record.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { streamRow, unpinRow } from '../hot/keys/index.js';
import type { HotReads } from '../hot/store.js';
import type { RowWriter } from './row-writer.js';

export class RestoredForks {
  readonly #store: HotReads;
  #round: 'plain' | 'forks' = 'plain';
  #progress = false;
  /** Forks that are not restored yet. */
  readonly #waiting = new Set<StreamKey>();
  /** Streams that forks wait for, with the tokens by which these may name the life that the log holds. */
  readonly #sources = new Map<StreamKey, Set<Incarnation>>();
  /** Forks that were restored of each, and streams that the log says have some. */
  readonly #counts = new Map<StreamKey, number>();

  constructor(store: HotReads) {
    this.#store = store;
  }

  /** The stream as it is to be restored now; null: not in this round. */
  async accept(key: StreamKey, state: StreamRecord): Promise<StreamRecord | null> {
    const { origin } = state;
    if (this.#round === 'plain') {
      if (origin !== null) {
        this.#waiting.add(key);
        this.#sources.set(origin.key, new Set());
        return null;
      }
    } else {
      if (origin === null || !this.#waiting.has(key)) return null;
      const source = await this.#source(origin.key);
      if (source === null || this.#sources.get(origin.key)?.has(origin.incarnation) !== true || source.tail < origin.at) return null;
      // What lies below its boundary goes once its last fork has ended: so this one had.
      if (heldFrom(source) > (source.origin?.at ?? 0)) return null;
      this.#waiting.delete(key);
      this.#progress = true;
      this.#counts.set(origin.key, (this.#counts.get(origin.key) ?? 0) + 1);
      if (state.forks > 0) this.#expect(key);
      return { ...state, origin: { ...origin, incarnation: source.incarnation } };
    }
    if (state.forks > 0) this.#expect(key);
    return state;
  }

  #expect(key: StreamKey): void {
    if (!this.#counts.has(key)) this.#counts.set(key, 0);
  }

  /** All streams that are no forks are there. False: there are no others. */
  begin(): boolean {
    this.#round = 'forks';
    return this.#waiting.size > 0;
  }

  /** A token of the life that the log holds under the key. Needed of all sources before the first round of forks. */
  note(key: StreamKey, incarnation: Incarnation): void {
    this.#sources.get(key)?.add(incarnation);
  }

  /** True: forks are left, and this round brought some. */
  nextRound(): boolean {
    const again = this.#progress && this.#waiting.size > 0;
    this.#progress = false;
    return again;
  }

  async #source(key: StreamKey): Promise<StreamRecord | null> {
    const value = await this.#store.get(streamRow.key(slotOf(key), key));
    return value === undefined ? null : streamRow.decode(value);
  }

  /** Writes the counts, and returns the forks that had ended. A source that was deleted and has none left is let go by the node, as after the end of a last fork. */
  async finish(writer: RowWriter): Promise<StreamKey[]> {
    for (const [key, forks] of this.#counts) {
      const record = await this.#source(key);
      if (record === null) continue;
      const slot = slotOf(key);
      const kept = record.softDeleted && forks === 0;
      await writer.put(streamRow.key(slot, key), streamRow.encode({ ...record, forks: kept ? 1 : forks }));
      if (kept) await writer.put(unpinRow.key(slot, record.incarnation, record.incarnation), unpinRow.encode({ key }));
    }
    await writer.flush();
    return [...this.#waiting];
  }
}
