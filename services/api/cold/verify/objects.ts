/**
 * Checks of every object that the hot store names, and a list of those that it does not (`firn verify`; I4, I8).
 */
import { crc32c } from '../../../../shared/storage/crc.js';
import { parseDataObject, type DataObjectItem } from '../../../../shared/storage/data-object.js';
import type { ObjectInfoListed, ObjectStore } from '../../../../shared/storage/object-store.js';
import { objectKey, objectPrefix, parseObjectKey, sameObject } from '../../../../shared/storage/records/object-id.js';
import type { BlockRef, ObjectId } from '../../../../shared/storage/records/types.js';
import { slotOf } from '../../../../shared/storage/slots.js';
import { Listing } from '../../../worker/handlers/collect/listing.js';
import { readBoundSession } from '../directory.js';
import { objectRow, refRow, snapshotRow, streamRow, type ObjectUse } from '../../hot/keys/index.js';
import type { HotReads } from '../../hot/store.js';
import type { Findings } from './findings.js';
import type { RefCounts } from './streams.js';

const UNKNOWN_LISTED_MAX = 1_000;
const KINDS = ['segment', 'snapshot', 'merged'] as const;

export interface ObjectCheckOptions {
  readonly store: HotReads;
  readonly objects: ObjectStore;
  readonly partitions: number;
  readonly deep: boolean;
  readonly findings: Findings;
  readonly signal: AbortSignal;
  readonly progress: (objects: number) => void;
}

/** The objects of a partition as the store lists them, read along with the rows that know them, for both are in the order of their numbers: one page in memory. */
class DataListings {
  readonly #listings: ReadonlyMap<ObjectId['kind'], OpenListing>;

  constructor(objects: ObjectStore, partition: number, private readonly unknown: (key: string) => void) {
    this.#listings = new Map(KINDS.map((kind) => [kind, new OpenListing(objects.list(objectPrefix(partition, kind)))]));
  }

  /** Length of an object, null when it is not listed. What is listed before it is known to nobody. Asked in rising order. */
  async take(kind: ObjectId['kind'], key: string): Promise<number | null> {
    const listing = this.#listings.get(kind) as OpenListing;
    for (let next = await listing.peek(); next !== null && next.key <= key; next = await listing.peek()) {
      listing.skip();
      if (next.key === key) return next.bytes;
      this.unknown(next.key);
    }
    return null;
  }

  async finish(): Promise<void> {
    for (const listing of this.#listings.values()) {
      for (let next = await listing.peek(); next !== null; next = await listing.peek()) {
        listing.skip();
        this.unknown(next.key);
      }
    }
  }
}

class OpenListing {
  readonly #keys: AsyncIterator<ObjectInfoListed>;
  #next: ObjectInfoListed | null = null;

  constructor(keys: AsyncIterable<ObjectInfoListed>) {
    this.#keys = keys[Symbol.asyncIterator]();
  }

  async peek(): Promise<ObjectInfoListed | null> {
    if (this.#next === null) {
      const result = await this.#keys.next();
      if (result.done !== true) this.#next = result.value;
    }
    return this.#next;
  }

  skip(): void {
    this.#next = null;
  }
}

export class ObjectCheck {
  objects = 0;
  bytes = 0;
  /** Objects that nothing names any more. */
  garbage = 0;
  garbageBytes = 0;
  /** Objects of sessions that have ended, of which no row is left, or never was one. */
  leftOvers = 0;
  /** Everything else in the store that nothing here names: objects being made, or somebody else's. Kept, not judged. */
  readonly unknown: string[] = [];
  unknownCount = 0;
  readonly #options: ObjectCheckOptions;
  /** The session that the partition at hand is bound to. */
  #session = 0;
  readonly #suspects: { readonly id: ObjectId; readonly key: string }[] = [];

  constructor(options: ObjectCheckOptions) {
    this.#options = options;
  }

  /** `named`: references per object as the streams hold them; `recount` counts them anew. */
  async run(named: RefCounts, recount: () => Promise<RefCounts>): Promise<void> {
    const { partitions } = this.#options;
    const missingRows = new Set(named.keys());
    for (let partition = 0; partition < partitions; partition++) {
      this.#session = (await readBoundSession(this.#options.store, partition))?.session ?? 0;
      const there = new DataListings(this.#options.objects, partition, (key) => this.#isUnknown(key));
      for await (const page of this.#options.store.scan(objectRow.range(partition))) {
        for (const row of page) {
          const id = objectRow.decodeKey(row.key);
          const key = objectKey(id);
          missingRows.delete(key);
          const listedBytes = await there.take(id.kind, key);
          await this.#options.findings.attempt(key, () => this.#object(id, objectRow.decode(row.value), listedBytes, named.get(key) ?? 0));
          this.#options.progress(++this.objects);
        }
      }
      await there.finish();
      await this.#names(partition);
    }
    // On a running node references go while objects are read: what seems to lead nowhere is counted once more.
    const suspects = this.#suspects.splice(0);
    if (suspects.length > 0) {
      const now = await recount();
      for (const { id, key } of suspects) await this.#options.findings.attempt(key, () => this.#settle(id, key, now.get(key) ?? 0));
    }
    for (const key of missingRows) this.#options.findings.add(key, 'is named by a reference, but no row knows it');
  }

  /** Names outside of the folders of data objects. */
  async #names(partition: number): Promise<void> {
    const { objects, signal, partitions } = this.#options;
    const looked = KINDS.map((kind) => objectPrefix(partition, kind));
    const names = new Listing({ newest: null, older: null }, () => true, (key) => {
      if (!looked.some((prefix) => key.startsWith(prefix))) this.#isUnknown(key);
    });
    await names.run(objects, partition, signal);
    if (partition === 0) await names.runOutside(objects, partitions, signal);
  }

  #isUnknown(key: string): void {
    const id = parseObjectKey(key);
    if (id !== null && id.session >= 1 && id.session < this.#session) {
      this.leftOvers++;
      return;
    }
    this.unknownCount++;
    if (this.unknown.length < UNKNOWN_LISTED_MAX) this.unknown.push(key);
  }

  async #object(id: ObjectId, use: ObjectUse, listedBytes: number | null, named: number): Promise<void> {
    const { objects, findings, deep, signal } = this.#options;
    signal.throwIfAborted();
    const key = objectKey(id);
    // Written after the listing began, or just not listed: asked for by name.
    const bytes = listedBytes ?? (await objects.size(key));
    if (bytes === null) {
      // A running node may have collected it meanwhile; its row goes first.
      if ((await this.#options.store.get(objectRow.key(id))) === undefined) return;
      findings.add(key, named > 0 ? `is missing; ${named} references name it` : 'is missing, and no collection took it away');
      return;
    }
    this.bytes += bytes;
    if (named === 0 && use.refs === 0) {
      this.garbage++;
      this.garbageBytes += bytes;
    }
    if (bytes !== use.bytes) return findings.add(key, `has ${bytes} bytes instead of ${use.bytes}`);
    if (!deep) return;
    if (id.kind === 'snapshot') return this.#deepSnapshot(key, use);
    await this.#deepData(id, key, use, named);
  }

  async #deepSnapshot(key: string, use: ObjectUse): Promise<void> {
    let crc = 0;
    for await (const piece of this.#options.objects.stream(key, undefined, this.#options.signal)) crc = crc32c(piece, crc);
    if (crc !== use.crc) this.#options.findings.add(key, 'fails its checksum');
  }

  /** Every byte is read and checked, and every range that a reference names is found where it says. */
  async #deepData(id: ObjectId, key: string, use: ObjectUse, named: number): Promise<void> {
    const { objects, findings, signal } = this.#options;
    const body = await objects.get(key, undefined, signal);
    if (crc32c(body) !== use.crc) return findings.add(key, 'fails its checksum');
    if ((await this.#foundIn(id, body)) < named) this.#suspects.push({ id, key });
  }

  async #settle(id: ObjectId, key: string, named: number): Promise<void> {
    const found = await this.#foundIn(id, await this.#options.objects.get(key, undefined, this.#options.signal));
    if (found < named) this.#options.findings.add(key, `${named} references name it, ${found} of them lead to a range of the stream that they are of`);
  }

  async #foundIn(id: ObjectId, body: Buffer): Promise<number> {
    let found = 0;
    for await (const item of parseDataObject(body)) if (await this.#isNamed(id, item)) found++;
    return found;
  }

  /** A stream's life may be newer than the object's (restored under a new incarnation): the key says whose bytes they are. */
  async #isNamed(id: ObjectId, item: DataObjectItem): Promise<boolean> {
    const { store } = this.#options;
    const slot = slotOf(item.key);
    const row = await store.get(streamRow.key(slot, item.key));
    if (row === undefined) return false;
    const record = streamRow.decode(row);
    const isHere = (ref: BlockRef): boolean => sameObject(ref.object, id) && ref.frameAt === item.ref.frameAt && ref.blockAt === item.ref.blockAt && ref.blockBytes === item.ref.blockBytes;
    if (item.kind === 'block') {
      const value = await store.get(refRow.key(slot, record.incarnation, item.end));
      return value !== undefined && isHere(refRow.decode(value));
    }
    if (record.snapshot !== null && record.snapshot.cold?.at === 'block' && isHere(record.snapshot.cold.ref)) return true;
    const value = await store.get(snapshotRow.key(slot, record.incarnation, item.start));
    const superseded = value === undefined ? null : snapshotRow.decode(value);
    return superseded?.cold?.at === 'block' && isHere(superseded.cold.ref);
  }
}
