/**
 * How much of each partition is not sealed yet, and since when, and how much is sealed and hot all the same: kept in memory, moved with every durable change.
 *
 * Owns: the numbers that make a seal due, that the back-pressure of writes looks at, and that make sealed copies go early (architecture sections 3 and 6).
 */
import { heldFrom } from '../../../shared/storage/records/stream-record.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { sealedHotOf } from '../cold/sealed-hot.js';

/** Logical bytes of a stream that no published reference covers. */
function unsealedOf(record: StreamRecord | null): number {
  return record === null ? 0 : record.tail - Math.max(record.sealed, heldFrom(record));
}

export class PartitionLoad {
  readonly #unsealed: number[];
  readonly #sealedHot: number[];
  readonly #dirtySince: (number | null)[];

  constructor(partitions: number) {
    this.#unsealed = Array.from({ length: partitions }, () => 0);
    this.#sealedHot = Array.from({ length: partitions }, () => 0);
    this.#dirtySince = Array.from({ length: partitions }, () => null);
  }

  moved(partition: number, before: StreamRecord | null, after: StreamRecord | null): void {
    const moved = unsealedOf(after) - unsealedOf(before);
    if (moved !== 0) this.#unsealed[partition] = this.unsealed(partition) + moved;
    const kept = sealedHotOf(after) - sealedHotOf(before);
    if (kept !== 0) this.#sealedHot[partition] = this.sealedHot(partition) + kept;
  }

  marked(partition: number, atMs: number): void {
    const since = this.dirtySince(partition);
    if (since === null || atMs < since) this.#dirtySince[partition] = atMs;
  }

  /** Everything dirty before `atMs` is in a plan now. */
  cut(partition: number, atMs: number): void {
    const since = this.dirtySince(partition);
    if (since !== null && since <= atMs) this.#dirtySince[partition] = null;
  }

  unsealed(partition: number): number {
    const bytes = this.#unsealed[partition];
    if (bytes === undefined) throw new Error(`no partition ${partition}`);
    return bytes;
  }

  sealedHot(partition: number): number {
    const bytes = this.#sealedHot[partition];
    if (bytes === undefined) throw new Error(`no partition ${partition}`);
    return bytes;
  }

  dirtySince(partition: number): number | null {
    const since = this.#dirtySince[partition];
    if (since === undefined) throw new Error(`no partition ${partition}`);
    return since;
  }
}
