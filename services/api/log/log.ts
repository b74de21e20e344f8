/**
 * The log of one node: every operation on streams behind one interface, and its background work.
 *
 * Owns: the wiring of the operations in this folder. Promises: see `StreamLog`.
 */
import type { StreamKey } from '../../../shared/protocol/types.js';
import { answerEarly, append } from './append.js';
import { bootstrap } from './bootstrap.js';
import { checkWritable, type LogContext } from './context.js';
import { create } from './create.js';
import { remove } from './delete.js';
import { sweepExpired } from './expiry.js';
import { refusalOf } from './failures.js';
import { list, type ListedStream } from './listing.js';
import { purge, resumePurges, type PurgeReport } from './purge.js';
import { head, openLive, read } from './read.js';
import { retain } from './retention.js';
import { SnapshotPins } from './snapshot-pins.js';
import { readSnapshot } from './snapshot-read.js';
import { publishSnapshot } from './snapshots.js';
import type { AppendOutcome, AppendRequest, BootstrapRead, CreateOutcome, CreateRequest, Precondition, PublishOutcome, PublishRequest, ReadRequest, ReadWindow, SnapshotRead, StreamLog } from './types.js';
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';

/** How often each partition is swept for expired streams. */
const SWEEP_MS = 1_000;

export class Log implements StreamLog {
  readonly #ctx: LogContext;
  readonly #partitions: number;
  #timer: NodeJS.Timeout | null = null;
  #sweeping: Promise<void> | null = null;
  #stopped = false;

  constructor(parts: Omit<LogContext, 'pins'>, partitions: number) {
    this.#ctx = { ...parts, pins: new SnapshotPins(parts.now, parts.logger) };
    this.#partitions = partitions;
  }

  create(request: CreateRequest): Promise<CreateOutcome> {
    return this.#guarded(request.key, create(this.#ctx, request));
  }

  append(request: AppendRequest): Promise<AppendOutcome> {
    return append(this.#ctx, request);
  }

  answerEarly(request: Omit<AppendRequest, 'body'>): Promise<AppendOutcome | null> {
    return this.#guarded(request.key, answerEarly(this.#ctx, request));
  }

  delete(key: StreamKey, precondition: Precondition): Promise<Incarnation> {
    return this.#guarded(key, remove(this.#ctx, key, precondition));
  }

  head(key: StreamKey, precondition: Precondition): Promise<StreamRecord> {
    return this.#guarded(key, head(this.#ctx, key, precondition));
  }

  read(request: ReadRequest): Promise<ReadWindow> {
    return this.#guarded(request.key, read(this.#ctx, request));
  }

  openLive(key: StreamKey, precondition: Precondition, from: Offset | 'start' | 'now', cut: 'bytes' | 'messages'): ReturnType<StreamLog['openLive']> {
    return this.#guarded(key, openLive(this.#ctx, key, precondition, from, cut));
  }

  publishSnapshot(request: PublishRequest): Promise<PublishOutcome> {
    return this.#guarded(request.key, publishSnapshot(this.#ctx, request));
  }

  readSnapshot(key: StreamKey, precondition: Precondition, offset: Offset): Promise<SnapshotRead> {
    return this.#guarded(key, readSnapshot(this.#ctx, key, precondition, offset));
  }

  retain(key: StreamKey, precondition: Precondition, offset: Offset): Promise<StreamRecord> {
    return this.#guarded(key, retain(this.#ctx, key, precondition, offset));
  }

  bootstrap(key: StreamKey, precondition: Precondition): Promise<BootstrapRead> {
    return this.#guarded(key, bootstrap(this.#ctx, key, precondition));
  }

  /** What comes up from the stores becomes a refusal in one place. */
  #guarded<T>(key: StreamKey, running: Promise<T>): Promise<T> {
    return running.catch((error: unknown) => {
      throw refusalOf(this.#ctx, key, error);
    });
  }

  refusingWrites(key: StreamKey): Error | null {
    try {
      checkWritable(this.#ctx, this.#ctx.core.partitionOf(key));
      return null;
    } catch (error) {
      return error as Error;
    }
  }

  list(prefix: string, after: string | null, limit: number): Promise<ListedStream[]> {
    return list(this.#ctx, prefix, after, limit);
  }

  purge(bucket: string): Promise<PurgeReport> {
    return purge(this.#ctx, bucket);
  }

  /** Removes staging files that no stream names (R103), goes on with purges, then starts the sweeps. */
  async start(): Promise<void> {
    await removeLeftovers(this.#ctx);
    await resumePurges(this.#ctx);
    this.#ctx.pins.start();
    this.#timer = setInterval(() => this.#tick(), SWEEP_MS);
    this.#timer.unref();
  }

  #tick(): void {
    if (this.#sweeping !== null || this.#stopped) return;
    this.#sweeping = this.#sweep()
      .catch((error: unknown) => {
        if (!this.#stopped && !this.#ctx.core.healing) this.#ctx.logger.error({ err: error, event: 'sweep-failed' }, 'expired streams could not be removed');
      })
      .finally(() => {
        this.#sweeping = null;
      });
  }

  async #sweep(): Promise<void> {
    for (let partition = 0; partition < this.#partitions; partition++) {
      while (!this.#stopped && (await sweepExpired(this.#ctx, partition)));
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#ctx.pins.stop();
    await this.#sweeping;
  }
}

/** Staging files that no stream names (R103). One whose stream cannot be read stays. */
async function removeLeftovers(ctx: LogContext): Promise<void> {
  for await (const file of ctx.staging.list()) {
    if (file.key === null) continue;
    try {
      const record = await ctx.core.using(file.key, (slot) => slot.pending);
      const hot = record?.snapshot?.hot;
      if (hot?.at === 'staging' && hot.file === file.name) continue;
      ctx.logger.info({ event: 'staging-leftover', file: file.name }, 'removing a snapshot body that no stream names');
      await ctx.staging.remove(file.name);
    } catch (error) {
      ctx.logger.error({ err: error, event: 'staging-unclear', file: file.name }, 'a staging file stays: its stream could not be read');
    }
  }
}
