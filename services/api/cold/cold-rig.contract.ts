/**
 * A node's storage without listeners for the tests of this folder: real RocksDB, the real log, an object store in a directory, and verbs to drive them.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { afterEach, beforeEach } from 'vitest';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import type { StreamKey, Incarnation, Offset } from '../../../shared/protocol/types.js';
import { createLogger } from '../../../shared/observability/logger.js';
import { createMetrics, type Metrics } from '../../../shared/observability/metrics.js';
import { FsObjectStore } from '../../../shared/storage/fs-store.js';
import { StoreUnavailable, type ObjectStore } from '../../../shared/storage/object-store.js';
import type { ColdRef, StreamRecord } from '../../../shared/storage/records/types.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { objectRow, refRow } from '../hot/keys/index.js';
import { openDurableStore } from '../hot/durable-store.js';
import type { DurableStore } from '../hot/durable.js';
import { createHotReader } from '../hot/hot-reader.js';
import { BucketFences } from '../log/bucket-fences.js';
import { Core } from '../log/log-core.js';
import { Log } from '../log/log.js';
import { Pressure } from '../log/pressure.js';
import { StagingFiles } from '../log/staging-files.js';
import type { AppendOutcome, ForkRequest } from '../log/types.js';
import { readIdentity } from './directory.js';
import { noSteps, type StepName, type Steps } from './steps.js';
import { openColdTier, type ObjectColdTier } from './tier.js';
import type { ColdTierOptions } from './tier-options.js';

export interface RigConfig {
  readonly partitions?: number;
  readonly sealBytes?: number;
  readonly sealAgeMs?: number;
  readonly hotKeepMs?: number;
  readonly hotBytesMax?: number;
  readonly cold?: 'fs' | 's3';
}

export type StoreCall = 'put' | 'get' | 'list' | 'size' | 'delete' | 'deleted';

/** A store that can be taken away, slowed to a stop, or watched. */
export class Switchable implements ObjectStore {
  down = false;
  gets = 0;
  puts: string[] = [];
  deletes: string[] = [];
  /** Called before each call, and with `deleted` after a deletion, as if its answer could still be lost; may throw or wait. */
  before: (call: StoreCall, key: string) => void | Promise<void> = () => undefined;

  constructor(readonly inner: ObjectStore) {}

  get describe(): string {
    return this.inner.describe;
  }

  async #gate(call: StoreCall, key: string): Promise<void> {
    await this.before(call, key);
    if (this.down) throw new StoreUnavailable('switched off');
  }

  async putOnce(...args: Parameters<ObjectStore['putOnce']>): ReturnType<ObjectStore['putOnce']> {
    await this.#gate('put', args[0]);
    this.puts.push(args[0]);
    return this.inner.putOnce(...args);
  }

  async putUnique(...args: Parameters<ObjectStore['putUnique']>): Promise<void> {
    await this.#gate('put', args[0]);
    this.puts.push(args[0]);
    return this.inner.putUnique(...args);
  }

  async get(...args: Parameters<ObjectStore['get']>): Promise<Buffer> {
    await this.#gate('get', args[0]);
    this.gets++;
    return this.inner.get(...args);
  }

  async *stream(...args: Parameters<ObjectStore['stream']>): AsyncGenerator<Buffer> {
    await this.#gate('get', args[0]);
    this.gets++;
    yield* this.inner.stream(...args);
  }

  async size(...args: Parameters<ObjectStore['size']>): Promise<number | null> {
    await this.#gate('size', args[0]);
    return this.inner.size(...args);
  }

  async *list(...args: Parameters<ObjectStore['list']>): ReturnType<ObjectStore['list']> & AsyncGenerator<{ readonly key: string; readonly bytes: number }> {
    await this.#gate('list', args[0]);
    yield* this.inner.list(...args);
  }

  async delete(key: string): Promise<void> {
    await this.#gate('delete', key);
    await this.inner.delete(key);
    this.deletes.push(key);
    await this.#gate('deleted', key);
  }

  sweepUploads(...args: Parameters<ObjectStore['sweepUploads']>): Promise<number> {
    return this.inner.sweepUploads(...args);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}

/** A hot store that stops taking part when its node is dead: a commit then never answers, as after a crash. */
class Mortal implements DurableStore {
  constructor(private readonly inner: DurableStore, private readonly death: Death) {}

  get nextBatch(): number {
    return this.inner.nextBatch;
  }

  get poisoned(): Error | null {
    return this.inner.poisoned;
  }

  get damagedFiles(): DurableStore['damagedFiles'] {
    return this.inner.damagedFiles;
  }

  commit(ops: Parameters<DurableStore['commit']>[0]): Promise<void> {
    return this.death.dead ? new Promise(() => undefined) : this.inner.commit(ops);
  }

  reopen(): Promise<void> {
    return this.inner.reopen();
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    return this.inner.get(key);
  }

  getMany(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    return this.inner.getMany(keys);
  }

  scan(range: Parameters<DurableStore['scan']>[0]): ReturnType<DurableStore['scan']> {
    return this.inner.scan(range);
  }

  close(): Promise<void> {
    return this.inner.close();
  }
}

interface Death {
  dead: boolean;
  readonly happened: Promise<void>;
  readonly happen: () => void;
}

function newDeath(): Death {
  let happen: () => void = () => undefined;
  const happened = new Promise<void>((resolve) => {
    happen = resolve;
  });
  const death: Death = { dead: false, happened, happen: () => {
    death.dead = true;
    happen();
  } };
  return death;
}

/** A node "killed" at a step: everything of it fails from then on. */
export class Killed extends Error {
  constructor(readonly at: StepName) {
    super(`killed at ${at}`);
    this.name = 'Killed';
  }
}

export class Rig {
  private constructor(
    readonly dir: string,
    readonly config: RigConfig,
    readonly hot: DurableStore,
    readonly core: Core,
    readonly log: Log,
    readonly cold: ObjectColdTier,
    readonly objects: Switchable,
    readonly metrics: Metrics,
    private readonly pressure: Pressure,
    private readonly death: Death,
  ) {}

  static async dir(): Promise<string> {
    return mkdtemp(join(tmpdir(), 'firn-cold-'));
  }

  /** `steps`: called at each step; throwing kills the node there. `down`: the object store is away from the start. */
  static async open(dir: string, config: RigConfig = {}, options: { readonly steps?: Steps; readonly down?: boolean; readonly objectsDir?: string; readonly now?: () => number; readonly freeBytes?: () => number; readonly runner?: ColdTierOptions['runner']; readonly collectGraceMs?: number } = {}): Promise<Rig> {
    const logger = createLogger(process.env['FIRN_TEST_LOG'] === undefined ? 'silent' : 'debug');
    const metrics = createMetrics();
    const now = options.now ?? Date.now;
    const death = newDeath();
    const hot = new Mortal(await openDurableStore({ dir: join(dir, 'hot'), ackedFile: join(dir, 'acked'), logger }), death);
    const objects = new Switchable(await FsObjectStore.open(options.objectsDir ?? join(dir, 'objects')));
    objects.down = options.down ?? false;
    objects.before = () => {
      if (death.dead) throw new Error('the node is dead');
    };
    const userSteps = options.steps ?? noSteps;
    const steps: Steps = async (name) => {
      if (death.dead) throw new Killed(name);
      try {
        await userSteps(name);
      } catch (error) {
        death.happen();
        throw error;
      }
    };
    try {
      const full = { cold: 'fs' as const, partitions: 1, dataDir: dir, sealBytes: 1 << 30, sealAgeMs: 3_600_000, hotKeepMs: 600_000, hotBytesMax: 1 << 30, diskFreeMin: 0, ...config };
      const partitions = (await readIdentity(hot))?.partitions ?? full.partitions;
      const core = new Core({ store: hot, partitions, logged: true, logger, metrics, now });
      await core.start();
      const staging = await StagingFiles.open(join(dir, 'staging'));
      const pressure = new Pressure({ dir, diskFreeMin: 0, unsealedBytesMax: Infinity, unsealedBytes: () => 0, logger });
      const cold = await openColdTier({ config: full, core, objects, staging, freeBytes: options.freeBytes ?? ((): number => Infinity), logger, metrics, now, nonce: () => randomBytes(16).toString('hex'), steps, runner: options.runner, collectGraceMs: options.collectGraceMs });
      const log = new Log({ core, hot: createHotReader(hot), cold, fences: await BucketFences.load(hot), pressure, staging, snapshotBytesMax: 1 << 30, logged: true, logger, metrics, now }, partitions);
      core.connect({ onPartitionChanged: (partition) => cold.noteChange(partition), onAppended: () => undefined });
      await log.start();
      return new Rig(dir, config, hot, core, log, cold, objects, metrics, pressure, death);
    } catch (error) {
      await hot.close();
      throw error;
    }
  }

  get dead(): boolean {
    return this.death.dead;
  }

  /** Resolves when a step has killed the node. */
  get died(): Promise<void> {
    return this.death.happened;
  }

  /** Goes on with nothing, as a crash would; what was acknowledged is on disk. */
  async kill(): Promise<void> {
    this.death.happen();
    this.pressure.stop();
    void this.log.stop().catch(() => undefined);
    void this.cold.stop(0).catch(() => undefined);
    await this.hot.close();
  }

  async close(): Promise<void> {
    if (this.dead) return this.kill();
    this.pressure.stop();
    await this.log.stop();
    await this.cold.stop(5_000);
    await this.core.close();
    await this.hot.close();
  }

  async reopen(config: RigConfig = this.config, options: Parameters<typeof Rig.open>[2] = {}): Promise<Rig> {
    await this.close();
    return Rig.open(this.dir, config, options);
  }

  static async remove(dir: string): Promise<void> {
    await rm(dir, { recursive: true, force: true });
  }

  async create(key: string, options: { readonly contentType?: string; readonly body?: string; readonly ttl?: string; readonly fork?: ForkRequest } = {}): Promise<StreamRecord> {
    const { record } = await this.log.create({
      key: key as StreamKey, dialect: 'bucketed', precondition: null, contentType: options.contentType ?? 'application/octet-stream', ttl: options.ttl ?? null, expiresAtMs: null, closed: false, seq: null, fork: options.fork ?? null,
      body: Buffer.from(options.body ?? ''),
    });
    return record;
  }

  append(key: string, body: Buffer | string, producer: { readonly id: string; readonly epoch: number; readonly seq: number } | null = null): Promise<AppendOutcome> {
    return this.log.append({ key: key as StreamKey, dialect: 'bucketed', precondition: null, contentType: 'application/octet-stream', producer: producer === null ? null : { ...producer, digest: null }, seq: null, close: false, body: Buffer.from(body) });
  }

  delete(key: string): Promise<Incarnation> {
    return this.log.delete(key as StreamKey, null);
  }

  /** Published references of a stream from an offset on, in order. */
  async refs(slot: number, incarnation: Incarnation, from: Offset, limit: number): Promise<ColdRef[]> {
    const found: ColdRef[] = [];
    for await (const page of this.hot.scan({ ...refRow.range(slot, incarnation, from + 1), limit })) for (const { value } of page) found.push(refRow.decode(value));
    return found;
  }

  head(key: string): Promise<StreamRecord> {
    return this.log.head(key as StreamKey, null);
  }

  /** Every byte from the retained offset to the tail, read in windows of `maxBytes`. */
  async read(key: string, maxBytes = 8_388_608): Promise<Buffer> {
    const pieces: Buffer[] = [];
    const { retained } = await this.head(key);
    for (let from: Offset = retained; ; ) {
      const window = await this.log.read({ key: key as StreamKey, precondition: null, from, maxBytes, cut: 'bytes' });
      for await (const piece of window.body()) pieces.push(Buffer.from(piece));
      from = window.end;
      if (window.upToDate) return Buffer.concat(pieces);
    }
  }

  async snapshot(key: string, offset: number, body: Buffer): Promise<void> {
    await this.log.publishSnapshot({ key: key as StreamKey, precondition: null, offset: offset as Offset, contentType: 'text/plain', declaredBytes: body.length, body: (async function* () { yield body; })() });
  }

  async readSnapshot(key: string, offset: number): Promise<Buffer> {
    const { snapshot, body } = await this.log.readSnapshot(key as StreamKey, null, offset as Offset);
    const pieces: Buffer[] = [];
    for await (const piece of body(0, snapshot.bytes)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  collect(timeoutMs = 20_000): ReturnType<ObjectColdTier['collectNow']> {
    return this.cold.collectNow(AbortSignal.timeout(timeoutMs));
  }

  seal(prefix = '', timeoutMs = 20_000): ReturnType<ObjectColdTier['sealNow']> {
    return this.cold.sealNow(prefix, AbortSignal.timeout(timeoutMs));
  }
}

/** Every name in the object store. */
export async function namesIn(objects: ObjectStore, prefix = ''): Promise<string[]> {
  const names: string[] = [];
  for await (const { key } of objects.list(prefix)) names.push(key);
  return names;
}

/** References per object, as their rows say and as a count of the references gives. */
export async function useCounts(of: Rig): Promise<{ rows: Map<string, number>; counted: Map<string, number> }> {
  const rows = new Map<string, number>();
  const counted = new Map<string, number>();
  for (let partition = 0; partition < of.cold.partitions.length; partition++) {
    for await (const page of of.hot.scan(objectRow.range(partition))) for (const { key, value } of page) rows.set(objectKey(objectRow.decodeKey(key)), objectRow.decode(value).refs);
  }
  for (const key of rows.keys()) counted.set(key, 0);
  const count = (key: string): void => void counted.set(key, (counted.get(key) ?? 0) + 1);
  for await (const page of of.hot.scan(refRow.slots())) for (const { value } of page) count(objectKey(refRow.decode(value).object));
  return { rows, counted };
}

/** Waits until a check holds; fails after `ms`. */
export async function until(check: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> {
  const end = Date.now() + ms;
  while (!(await check())) {
    if (Date.now() > end) throw new Error('not in time');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A directory for each test of a file, and the node that runs on it; both go when the test is over. */
export function useRig(): { readonly dir: string; rig: Rig; readonly start: (config?: RigConfig, options?: Parameters<typeof Rig.open>[2]) => Promise<Rig> } {
  let dir = '';
  let running: Rig | null = null;
  beforeEach(async () => {
    dir = await Rig.dir();
  });
  afterEach(async () => {
    await running?.close();
    running = null;
    await Rig.remove(dir);
  });
  return {
    get dir() {
      return dir;
    },
    get rig() {
      if (running === null) throw new Error('no node was started');
      return running;
    },
    set rig(next: Rig) {
      running = next;
    },
    async start(config = {}, options = {}) {
      running = await Rig.open(dir, config, options);
      return running;
    },
  };
}
