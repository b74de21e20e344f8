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
import { ForkEnds } from './fork-ends.js';
import { head, openLive, read } from './read.js';
import { retain } from './retention.js';
import { SnapshotParts } from './snapshot-parts.js';
import { SnapshotPins } from './snapshot-pins.js';
import { readSnapshot } from './snapshot-read.js';
import { publishSnapshot } from './snapshots.js';
import type { AppendOutcome, AppendRequest, BootstrapRead, CreateOutcome, CreateRequest, PartOutcome, PartRequest, PartsCommit, Precondition, PublishOutcome, PublishRequest, ReadRequest, ReadWindow, SnapshotRead, StreamLog } from './types.js';
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';

/** How often each partition is swept for expired streams. */
const SWEEP_MS = 1_000;

export class Log implements StreamLog {
  readonly #ctx: LogContext;
  readonly #parts: SnapshotParts;
  readonly #partitions: number;
  #timer: NodeJS.Timeout | null = null;
  #sweeping: Promise<void> | null = null;
  #stopped = false;

  constructor(parts: Omit<LogContext, 'pins' | 'forkEnds'>, partitions: number) {
    this.#ctx = { ...parts, pins: new SnapshotPins(parts.now, parts.logger), forkEnds: new ForkEnds(parts) };
    this.#parts = new SnapshotParts(this.#ctx);
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

  stagePart(request: PartRequest): Promise<PartOutcome> {
    return this.#guarded(request.key, this.#parts.stage(request));
  }

  commitParts(request: PartsCommit): Promise<PublishOutcome> {
    return this.#guarded(request.key, this.#parts.commit(request));
  }

  discardParts(key: StreamKey, precondition: Precondition): Promise<StreamRecord> {
    return this.#guarded(key, this.#parts.discard(key, precondition));
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

  /** Removes staging files that nothing names (R103), goes on with purges, then starts the sweeps. */
  async start(): Promise<void> {
    await removeLeftovers(this.#ctx, this.#parts);
    await this.#parts.start();
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
    await this.#ctx.forkEnds.run();
    await this.#parts.sweep();
    for (let partition = 0; partition < this.#partitions; partition++) {
      while (!this.#stopped && (await sweepExpired(this.#ctx, partition)));
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#ctx.pins.stop();
    await Promise.all([this.#sweeping, this.#parts.stop()]);
  }
}

/** Staging files that no stream and no part names (R103). One for which this cannot be told stays. */
async function removeLeftovers(ctx: LogContext, parts: SnapshotParts): Promise<void> {
  for await (const file of ctx.staging.list()) {
    try {
      if (file.part === null ? await isBody(ctx, file.key, file.name) : await parts.names(file.key, file.part)) continue;
      ctx.logger.info({ event: 'staging-leftover', file: file.name }, 'removing a staging file that nothing names');
      await ctx.staging.remove(file.name);
    } catch (error) {
      ctx.logger.error({ err: error, event: 'staging-unclear', file: file.name }, 'a staging file stays: what would name it could not be read');
    }
  }
}

async function isBody(ctx: LogContext, key: StreamKey, file: string): Promise<boolean> {
  const hot = (await ctx.core.using(key, (slot) => slot.pending))?.snapshot?.hot;
  return hot?.at === 'staging' && hot.file === file;
}
