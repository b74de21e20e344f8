/**
 * Builds a data directory from the object store alone (`firn restore`, design sections 6 and 7).
 *
 * Owns: the way from checkpoint and log to rows of the hot store. Promises: it claims a session and fences before it reads the log as final, so an old node that
 * still runs can add nothing (I10); what the log holds is there afterwards, byte for byte, and what it does not hold is said per stream; an
 * interrupted restore leaves a directory that no node starts on.
 */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ColdKind } from '../../../shared/config/index.js';
import { ttlMs } from '../../../shared/protocol/ttl.js';
import type { Incarnation, StreamKey } from '../../../shared/protocol/types.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import type { ColdRef, LogDelta, NamedProducer, ObjectInfo, SnapshotRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import type { CheckpointItem, CheckpointManifest } from '../../../shared/storage/checkpoint.js';
import type { StoreDocument } from '../../../shared/storage/store-json.js';
import type { Logger } from '../../../shared/observability/logger.js';
import { checkpointItems, newestCheckpoint, readManifest } from '../../../shared/storage/history/checkpoints.js';
import { LOG_START, readLog, type LogPosition } from '../../../shared/storage/history/log-reader.js';
import { LogOverlay } from '../../../shared/storage/history/log-overlay.js';
import { mergeItems } from '../../../shared/storage/history/merge-items.js';
import { appliedRow, bucketFenceRow, expiryRow, nameRow, objectRow, producerRow, refRow, streamRow } from '../hot/keys/index.js';
import type { DurableStore } from '../hot/durable.js';
import { openDurableStore } from '../hot/durable-store.js';
import type { ColdMetrics } from './cold-metrics.js';
import { boundSessionRow, identityRow, rowsOfStore, type Identity, type MetaRows } from './directory.js';
import { PartitionSession } from './partition-session.js';
import { RowWriter } from './row-writer.js';
import { newestSession } from './sessions.js';
import { StartRefused } from './start-refused.js';
import { noSteps } from './steps.js';
import { readStoreDocument } from './store-identity.js';
import { TokenIssuer } from './tokens.js';

/** Losses listed one by one; beyond it they are counted. */
const LOSSES_LISTED_MAX = 1_000;
/** Raw size of a log record of renewed streams, about, bytes; a stream goes into one record whole. */
const RENEWAL_BYTES = 4_194_304;
const REF_BYTES = 64;
const PRODUCER_BYTES = 128;

export interface RestoreOptions {
  readonly config: { readonly dataDir: string; readonly cold: ColdKind };
  readonly objects: ObjectStore;
  /** Give every stream a new incarnation. Always so with the file-system store, whose cached answers are marked immutable up to the tail (design section 6). */
  readonly newIncarnations: boolean;
  readonly progress?: (done: { readonly partition: number; readonly streams: number; readonly records: number }) => void;
  readonly logger: Logger;
  readonly metrics: ColdMetrics;
  readonly now: () => number;
  readonly nonce: () => string;
  readonly signal: AbortSignal;
}

/** Something that the object store does not hold of a stream that was restored. */
export interface Loss {
  readonly key: StreamKey;
  readonly what: string;
}

export interface RestoreReport {
  readonly storeId: string;
  readonly newIncarnations: boolean;
  readonly partitions: readonly {
    readonly partition: number;
    readonly session: number;
    /** Where the checkpoint stood, null without one; and how many log records came behind it. */
    readonly checkpoint: LogPosition | null;
    readonly records: number;
    readonly streams: number;
    readonly bytes: number;
    readonly objects: number;
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
  if (there.length > 0) throw new StartRefused(`${dir} is not empty: a restore fills an empty one, so move it away first`);
  // It speaks of batches of the hot store that is gone.
  await rm(join(config.dataDir, 'acked'), { force: true });
  return openDurableStore({ dir, ackedFile: join(config.dataDir, 'acked'), logger });
}

class Restore {
  readonly #options: RestoreOptions;
  readonly #document: StoreDocument;
  readonly #store: DurableStore;
  readonly #rows: MetaRows;
  readonly #losses: Loss[] = [];
  readonly #renew: boolean;
  #lossCount = 0;

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
    const done: RestoreReport['partitions'][number][] = [];
    for (let partition = 0; partition < partitions; partition++) done.push(await this.#partition(partition));
    await this.#rows.write([identityRow({ ...identity, state: 'ready' })]);
    return { storeId, newIncarnations: this.#renew, partitions: done, losses: this.#losses, lossCount: this.#lossCount };
  }

  async #partition(partition: number): Promise<RestoreReport['partitions'][number]> {
    const { objects, signal, progress, now } = this.#options;
    const checkpoint = await newestCheckpoint(objects, partition);
    const session = await this.#claim(partition, checkpoint);
    const manifest = checkpoint === null ? null : await readManifest(objects, partition, checkpoint);
    const overlay = new LogOverlay();
    let end: LogPosition = manifest ?? LOG_START;
    for await (const { record } of readLog({ store: objects, partition, after: end, until: session.session, live: true, signal })) {
      overlay.add(record);
      end = { session: record.session, seq: record.seq };
      progress?.({ partition, streams: 0, records: overlay.records });
    }
    const writer = new RowWriter(this.#store);
    const filling = new Filling({ partition, writer, manifest, overlay, nowMs: now(), renewal: this.#renew ? this.#renewal(partition, session) : null, lost: (key, what) => this.#lost(key, what) });
    for await (const item of mergeItems(checkpointItems(objects, manifest), overlay)) {
      signal.throwIfAborted();
      await filling.take(item);
      progress?.({ partition, streams: filling.streams, records: overlay.records });
    }
    await filling.finish();
    for (const fence of [...(manifest?.fences ?? []), ...[...overlay.purges].map(([bucket, atMs]) => ({ bucket, atMs }))]) {
      await writer.put(bucketFenceRow.key(fence.bucket), bucketFenceRow.encode({ atMs: fence.atMs }));
    }
    const applied = session.seq > 0 ? { session: session.session, seq: session.seq } : end;
    await writer.put(appliedRow.key(partition), appliedRow.encode({ ...applied, slice: 0 }));
    await writer.flush();
    return { partition, session: session.session, checkpoint, records: overlay.records, streams: filling.streams, bytes: filling.bytes, objects: filling.objects };
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

  #lost(key: StreamKey, what: string): void {
    this.#lossCount++;
    if (this.#losses.length < LOSSES_LISTED_MAX) this.#losses.push({ key, what });
  }
}

interface Renewal {
  issue(): Promise<Incarnation>;
  log(objects: readonly ObjectInfo[], deltas: readonly LogDelta[]): Promise<void>;
}

interface FillingOptions {
  readonly partition: number;
  readonly writer: RowWriter;
  readonly manifest: CheckpointManifest | null;
  readonly overlay: LogOverlay;
  readonly nowMs: number;
  readonly renewal: Renewal | null;
  readonly lost: (key: StreamKey, what: string) => void;
}

/** Turns merged items into rows, one stream at a time. */
class Filling {
  streams = 0;
  bytes = 0;
  objects = 0;
  readonly #options: FillingOptions;
  readonly #refs = new Map<string, number>();
  #open: { readonly key: StreamKey; readonly state: StreamRecord; readonly producers: NamedProducer[]; readonly refs: ColdRef[] } | null = null;
  #deltas: LogDelta[] = [];
  #deltaBytes = 0;

  constructor(options: FillingOptions) {
    this.#options = options;
  }

  async take(item: CheckpointItem): Promise<void> {
    if (item.kind === 'stream') {
      await this.#close();
      this.#open = { key: item.key, state: item.state, producers: [], refs: [] };
    } else if (this.#open === null) {
      throw new Error(`${item.kind} of no stream`);
    } else if (item.kind === 'producers') {
      this.#open.producers.push(...item.producers);
    } else {
      this.#open.refs.push(...item.refs);
    }
  }

  async #close(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    if (open === null) return;
    const { writer, renewal } = this.#options;
    const { key, producers, refs } = open;
    const before = this.#restoredState(key, open.state, producers, refs);
    const state = renewal === null ? before : { ...before, incarnation: await renewal.issue() };
    if (renewal !== null) await this.#renewed(key, state, producers, refs);
    const slot = slotOf(key);
    await writer.put(streamRow.key(slot, key), streamRow.encode(state));
    await writer.put(nameRow.key(key), nameRow.encode());
    for (const producer of producers) await writer.put(producerRow.key(slot, state.incarnation, producer.id), producerRow.encode({ ...producer, change: 0 }));
    for (const ref of refs) {
      await writer.put(refRow.key(slot, state.incarnation, ref.end), refRow.encode(ref));
      this.#count(objectKey(ref.object));
    }
    if (state.snapshot !== null && state.snapshot.cold !== null) this.#count(objectKey(state.snapshot.cold.ref.object));
    const endsAtMs = state.expiresAtMs ?? (state.ttl === null ? Infinity : state.touchedAtMs + ttlMs(state.ttl));
    if (Number.isSafeInteger(Math.ceil(endsAtMs))) await writer.put(expiryRow.key(this.#options.partition, Math.max(0, Math.ceil(endsAtMs)), slot, key), expiryRow.encode());
    this.streams++;
    this.bytes += state.tail - state.retained;
  }

  /** The state at the sealed end as a store without hot copies has it; a sliding TTL begins anew. */
  #restoredState(key: StreamKey, logged: StreamRecord, producers: readonly NamedProducer[], refs: readonly ColdRef[]): StreamRecord {
    const tail = refs.at(-1)?.end ?? logged.retained;
    const covered = tail === logged.tail || (refs.length === 0 && logged.tail === logged.retained);
    const first = refs[0];
    if (!covered || (first !== undefined && first.start > logged.retained)) {
      throw new Error(`the log says that ${key} holds [${logged.retained}, ${logged.tail}), its references cover [${first?.start ?? tail}, ${tail})`);
    }
    return {
      ...logged,
      sealed: logged.tail,
      hotStart: logged.tail,
      touchedAtMs: logged.ttl === null ? logged.touchedAtMs : this.#options.nowMs,
      producers: producers.length,
      snapshot: this.#restoredSnapshot(key, logged),
      change: 0,
      loggedChange: 0,
    };
  }

  #restoredSnapshot(key: StreamKey, logged: StreamRecord): SnapshotRecord | null {
    const { snapshot } = logged;
    if (snapshot === null) return null;
    if (snapshot.cold === null) {
      this.#options.lost(key, `the snapshot at ${snapshot.offset}: its body never reached the object store`);
      return null;
    }
    // Offloaded ahead of the bytes that it stands on.
    if (snapshot.offset > logged.tail) {
      this.#options.lost(key, `the snapshot at ${snapshot.offset}: the restored tail is ${logged.tail}`);
      return null;
    }
    return { ...snapshot, hot: null };
  }

  async #renewed(key: StreamKey, state: StreamRecord, producers: readonly NamedProducer[], refs: readonly ColdRef[]): Promise<void> {
    this.#deltas.push({ kind: 'seal', key, state, producers, refs });
    this.#deltaBytes += 512 + refs.length * REF_BYTES + producers.length * PRODUCER_BYTES;
    if (this.#deltaBytes >= RENEWAL_BYTES) await this.#logRenewed();
  }

  async #logRenewed(): Promise<void> {
    const deltas = this.#deltas;
    this.#deltas = [];
    this.#deltaBytes = 0;
    if (deltas.length > 0) await this.#options.renewal?.log([], deltas);
  }

  #count(key: string): void {
    this.#refs.set(key, (this.#refs.get(key) ?? 0) + 1);
  }

  async finish(): Promise<void> {
    await this.#close();
    await this.#logRenewed();
    const { manifest, overlay, writer } = this.#options;
    const table = new Map<string, ObjectInfo>();
    for (const object of manifest?.objects ?? []) if (!overlay.collected.has(objectKey(object.id))) table.set(objectKey(object.id), object);
    for (const [key, object] of overlay.objects) table.set(key, object);
    for (const [key, { id, bytes, crc }] of table) {
      await writer.put(objectRow.key(id), objectRow.encode({ bytes, crc, refs: this.#refs.get(key) ?? 0 }));
      this.objects++;
    }
    for (const key of this.#refs.keys()) if (!table.has(key)) throw new Error(`references name ${key}, which no log record brought in`);
  }
}
