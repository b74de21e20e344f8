/**
 * Job `collect`: finds what nothing needs any more, and deletes what the node lets go (architecture section 6, I8).
 *
 * Owns: nothing that lasts. Promises: what it chooses is proven from checkpoints and log, never from counts alone; no data object is deleted that the node did not name
 * in this very run; every deletion may be repeated, and what a run that was killed left is found by the next one.
 */
import type { JobHandler } from '../../../shared/queue/index.js';
import { soundCheckpoints } from '../../../shared/storage/history/checkpoints.js';
import { comparePositions } from '../../../shared/storage/history/log-reader.js';
import type { CheckpointManifest } from '../../../shared/storage/checkpoint.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { partitionDigits, sessionDigits } from '../../../shared/storage/records/object-id.js';
import { STORE_KEY } from '../../../shared/storage/keys.js';
import { parseStoreDocument } from '../../../shared/storage/store-json.js';
import { COLLECT_BATCH, type CollectChoice, type CollectPlans, type CollectReport, type NodePort } from '../node-port.js';
import { KnownObjects } from './collect/known-objects.js';
import { Listing, type Stray } from './collect/listing.js';

/** Deletions under way at a time. */
const TOGETHER = 8;

const JOB = /^(\d{4})-(\d{6})-c(\d+)$/;

/** `{partition}-{session}-c{run}`: `run` counts within a session. */
export function collectJobId(partition: number, session: number, run: number): string {
  return `${partitionDigits(partition)}-${sessionDigits(session)}-c${run}`;
}

export function collectHandler(port: NodePort): JobHandler {
  return async (jobId, signal) => {
    const match = JOB.exec(jobId);
    if (match === null) throw new Error(`"${jobId}" is no collect job`);
    try {
      const run = new Collection(port, jobId, Number(match[1]), Number(match[2]), signal);
      await port.collected(jobId, await run.run());
    } catch (error) {
      await port.failed(jobId, error instanceof Error ? error.message : String(error)).catch(() => undefined);
      throw error;
    }
  };
}

interface Candidate {
  readonly key: string;
  readonly bytes: number;
}

class Collection {
  readonly #store: ObjectStore;
  readonly #done = { objects: 0, orphans: 0, bytes: 0, waiting: 0, waitingBytes: 0, pinned: 0 };
  #retryMs: number | null = null;

  constructor(private readonly port: NodePort, private readonly jobId: string, private readonly partition: number, private readonly session: number, private readonly signal: AbortSignal) {
    this.#store = port.objects;
  }

  async run(): Promise<CollectReport> {
    const { partition, session, signal } = this;
    // Only those that a restore could begin with count: what the newest two of them need stays (I8).
    const sound: CheckpointManifest[] = [];
    for await (const manifest of soundCheckpoints({ store: this.#store, partition, look: 'lengths', signal })) if (sound.push(manifest) === 2) break;
    const [newest = null, older = null] = sound;
    const known = await KnownObjects.load({ store: this.#store, partition, session, signal }, newest, older);
    const listing = new Listing({ newest, older }, (key) => known.objects.has(key));
    await listing.run(this.#store, partition, signal);
    if (partition === 0) await listing.runOutside(this.#store, await this.#partitions(), signal);
    // In this order: what was listed, and whose plan was over after that, is named by a record that is there by now, or never will be.
    const plans = await this.port.collectPlans(this.jobId);
    await known.read();
    const orphans = listing.strays.filter((stray) => !known.objects.has(stray.key) && this.#isOver(stray, plans, listing));
    const garbage = [...known.objects].filter(([, { standing }]) => standing === 'garbage').map(([key, { bytes }]) => ({ key, bytes }));
    const uncovered = [...known.objects.values()].filter(({ standing }) => standing === 'uncovered');
    await this.#free(garbage, 'objects', (keys) => ({ dropped: keys, strays: [] }));
    await this.#free(orphans, 'orphans', (keys) => ({ dropped: [], strays: keys }));
    const { isSound, damaged } = await this.#proven(sound, listing);
    const { manifests, parts, logs } = isSound ? listing : { manifests: [], parts: [], logs: [] };
    // A manifest goes before its parts, so that none is there without them; the log goes oldest first, so that what is left has no hole.
    await this.#delete(manifests);
    await this.#delete(parts);
    await this.#delete(logs);
    const done = this.#done;
    return {
      partition, ...done,
      waiting: done.waiting + uncovered.length,
      waitingBytes: done.waitingBytes + uncovered.reduce((sum, { bytes }) => sum + bytes, 0),
      uncovered: uncovered.length,
      checkpoints: manifests.length,
      logs: logs.length,
      unknown: listing.unknown,
      unknownKeys: listing.unknownKeys,
      damaged,
      retryMs: this.#retryMs,
    };
  }

  /** Whether every byte of both checkpoints is as it was written, asked before what lies before them goes: one that has rotted keeps its length. */
  async #proven(chosen: readonly CheckpointManifest[], { manifests, logs }: Listing): Promise<{ readonly isSound: boolean; readonly damaged: number }> {
    if (manifests.length + logs.length === 0) return { isSound: true, damaged: 0 };
    let damaged = 0;
    let next = 0;
    for await (const manifest of soundCheckpoints({ store: this.#store, partition: this.partition, look: 'sums', signal: this.signal, damaged: () => damaged++ })) {
      const expected = chosen[next++];
      if (expected === undefined || comparePositions(manifest, expected) !== 0) return { isSound: false, damaged };
      if (next === chosen.length) return { isSound: true, damaged };
    }
    return { isSound: false, damaged };
  }

  /** Sessions before this one are fenced, or this one would not run. */
  #isOver({ key, id }: Stray, plans: CollectPlans, listing: Listing): boolean {
    if (id.session >= 1 && id.session < plans.session) return true;
    if (id.session === plans.session && id.plan >= 1 && id.plan <= plans.last) return !plans.open.includes(id.plan);
    listing.addUnknown(key);
    return false;
  }

  async #free(candidates: readonly Candidate[], kind: 'objects' | 'orphans', choiceOf: (keys: string[]) => CollectChoice): Promise<void> {
    for (let at = 0; at < candidates.length; at += COLLECT_BATCH) {
      this.signal.throwIfAborted();
      const batch = candidates.slice(at, at + COLLECT_BATCH);
      const { free, pinned, retryMs } = await this.port.collect(this.jobId, choiceOf(batch.map(({ key }) => key)));
      const bytesOf = new Map(batch.map(({ key, bytes }) => [key, bytes]));
      const may = free.filter((key) => bytesOf.has(key));
      await this.#delete(may);
      const bytes = may.reduce((sum, key) => sum + (bytesOf.get(key) ?? 0), 0);
      this.#done[kind] += may.length;
      this.#done.bytes += bytes;
      this.#done.waiting += batch.length - may.length;
      this.#done.waitingBytes += batch.reduce((sum, one) => sum + one.bytes, 0) - bytes;
      this.#done.pinned += pinned;
      if (retryMs !== null) this.#retryMs = Math.min(retryMs, this.#retryMs ?? Infinity);
    }
  }

  async #delete(keys: readonly string[]): Promise<void> {
    for (let at = 0; at < keys.length; at += TOGETHER) {
      this.signal.throwIfAborted();
      await Promise.all(keys.slice(at, at + TOGETHER).map((key) => this.#store.delete(key)));
    }
  }

  async #partitions(): Promise<number> {
    return parseStoreDocument(await this.#store.get(STORE_KEY, undefined, this.signal)).partitions;
  }
}
