/**
 * Snapshots in parts: staging, commit, discard, and the end of parts that nobody used.
 *
 * Owns: the rows `partRow`, the files that they name, and who works on the parts of a stream. Promises: a part counts once its file and then its row are synced, and a row goes before its
 * file, so that what a crash leaves is a file without a row (removed at the next start) or a part that ends within about a day; parts become visible only as a snapshot like any other.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import type { StreamKey } from '../../../shared/protocol/types.js';
import { crc32c } from '../../../shared/storage/crc.js';
import type { StreamRecord } from '../../../shared/storage/records/types.js';
import { slotOf } from '../../../shared/storage/slots.js';
import { isHotDamage } from '../cold/damage.js';
import { partRow } from '../hot/keys/index.js';
import type { HotOp } from '../hot/store.js';
import { checkIncarnation, checkWritable, missing, pendingOf, refusal, refuseSettled, renew, type LogContext } from './context.js';
import { PARTS_COMMITS_MAX, STAGED_PART_AGE_MS, STAGED_STREAMS_SWEEP_MAX } from './limits.js';
import type { Slot } from './slot.js';
import { incarnationOfPart, newPartId, StagedParts, type StagedPart, type StagedStream } from './snapshot-parts-staged.js';
import { checkPosition, judge, publishBody, tooLarge } from './snapshots.js';
import type { PartOutcome, PartRequest, PartsCommit, Precondition, PublishOutcome } from './types.js';

export class SnapshotParts {
  readonly #ctx: LogContext;
  readonly #staged = new StagedParts();
  /** Streams whose parts are being committed or dropped. */
  readonly #busy = new Set<StreamKey>();
  /** Commits under way: nobody else waits for one whose client left. */
  readonly #commits = new Set<Promise<unknown>>();
  /** How many of them are copying bytes. */
  #copies = 0;
  #stopped = false;

  constructor(ctx: LogContext) {
    this.#ctx = ctx;
  }

  async stage(request: PartRequest): Promise<PartOutcome> {
    return this.#on(request.key, async (slot) => {
      if (!this.#ctx.logged) throw new FirnError('NO_COLD_STORE');
      const record = this.#stream(slot, request.precondition, (found) => checkPosition(found, request.offset));
      checkWritable(this.#ctx, slot.partition);
      const part = await this.#receive(slot, record, request);
      renew(this.#ctx, slot, record);
      return { record, id: part.id };
    });
  }

  async #receive(slot: Slot, record: StreamRecord, { key, declaredBytes, body }: PartRequest): Promise<StagedPart> {
    const { incarnation } = record;
    let held = declaredBytes ?? 0;
    this.#staged.take(key, incarnation, 1, held);
    let part: StagedPart | null = null;
    try {
      part = await this.#write(record, key, body, (bytes) => {
        if (bytes <= held) return;
        this.#staged.take(key, incarnation, 0, bytes - held);
        held = bytes;
      });
    } finally {
      this.#staged.give(incarnation, part === null ? 1 : 0, held - (part?.bytes ?? 0));
    }
    // From here on its end comes by the sweep, also when nobody learns of it.
    this.#staged.add(part);
    await this.#ctx.core.stageOps([{ type: 'put', key: partRow.key(slot.slot, incarnation, part.id), value: partRow.encode(part) }]);
    return part;
  }

  /** The body as a synced file. `arrived` hears how much of it there is and may refuse more. */
  async #write({ incarnation }: StreamRecord, key: StreamKey, body: AsyncIterable<Buffer>, arrived: (bytes: number) => void): Promise<StagedPart> {
    const { staging, pressure, now } = this.#ctx;
    const id = newPartId(incarnation);
    const file = await staging.createPart(key, id);
    try {
      let bytes = 0;
      let crc = 0;
      for await (const piece of body) {
        bytes += piece.length;
        arrived(bytes);
        if (pressure.refusal !== null) throw pressure.refusal;
        crc = crc32c(piece, crc);
        await file.handle.writeFile(piece);
      }
      await staging.seal(file);
      return { id, key, incarnation, bytes, crc, stagedAtMs: now() };
    } catch (error) {
      await staging.discard(file);
      throw error;
    }
  }

  /** The offset and digest decide first: a repeat is answered without a look at the list of parts. */
  commit(request: PartsCommit): Promise<PublishOutcome> {
    const running = this.#on(request.key, (slot) => this.#commit(slot, request));
    const over = (): void => void this.#commits.delete(running);
    this.#commits.add(running);
    running.then(over, over);
    return running;
  }

  async #commit(slot: Slot, request: PartsCommit): Promise<PublishOutcome> {
    const ctx = this.#ctx;
    const before = await judge(ctx, slot, request, request.digest);
    if (before.done !== null) return before.done;
    checkWritable(ctx, slot.partition);
    const ids = await request.ids();
    if (!ctx.logged) throw new FirnError('NO_COLD_STORE');
    // Once more: another commit of the same may have ended meanwhile, and its parts with it.
    const { record, done } = await judge(ctx, slot, request, request.digest);
    if (done !== null) return done;
    const parts = ids.map((id, index) => this.#staged.find(record.incarnation, id) ?? unknownPart(record, index));
    if (parts.reduce((sum, part) => sum + part.bytes, 0) > ctx.snapshotBytesMax) throw tooLarge(ctx);
    if (this.#copies >= PARTS_COMMITS_MAX) throw new FirnError('SNAPSHOT_COMMITS_BUSY');
    return this.#alone(request.key, async () => {
      this.#copies++;
      try {
        const outcome = await publishBody(ctx, slot, record, { ...request, body: this.#bytesOf(parts) }, request.digest);
        await this.#removeSoon(parts);
        return outcome;
      } finally {
        this.#copies--;
      }
    });
  }

  /** The parts one after another, each proven to be what was staged (I9). */
  async *#bytesOf(parts: readonly StagedPart[]): AsyncGenerator<Buffer> {
    const { staging } = this.#ctx;
    for (const part of parts) {
      let bytes = 0;
      let crc = 0;
      try {
        for await (const piece of part.bytes === 0 ? [] : staging.read(staging.partName(part.key, part.id), 0, part.bytes)) {
          if (this.#stopped) throw new FirnError('GROUP_RESTARTING');
          bytes += piece.length;
          crc = crc32c(piece, crc);
          yield piece;
        }
      } catch (error) {
        throw error instanceof FirnError ? error : this.#damage(part, error);
      }
      if (bytes !== part.bytes || crc !== part.crc) throw this.#damage(part, new Error(`${bytes} bytes with the sum ${crc} instead of ${part.bytes} with ${part.crc}`));
    }
  }

  #damage({ key, id }: Pick<StagedPart, 'key' | 'id'>, cause: unknown): FirnError {
    this.#ctx.metrics.damage.hot.add();
    this.#ctx.logger.error({ err: cause, event: 'damage', tier: 'hot', stream: key, part: id }, 'a staged part of a snapshot is damaged');
    return new FirnError('INTERNAL', { cause });
  }

  async discard(key: StreamKey, precondition: Precondition): Promise<StreamRecord> {
    return this.#on(key, async (slot) => {
      const record = this.#stream(slot, precondition);
      const refused = this.#ctx.cold.refusal(slot.partition);
      if (refused !== null) throw refused;
      await this.#alone(key, () => this.#remove(this.#staged.of(record.incarnation)));
      renew(this.#ctx, slot, record);
      await this.#ctx.core.settled(slot);
      return record;
    });
  }

  #on<T>(key: StreamKey, work: (slot: Slot) => Promise<T>): Promise<T> {
    return this.#ctx.core.using(key, async (slot) => {
      try {
        return await work(slot);
      } catch (error) {
        return await refuseSettled(this.#ctx, slot, error);
      }
    });
  }

  #stream(slot: Slot, precondition: Precondition, check: (record: StreamRecord) => void = () => undefined): StreamRecord {
    const record = pendingOf(this.#ctx, slot);
    if (record === null) throw missing(this.#ctx, slot);
    check(record);
    checkIncarnation(record, precondition);
    return record;
  }

  /** Throws SNAPSHOT_COMMIT_IN_PROGRESS. */
  async #alone<T>(key: StreamKey, work: () => Promise<T>): Promise<T> {
    if (this.#busy.has(key)) throw new FirnError('SNAPSHOT_COMMIT_IN_PROGRESS');
    this.#busy.add(key);
    try {
      return await work();
    } finally {
      this.#busy.delete(key);
    }
  }

  async #remove(parts: readonly StagedPart[]): Promise<void> {
    if (parts.length === 0) return;
    const { core, staging } = this.#ctx;
    await core.stageOps(parts.map((part): HotOp => ({ type: 'del', key: partRow.key(slotOf(part.key), part.incarnation, part.id) })));
    for (const part of parts) {
      await staging.remove(staging.partName(part.key, part.id));
      this.#staged.remove(part);
    }
  }

  /** The same for parts that did what they were there for: what cannot be removed now ends by the sweep. */
  async #removeSoon(parts: readonly StagedPart[]): Promise<void> {
    await this.#remove(parts).catch((error: unknown) => this.#ctx.logger.warn({ err: error, event: 'snapshot-parts-left' }, 'parts of a snapshot could not be removed now'));
  }

  /** Reads the rows. Before the first request. */
  async start(): Promise<void> {
    const { core, metrics, logger } = this.#ctx;
    for await (const page of core.store.scan({ ...partRow.range(), values: false })) {
      for (const { key: row } of page) {
        const { incarnation, id } = partRow.decodeKey(row);
        try {
          const value = await core.store.get(row);
          if (value !== undefined) this.#staged.load({ id, incarnation, ...partRow.decode(value) });
        } catch (error) {
          if (!isHotDamage(error)) throw error;
          metrics.damage.hot.add();
          logger.error({ err: error, event: 'damage', tier: 'hot', part: id }, 'the row of a staged part is damaged');
        }
      }
    }
  }

  /** Whether a row names the file of this part. Throws when the row cannot be read. */
  async names(key: StreamKey, id: string): Promise<boolean> {
    const incarnation = incarnationOfPart(id);
    return incarnation !== null && (await this.#ctx.core.store.get(partRow.key(slotOf(key), incarnation, id))) !== undefined;
  }

  /** A bounded step over the streams that have parts: ends those that are too old, or whose stream is gone. */
  async sweep(): Promise<void> {
    for (const stream of this.#staged.next(STAGED_STREAMS_SWEEP_MAX)) {
      if (this.#stopped) return;
      if (stream.parts.size === 0) continue;
      await this.#sweepStream(stream).catch((error: unknown) => {
        if (!this.#ctx.core.healing) this.#ctx.logger.warn({ err: error, event: 'snapshot-parts-left', stream: stream.key }, 'parts of a snapshot whose time is up could not be removed now');
      });
    }
  }

  async #sweepStream({ key, incarnation, parts }: StagedStream): Promise<void> {
    const record = await this.#ctx.core.using(key, (slot) => slot.pending);
    if (this.#busy.has(key)) return;
    const gone = record === null || record.incarnation !== incarnation || record.softDeleted;
    const before = this.#ctx.now() - STAGED_PART_AGE_MS;
    const over = [...parts.values()].filter((part) => gone || part.stagedAtMs <= before);
    if (over.length > 0) await this.#alone(key, () => this.#remove(over));
  }

  /** Breaks off the commits that are copying, and waits for them. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.allSettled(this.#commits);
  }
}

/** Throws UNKNOWN_PART; what the list said is not repeated. */
function unknownPart(record: StreamRecord, index: number): never {
  throw refusal(record, 'UNKNOWN_PART', {}, `part ${index + 1} of the list is not staged for this incarnation of the stream`);
}
