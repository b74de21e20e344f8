/**
 * Builds a data directory from the object store alone (`firn restore`, architecture sections 6 and 7).
 *
 * Owns: the way from checkpoint and log to rows of the hot store. Promises: it claims a session and fences before it reads the log as final, so an old node that
 * still runs can add nothing (I10); what the log holds is there afterwards, byte for byte, and what it does not hold is said per stream; an
 * interrupted restore leaves a directory that no node starts on.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ColdKind } from '../../../shared/config/index.js';
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import type { CheckpointItem, CheckpointManifest } from '../../../shared/storage/checkpoint.js';
import type { StoreDocument } from '../../../shared/storage/store-json.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { checkpointItems, newestCheckpoint, newestSound, type DamagedCheckpoint } from '../../../shared/storage/history/checkpoints.js';
import { LOG_START, readLog, type LogPosition } from '../../../shared/storage/history/log-reader.js';
import { LogOverlay } from '../../../shared/storage/history/log-overlay.js';
import { mergeItems } from '../../../shared/storage/history/merge-items.js';
import { appliedRow, bucketFenceRow } from '../hot/keys/index.js';
import type { DurableStore } from '../hot/durable.js';
import { openDurableStore } from '../hot/durable-store.js';
import type { ColdMetrics } from './cold-metrics.js';
import { boundSessionRow, identityRow, rowsOfStore, type Identity, type MetaRows } from './directory.js';
import { PartitionSession } from './partition-session.js';
import { Filling, type Renewal } from './restore-filling.js';
import { RestoredForks } from './restore-forks.js';
import { GENERATIONS_PER_SESSION, RestoredSubscriptions } from './restore-subscriptions.js';
import { RestoredObjects } from './restore-objects.js';
import { RowWriter } from './row-writer.js';
import { newestSession } from './sessions.js';
import { StartRefused } from './start-refused.js';
import { noSteps } from './steps.js';
import { readStoreDocument } from './store-identity.js';
import { TokenIssuer } from './tokens.js';

/** Losses listed one by one; beyond it they are counted. */
const LOSSES_LISTED_MAX = 1_000;

export interface RestoreOptions {
  readonly config: { readonly dataDir: string; readonly cold: ColdKind };
  readonly objects: ObjectStore;
  /** Give every stream a new incarnation. Always so with the file-system store, whose cached answers are marked immutable up to the tail (architecture section 6). */
  readonly newIncarnations: boolean;
  readonly progress?: (done: RestoreProgress) => void;
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
  readonly now: () => number;
  readonly nonce: () => string;
  readonly signal: AbortSignal;
}

/** How far a restore has come, over all partitions. */
export interface RestoreProgress {
  /** Log records read. */
  readonly records: number;
  /** Streams written, and about how many there are: some of those that the log speaks of may have ended, or be in the checkpoint too. 0: not known yet. */
  readonly streams: number;
  readonly streamsAbout: number;
}

/** Something that the object store does not hold of a stream or a subscription that was restored. */
export interface Loss {
  /** Of the stream; of a subscription `__ds/subscriptions/{id}`. */
  readonly key: string;
  readonly what: string;
}

export interface RestoreReport {
  readonly storeId: string;
  readonly newIncarnations: boolean;
  readonly partitions: readonly {
    readonly partition: number;
    readonly session: number;
    /** Newer checkpoints that are not as they were written: what they held was taken from the one before and the log behind it. */
    readonly damagedCheckpoints: readonly { readonly key: string; readonly why: string }[];
    /** Where the checkpoint stood, null without one; and how many log records came behind it. */
    readonly checkpoint: LogPosition | null;
    readonly records: number;
    /** When the last log record was written, ms since 1970; null: there is none behind the checkpoint. What was acknowledged later is not there, nor anything that had waited for its seal then. */
    readonly lastRecordAtMs: number | null;
    readonly streams: number;
    readonly bytes: number;
    readonly objects: number;
    readonly subscriptions: number;
  }[];
  readonly losses: readonly Loss[];
  /** All losses, listed or not. */
  readonly lossCount: number;
}

/** Throws `StartRefused` when the directory is in use or the store is not there, and whatever damage is in the way. */
export async function restore(options: RestoreOptions): Promise<RestoreReport> {
  const { config, objects } = options;
  const document = await readStoreDocument(objects);
  if (document === null) throw new StartRefused(`${objects.describe} holds no store to restore from`);
  if (document.cold !== config.cold) throw new StartRefused(`${objects.describe} holds a store that was created with FIRN_COLD=${document.cold}, not ${config.cold}`);
  const store = await emptyStore(options);
  try {
    return await new Restore(options, document, store).run();
  } finally {
    await store.close();
  }
}

async function emptyStore({ config, logger }: RestoreOptions): Promise<DurableStore> {
  const dir = join(config.dataDir, 'hot');
  await mkdir(config.dataDir, { recursive: true });
  const there = await readdir(dir).catch(() => []);
  if (there.length > 0) throw new StartRefused(`${dir} is not empty: a restore fills an empty one, so stop the node that has it and move it away first`);
  // It speaks of batches of the hot store that is gone.
  await rm(join(config.dataDir, 'acked'), { force: true });
  return openDurableStore({ dir, ackedFile: join(config.dataDir, 'acked'), logger });
}

/** A partition under way. */
interface Part {
  readonly partition: number;
  readonly session: PartitionSession;
  readonly damagedCheckpoints: readonly DamagedCheckpoint[];
  readonly manifest: CheckpointManifest | null;
  readonly overlay: LogOverlay;
  /** The last log record that was read, and when it was written. */
  readonly end: LogPosition;
  readonly endAtMs: number | null;
  readonly writer: RowWriter;
  readonly objects: RestoredObjects;
  readonly filling: Filling;
}

class Restore {
  readonly #options: RestoreOptions;
  readonly #document: StoreDocument;
  readonly #store: DurableStore;
  readonly #rows: MetaRows;
  readonly #losses: Loss[] = [];
  readonly #renew: boolean;
  #lossCount = 0;
  #records = 0;
  #streams = 0;
  #streamsAbout = 0;

  constructor(options: RestoreOptions, document: StoreDocument, store: DurableStore) {
    this.#options = options;
    this.#document = document;
    this.#store = store;
    this.#rows = rowsOfStore(store);
    this.#renew = options.newIncarnations || document.cold === 'fs';
  }

  async run(): Promise<RestoreReport> {
    const { storeId, partitions, tokenKey, cold } = this.#document;
    const identity: Identity = { cold, storeId, partitions, tokenKey, state: 'restoring' };
    await this.#rows.write([identityRow(identity)]);
    const forks = new RestoredForks(this.#store);
    const subscriptions = new RestoredSubscriptions({ store: this.#store, lost: (name, what) => this.#lost(name, what) });
    const parts: Part[] = [];
    for (let partition = 0; partition < partitions; partition++) parts.push(await this.#read(partition, forks));
    for (const part of parts) await this.#fill(part);
    for (const part of parts) await subscriptions.want(this.#items(part));
    if (forks.begin() || subscriptions.wants) for (const part of parts) await this.#noteTokens(part, [forks, subscriptions]);
    await this.#fillForks(parts, forks);
    // Every generation that was told before lies below: each restore claims a session that no node had.
    const floor = Math.max(...parts.map(({ session }) => session.session)) * GENERATIONS_PER_SESSION;
    const done: RestoreReport['partitions'][number][] = [];
    for (const part of parts) {
      const count = await subscriptions.fill(this.#items(part), floor, part.writer, async (deltas) => void (await part.session.append({ plan: null, objects: [], deltas })));
      done.push(await this.#finish(part, count));
    }
    await subscriptions.finish(floor, parts[0]!.writer);
    for (const key of await forks.finish(parts[0]!.writer)) this.#lost(key, 'all of it: the stream that it is a fork of is not there, so it had ended');
    await this.#rows.write([identityRow({ ...identity, state: 'ready' })]);
    return { storeId, newIncarnations: this.#renew, partitions: done, losses: this.#losses, lossCount: this.#lossCount };
  }

  /** Claims a partition and reads its log. */
  async #read(partition: number, forks: RestoredForks): Promise<Part> {
    const { objects, signal, now } = this.#options;
    const session = await this.#claim(partition, await newestCheckpoint(objects, partition));
    // Asked again: until the claim an old node may have written newer ones, and collected what they cover.
    const damagedCheckpoints: DamagedCheckpoint[] = [];
    const manifest = await newestSound({ store: objects, partition, look: 'sums', signal, damaged: (one) => this.#passedOver(one, damagedCheckpoints) });
    const overlay = new LogOverlay();
    let end: LogPosition = manifest ?? LOG_START;
    let endAtMs: number | null = null;
    for await (const { record } of readLog({ store: objects, partition, after: end, until: session.session, live: true, signal })) {
      overlay.add(record);
      end = { session: record.session, seq: record.seq };
      endAtMs = record.writtenAtMs;
      this.#records++;
      this.#moved();
    }
    this.#streamsAbout += (manifest?.streams ?? 0) + overlay.streams;
    const named = await RestoredObjects.list(objects, partition, manifest, overlay);
    const writer = new RowWriter(this.#store);
    const filling = new Filling({ partition, writer, objects: named, forks, nowMs: now(), renewal: this.#renew ? this.#renewal(partition, session) : null, lost: (key, what) => this.#lost(key, what) });
    return { partition, session, damagedCheckpoints, manifest, overlay, end, endAtMs, writer, objects: named, filling };
  }

  /** What checkpoint and log hold of a partition. */
  #items({ manifest, overlay }: Part): AsyncGenerator<CheckpointItem> {
    return mergeItems(checkpointItems(this.#options.objects, manifest), overlay);
  }

  async #fill(part: Part): Promise<void> {
    const { filling, writer } = part;
    const { signal } = this.#options;
    for await (const item of this.#items(part)) {
      signal.throwIfAborted();
      const before = filling.streams;
      await filling.take(item);
      this.#streams += filling.streams - before;
      if (filling.streams !== before) this.#moved();
    }
    await filling.endRound();
    await writer.flush();
  }

  /** Forks follow their sources, which may lie in other partitions and be forks themselves: as many rounds as the longest chain has links. */
  async #fillForks(parts: readonly Part[], forks: RestoredForks): Promise<void> {
    if (!forks.begin()) return;
    do {
      for (const part of parts) await this.#fill(part);
    } while (forks.nextRound());
  }

  /** The tokens of every stream, as the log holds it and as it did before restores that renewed it: by them others name it. */
  async #noteTokens(part: Part, whom: readonly { note(key: StreamKey, incarnation: Incarnation): void }[]): Promise<void> {
    const { manifest, overlay } = part;
    const note = (key: StreamKey, token: Incarnation): void => {
      for (const one of whom) one.note(key, token);
    };
    for await (const item of this.#items(part)) {
      if (item.kind !== 'stream') continue;
      for (const token of [item.state.incarnation, ...(overlay.change(item.key)?.renewed ?? [])]) note(item.key, token);
    }
    for await (const item of checkpointItems(this.#options.objects, manifest)) if (item.kind === 'stream' && overlay.change(item.key)?.renewsBase === true) note(item.key, item.state.incarnation);
  }

  async #finish({ partition, session, damagedCheckpoints, manifest, overlay, end, endAtMs, writer, objects, filling }: Part, subscriptions: number): Promise<RestoreReport['partitions'][number]> {
    await objects.write(writer);
    for (const fence of [...(manifest?.fences ?? []), ...[...overlay.purges].map(([bucket, atMs]) => ({ bucket, atMs }))]) {
      await writer.put(bucketFenceRow.key(fence.bucket), bucketFenceRow.encode({ atMs: fence.atMs }));
    }
    const applied = session.seq > 0 ? { session: session.session, seq: session.seq } : end;
    await writer.put(appliedRow.key(partition), appliedRow.encode({ ...applied, slice: 0 }));
    await writer.flush();
    const checkpoint = manifest === null ? null : { session: manifest.session, seq: manifest.seq };
    return { partition, session: session.session, damagedCheckpoints: damagedCheckpoints.map(({ key, why }) => ({ key, why })), checkpoint, records: overlay.records, lastRecordAtMs: endAtMs, streams: filling.streams, bytes: filling.bytes, objects: objects.count, subscriptions };
  }

  /** Binds the directory to a session of its own, and ends every earlier one. What lies before the checkpoint's session was fenced before it was written. */
  async #claim(partition: number, checkpoint: LogPosition | null): Promise<PartitionSession> {
    const { objects, logger, metrics, now, nonce, signal } = this.#options;
    const newest = await newestSession(objects, partition);
    await this.#rows.write([boundSessionRow(partition, { session: newest, fencedBelow: checkpoint?.session ?? 0 })]);
    const session = new PartitionSession({ partition, store: objects, rows: this.#rows, logger, metrics, now, nonce, steps: noSteps, stop: signal });
    await session.load();
    await session.claim();
    return session;
  }

  /** New lives for all streams: the log learns of them before the directory rests on them. */
  #renewal(partition: number, session: PartitionSession): Renewal {
    const issuer = new TokenIssuer(partition, this.#document.tokenKey, this.#rows, { session: () => session.session, next: () => session.claimNext() });
    return { issue: () => issuer.issue(), log: async (objects, deltas) => void (await session.append({ plan: null, objects, deltas })) };
  }

  #passedOver(one: DamagedCheckpoint, list: DamagedCheckpoint[]): void {
    this.#options.logger.error({ event: 'checkpoint-damaged', key: one.key, why: one.why }, 'a checkpoint is not as it was written: the restore begins with the one before it, or with the whole log');
    list.push(one);
  }

  #moved(): void {
    this.#options.progress?.({ records: this.#records, streams: this.#streams, streamsAbout: this.#streamsAbout });
  }

  /** Each is in the log of the restore, whatever the report has room for. */
  #lost(key: string, what: string): void {
    this.#lossCount++;
    this.#options.logger.warn({ event: 'not-restored', stream: key, what }, 'the object store does not hold this');
    if (this.#losses.length < LOSSES_LISTED_MAX) this.#losses.push({ key, what });
  }
}
