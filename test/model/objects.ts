/**
 * The folder of objects between two steps: what is there stays as it is (I4), and what goes was let go before (I8): a `collect` record names it, or no record ever brought it in; log and checkpoints
 * stay as far as a restore from the older of the newest two checkpoints needs them.
 */
import { expect } from 'vitest';
import { crc32c } from '../../shared/storage/crc.js';
import { parseCheckpointKey, parseLogKey } from '../../shared/storage/keys.js';
import type { LogKey } from '../../shared/storage/keys.js';
import { decodeLogEntry } from '../../shared/storage/records/log-entry.js';
import { objectKey } from '../../shared/storage/records/object-id.js';
import type { ObjectsView } from './objects-view.js';

/** Kinds whose objects log records bring in. */
const DATA = /^partitions\/\d+\/(segments|merged|snapshots)\//;

const isBefore = (a: LogKey, b: LogKey): boolean => a.session < b.session || (a.session === b.session && a.seq < b.seq);

export class Objects {
  /** Sum of each object that is there. */
  #there = new Map<string, number>();
  /** Brought in by a record, and let go by one. */
  readonly #named = new Set<string>();
  readonly #dropped = new Set<string>();
  /** Objects that went so far. */
  gone = 0;

  constructor(private readonly view: ObjectsView) {}

  /** The objects are a copy in another folder from now on. */
  moved(): void {
    this.#there = new Map();
  }

  async check(): Promise<void> {
    const before = this.#there;
    let missing = await this.#look(before);
    // Deleted while the folder was looked through: its record may have come behind the look.
    if (missing.some((key) => !this.#mayGo(key))) missing = await this.#look(before);
    expect(missing.filter((key) => !this.#mayGo(key)), 'objects that are gone').toEqual([]);
    this.gone += missing.length;
  }

  /** Every object has the bytes that it had when it was first seen: at the end of a sequence. */
  async settle(): Promise<void> {
    for (const [key, sum] of this.#there) {
      const bytes = await this.view.read(key);
      if (bytes !== null) expect([key, crc32c(bytes)]).toEqual([key, sum]);
    }
  }

  /** Notes what is there now; tells what of `before` is not. */
  async #look(before: ReadonlyMap<string, number>): Promise<string[]> {
    const now = new Map<string, number>();
    for (const key of await this.view.keys()) {
      const known = before.get(key) ?? this.#there.get(key);
      const bytes = known === undefined ? await this.view.read(key) : null;
      if (bytes !== null) this.#learn(key, bytes);
      if (known !== undefined || bytes !== null) now.set(key, known ?? crc32c(bytes!));
    }
    this.#there = now;
    return [...before.keys()].filter((key) => !now.has(key));
  }

  #learn(key: string, bytes: Buffer): void {
    if (parseLogKey(key) === null) return;
    const entry = decodeLogEntry(bytes);
    if (entry.kind === 'fence') return;
    for (const { id } of entry.objects) this.#named.add(objectKey(id));
    for (const delta of entry.deltas) if (delta.kind === 'collect') for (const id of delta.objects) this.#dropped.add(objectKey(id));
  }

  #mayGo(key: string): boolean {
    if (DATA.test(key)) return this.#dropped.has(key) || !this.#named.has(key);
    const at = parseLogKey(key) ?? parseCheckpointKey(key);
    if (at === null) return key.includes('/checkpoint-parts/');
    const later = [...this.#there.keys()].map(parseCheckpointKey).filter((one) => one !== null && one.partition === at.partition && (parseLogKey(key) === null ? isBefore(at, one) : !isBefore(one, at)));
    return later.length >= 2;
  }
}
