/**
 * Sorts everything that the object store lists under a partition (I8).
 *
 * Owns: the verdict on each name. Promises: a name that does not parse, that belongs to a session or a plan that nobody knows, or that lies outside every partition is unknown and kept;
 * claims of sessions and the last entry of each session's log are never chosen: they are what stops a node that was paused for long, and each start of a node leaves only two of them.
 */
import type { NewestCheckpoints } from '../../../../shared/storage/history/checkpoints.js';
import { comparePositions, type LogPosition } from '../../../../shared/storage/history/log-reader.js';
import { parseCheckpointKey, parseCheckpointPartKey, parseLogKey, parseSessionKey, partitionPrefix, STORE_KEY } from '../../../../shared/storage/keys.js';
import type { ObjectInfoListed, ObjectStore } from '../../../../shared/storage/object-store.js';
import { parseObjectKey } from '../../../../shared/storage/records/object-id.js';
import type { ObjectId } from '../../../../shared/storage/records/types.js';

/** Names kept of each kind in one run: the rest has its turn in the next one. */
const CHOSEN_MAX = 100_000;
/** Unknown names reported one by one. */
const UNKNOWN_LISTED_MAX = 100;
/** Behind every key that begins with what stands before it. */
const LAST = '~';

export interface Stray {
  readonly key: string;
  readonly id: ObjectId;
  readonly bytes: number;
}

export class Listing {
  /** Data objects that the history does not know. */
  readonly strays: Stray[] = [];
  /** Manifests and parts of checkpoints before the older of the newest two. */
  readonly manifests: string[] = [];
  readonly parts: string[] = [];
  /** Log entries that the older checkpoint covers, oldest first, without the last one of each session. */
  readonly logs: string[] = [];
  unknown = 0;
  readonly unknownKeys: string[] = [];
  #lastLog: { readonly key: string; readonly at: LogPosition } | null = null;

  constructor(private readonly checkpoints: NewestCheckpoints, private readonly isKnown: (key: string) => boolean, private readonly onUnknown: (key: string) => void = () => undefined) {}

  /** Sorts a partition. */
  async run(store: ObjectStore, partition: number, signal: AbortSignal): Promise<void> {
    for await (const { key, bytes } of store.list(partitionPrefix(partition))) {
      signal.throwIfAborted();
      this.#take(key, bytes);
    }
  }

  /** Everything outside of the partitions, which are stepped over. */
  async runOutside(store: ObjectStore, partitions: number, signal: AbortSignal): Promise<void> {
    const own = Array.from({ length: partitions }, (_, partition) => partitionPrefix(partition));
    for (let after: string | null = ''; after !== null; ) {
      let next: string | null = null;
      for await (const { key } of store.list('', after) as AsyncIterable<ObjectInfoListed>) {
        signal.throwIfAborted();
        const prefix: string | undefined = own.find((one) => key.startsWith(one));
        if (prefix !== undefined) {
          next = `${prefix}${LAST}`;
          break;
        }
        if (key !== STORE_KEY) this.addUnknown(key);
      }
      after = next;
    }
  }

  addUnknown(key: string): void {
    this.onUnknown(key);
    this.unknown++;
    if (this.unknownKeys.length < UNKNOWN_LISTED_MAX) this.unknownKeys.push(key);
  }

  #take(key: string, bytes: number): void {
    const id = parseObjectKey(key);
    if (id !== null) {
      if (!this.isKnown(key)) this.#choose(this.strays, { key, id, bytes });
      return;
    }
    const log = parseLogKey(key);
    if (log !== null) return this.#takeLog(key, log);
    const manifest = parseCheckpointKey(key);
    if (manifest !== null) return this.#takeOld(this.manifests, key, manifest);
    const part = parseCheckpointPartKey(key);
    if (part !== null) return this.#takeOld(this.parts, key, part);
    if (parseSessionKey(key) === null) this.addUnknown(key);
  }

  /** Chosen only when another entry of the same session follows. */
  #takeLog(key: string, at: LogPosition): void {
    const before = this.#lastLog;
    if (before !== null && before.at.session === at.session) this.#takeOld(this.logs, before.key, before.at, true);
    this.#lastLog = { key, at };
  }

  /** What lies before the older checkpoint; a late writer may still finish one that lies behind it, so nothing of that goes. */
  #takeOld(chosen: string[], key: string, at: LogPosition, orAt = false): void {
    const { older } = this.checkpoints;
    if (older === null) return;
    const order = comparePositions(at, older);
    if (order < 0 || (orAt && order === 0)) this.#choose(chosen, key);
  }

  #choose<T>(chosen: T[], one: T): void {
    if (chosen.length < CHOSEN_MAX) chosen.push(one);
  }
}
