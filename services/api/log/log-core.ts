/**
 * The one owner of every stream of a node: two states per stream, one queue to the disk.
 *
 * Owns: loading of stream state, staging of changes, group commit with one synced batch in flight, events after durability, and the way back
 * after a failed batch (architecture section 5). Promises: I2 (answer after durable; watchers see durable bytes only); changes of a stream become
 * durable in the order in which they were staged; after a failed batch every state is read anew before anything goes on.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';
import type { NamedProducer, ProducerRecord, StreamRecord } from '../../../shared/storage/records/types.js';
import { partitionOf, slotOf } from '../../../shared/storage/slots.js';
import type { DurableStore } from '../hot/durable.js';
import type { HotOp, HotReads } from '../hot/store.js';
import { streamRow } from '../hot/keys/index.js';
import { eventOf, OpenBatch, rowsOf, sizeOf, sizeOfOps, type BatchRows } from './batch.js';
import type { Change, LogCore } from './core.js';
import type { CoreHooks, LogCoreOptions } from './core-options.js';
import { REOPEN_RETRY_MS, SLOTS_MAX } from './limits.js';
import { CurrentRows } from './current-rows.js';
import { measureLoad } from './dirty-scan.js';
import { Journal } from './journal.js';
import { JournalWriter } from './journal-writer.js';
import { PartitionLoad } from './partition-load.js';
import { lookUpProducer, producersSince } from './producer-lookup.js';
import { SlotTable, type Listener, type Slot } from './slot.js';
import type { StreamEvent } from './types.js';
import { TouchKeeper } from './touch.js';

export class Core implements LogCore {
  /** With rows of streams that say all that is durable; `#rows` may be behind for what lies in the journal. */
  readonly store: HotReads;
  readonly #rows: DurableStore;
  readonly #journal: Journal;
  readonly #journalWriter: JournalWriter;
  readonly touch: TouchKeeper;
  readonly #options: LogCoreOptions;
  readonly #slots: SlotTable;
  #load: PartitionLoad;
  readonly #waiting: OpenBatch[] = [];
  #flight: OpenBatch | null = null;
  #scheduled = false;
  #healing = false;
  /** How often the store was opened again: what the failed batch held may be there, and was told to no watcher of all streams. */
  heals = 0;
  #closed = false;
  #hooks: CoreHooks | null = null;
  #watcher: ((slot: Slot, record: StreamRecord | null) => void) | null = null;
  #drained: (() => void)[] = [];

  constructor(options: LogCoreOptions) {
    this.#options = options;
    this.#rows = options.store;
    this.#journal = new Journal(options.monotonic ?? (() => performance.now()));
    this.#journalWriter = new JournalWriter(this.#journal, () => this.#emptyBatch());
    this.store = new CurrentRows(options.store, this.#journal, (tails) => this.#journalWriter.written(tails));
    this.touch = new TouchKeeper(options.now);
    this.#load = new PartitionLoad(options.partitions);
    this.#slots = new SlotTable(options.partitions, SLOTS_MAX, (slot) => this.#mayDrop(slot));
  }

  /** Reads what is dirty, so that unsealed bytes and ages are known before the first request. */
  async start(): Promise<void> {
    if (this.#options.logged) this.#load = await measureLoad(this.#rows, this.#options.partitions, this.#options.logger);
    this.#journalWriter.start();
  }

  connect(hooks: CoreHooks): void {
    this.#hooks = hooks;
  }

  /** Tells one watcher the durable state of every stream that a batch changed, in the turn in which it became durable; null: nobody. It must not throw. */
  watchAll(watcher: ((slot: Slot, record: StreamRecord | null) => void) | null): void {
    this.#watcher = watcher;
  }

  slotOf(key: StreamKey): number {
    return slotOf(key);
  }

  partitionOf(key: StreamKey): number {
    const { partitions } = this.#options;
    return partitions === 1 ? 0 : partitionOf(slotOf(key), partitions);
  }

  unsealedBytes(partition: number): number {
    return this.#load.unsealed(partition);
  }

  sealedHotBytes(partition: number): number {
    return this.#load.sealedHot(partition);
  }

  dirtySinceMs(partition: number): number | null {
    return this.#load.dirtySince(partition);
  }

  /** A seal plan took everything dirty up to now: older marks no longer count for the age. */
  noteCut(partition: number, atMs: number): void {
    this.#load.cut(partition, atMs);
  }

  async using<T>(key: StreamKey, work: (slot: Slot) => T | Promise<T>): Promise<T> {
    const slot = await this.acquire(key);
    try {
      return await work(slot);
    } finally {
      this.#slots.unpin(slot);
    }
  }

  /** The slot, pinned, if its state is in memory already; null: `acquire` it. Pair with `release`. */
  acquireLoaded(key: StreamKey): Slot | null {
    this.#assertOpen();
    const slot = this.#slots.pin(key);
    if (slot.loaded) return slot;
    this.#slots.unpin(slot);
    return null;
  }

  /** The slot, loaded and pinned. Pair with `release`. */
  async acquire(key: StreamKey): Promise<Slot> {
    this.#assertOpen();
    const slot = this.#slots.pin(key);
    try {
      while (!slot.loaded) {
        await (slot.loading ??= this.#loadSlot(slot));
        this.#assertOpen();
      }
      return slot;
    } catch (error) {
      this.#slots.unpin(slot);
      throw error;
    }
  }

  release(slot: Slot): void {
    this.#slots.unpin(slot);
  }

  async #loadSlot(slot: Slot): Promise<void> {
    try {
      const value = await this.#rows.get(streamRow.key(slot.slot, slot.key));
      const record = value === undefined ? null : streamRow.decode(value);
      slot.durable = record;
      slot.pending = record;
      slot.producers = null;
      slot.touchedAtMs = record === null ? 0 : this.touch.afterLoad(record);
      slot.loaded = true;
    } finally {
      slot.loading = null;
    }
  }

  #restarting(): Promise<never> {
    return Promise.reject(new FirnError('GROUP_RESTARTING'));
  }

  #assertOpen(): void {
    if (this.#closed || this.#healing) throw new FirnError('GROUP_RESTARTING');
  }

  producer(slot: Slot, incarnation: Incarnation, id: string): Promise<ProducerRecord | null> {
    return lookUpProducer(this.#rows, slot, incarnation, id);
  }

  producersSince(slot: Slot, incarnation: Incarnation, after: number): Promise<NamedProducer[]> {
    return producersSince(this.store, slot, incarnation, after);
  }

  watch(slot: Slot, listener: Listener): () => void {
    (slot.listeners ??= new Set()).add(listener);
    return () => {
      slot.listeners?.delete(listener);
      this.#slots.settle(slot);
    };
  }

  /** Never throws: some callers are listeners of events. */
  stage(change: Change): Promise<void> {
    if (this.#closed || this.#healing) return this.#restarting();
    const bytes = sizeOf(change);
    const batch = this.#batchFor(change, bytes);
    this.#add(batch, change, bytes);
    this.#schedule();
    return batch.done;
  }

  /** Changes of several streams that are durable together or not at all. */
  stageTogether(changes: readonly Change[]): Promise<void> {
    if (this.#closed || this.#healing) return this.#restarting();
    const bytes = changes.reduce((sum, change) => sum + sizeOf(change), 0);
    const last = this.#waiting.at(-1);
    const batch = last !== undefined && changes.every((change) => last.takes(change, bytes)) ? last : this.#newBatch();
    for (const change of changes) this.#add(batch, change, sizeOf(change));
    this.#schedule();
    return batch.done;
  }

  #add(batch: OpenBatch, change: Change, bytes: number): void {
    const slot = change.slot as Slot;
    batch.add(change, bytes);
    if (slot.pending?.incarnation !== change.next?.incarnation) slot.producers = null;
    slot.pending = change.next;
    if (change.producer !== undefined) (slot.producers ??= new Map()).set(change.producer.id, change.producer.record);
    slot.staged++;
  }

  stageOps(ops: readonly HotOp[]): Promise<void> {
    if (this.#closed || this.#healing) return this.#restarting();
    const bytes = sizeOfOps(ops);
    const batch = this.#batchFor(null, bytes);
    batch.addOps(ops, bytes);
    this.#schedule();
    return batch.done;
  }

  settled(slot: Slot): Promise<void> {
    // After a failed batch what was staged counts as neither there nor not there until it was read anew.
    if (this.#healing) return Promise.reject(new FirnError('OUTCOME_UNKNOWN'));
    if (slot.staged === 0) return Promise.resolve();
    for (let i = this.#waiting.length - 1; i >= 0; i--) if (this.#waiting[i]!.works.has(slot)) return this.#waiting[i]!.done;
    if (this.#flight?.works.has(slot) === true) return this.#flight.done;
    throw new Error('a slot counts staged changes that are in no batch');
  }

  #batchFor(change: Change | null, bytes: number): OpenBatch {
    const last = this.#waiting.at(-1);
    return last !== undefined && last.takes(change, bytes) ? last : this.#newBatch();
  }

  #newBatch(): OpenBatch {
    const batch = new OpenBatch();
    this.#waiting.push(batch);
    return batch;
  }

  #schedule(): void {
    if (this.#scheduled || this.#flight !== null) return;
    this.#scheduled = true;
    // After the poll phase: what arrived together goes to the disk together.
    setImmediate(() => {
      this.#scheduled = false;
      if (this.#flight === null) void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    for (;;) {
      const batch = this.#waiting.shift();
      if (batch === undefined) break;
      this.#flight = batch;
      const n = this.#rows.nextBatch;
      let rows: BatchRows;
      const startedMs = performance.now();
      try {
        rows = rowsOf(batch, this.#journal, n, this.#options.now(), this.#options.logged);
        await this.#rows.commit(rows.ops);
      } catch (error) {
        this.#fail(batch, error as Error);
        return;
      }
      this.#options.metrics.batchCommitted(batch.requests, batch.bytes, performance.now() - startedMs);
      this.#flight = null;
      this.#publish(batch, rows, n);
    }
    for (const done of this.#drained.splice(0)) done();
  }

  /** Durable: states move, requests are answered, watchers wake with the buffers that were written. */
  #publish(batch: OpenBatch, rows: BatchRows, n: number): void {
    const { outcomes } = rows;
    const nowMs = this.#options.now();
    const partitions = new Set<number>();
    this.#journal.forgetRows(rows.deleted);
    if (rows.journaled) this.#journal.noteRow(n);
    for (const tail of rows.emptied) this.#journal.remove(tail);
    for (const { work, before, after, journaled } of outcomes) {
      const { slot } = work;
      slot.durable = after;
      if (slot.pending === work.next) slot.pending = after;
      slot.staged -= work.count;
      if (journaled) this.#journal.add(work, after!, n);
      this.#load.moved(slot.partition, before, after);
      if (!work.quiet || after === null) {
        partitions.add(slot.partition);
        if (this.#options.logged) this.#load.marked(slot.partition, nowMs);
      }
    }
    batch.settle(null);
    for (const { work, before, after } of outcomes) {
      const { slot } = work;
      if (slot.listeners !== null && slot.listeners.size > 0) this.#tell(slot, eventOf(work.appends, work.from, before, after));
      this.#slots.settle(slot);
    }
    if (this.#watcher !== null) for (const { work, after } of outcomes) this.#watcher(work.slot, after);
    if (this.#hooks === null) return;
    for (const { slot, incarnation, from, bytes } of rows.written) this.#hooks.onAppended(slot, incarnation, from, bytes);
    for (const partition of partitions) this.#hooks.onPartitionChanged(partition);
  }

  /** A batch of nothing but what the journal has to write, unless others join. */
  #emptyBatch(): Promise<void> | null {
    if (this.#closed || this.#healing) return null;
    const batch = this.#batchFor(null, 0);
    this.#schedule();
    return batch.done.catch(() => undefined);
  }

  #tell(slot: Slot, event: StreamEvent): void {
    for (const listener of slot.listeners!) {
      try {
        listener(event);
      } catch (error) {
        this.#options.logger.error({ err: error, event: 'listener-failed' }, 'a watcher of a stream failed');
      }
    }
  }

  /** The first error of a batch: whether it is there is unknown, so is everything behind it (R001). */
  #fail(batch: OpenBatch, error: Error): void {
    this.#healing = true;
    this.#options.metrics.storePoisoned();
    this.#options.logger.error({ err: error, event: 'store-poisoned', batch: this.#rows.nextBatch }, 'a batch failed: the hot store is closed and opened again');
    const failed = [batch, ...this.#waiting.splice(0)];
    this.#flight = null;
    this.#journal.clear();
    for (const lost of failed) {
      for (const { slot, count } of lost.works.values()) {
        slot.staged -= count;
        // A request that holds the slot must not take a lost write for one that is there.
        slot.pending = slot.durable;
        slot.producers = null;
      }
      lost.settle(new FirnError('OUTCOME_UNKNOWN', { cause: error }));
    }
    for (const done of this.#drained.splice(0)) done();
    void this.#heal();
  }

  async #heal(): Promise<void> {
    while (!this.#closed) {
      try {
        await this.#rows.reopen();
        await this.start();
        break;
      } catch (error) {
        this.#options.logger.error({ err: error, event: 'reopen-failed' }, 'the hot store did not open; trying again');
        await new Promise((resolve) => setTimeout(resolve, REOPEN_RETRY_MS));
      }
    }
    if (this.#closed) return;
    for (const slot of this.#slots.forgetIdle()) {
      const wasLoaded = slot.loaded;
      slot.loaded = false;
      try {
        await this.#loadSlot(slot);
      } catch (error) {
        // Stays unloaded: the next user reads it again and gets the error.
        this.#options.logger.error({ err: error, event: 'reload-failed', stream: slot.key }, 'a stream could not be read after the reopen');
        continue;
      }
      if (!wasLoaded) continue;
      if (slot.listeners !== null && slot.listeners.size > 0) this.#tell(slot, eventOf([], 0 as Offset, null, slot.durable));
    }
    this.#healing = false;
    this.heals++;
    this.#options.logger.info({ event: 'store-reopened' }, 'the hot store is open again');
  }

  get healing(): boolean {
    return this.#healing;
  }

  /** A slot about to leave memory: a renewal that only memory knows is written first. */
  #mayDrop(slot: Slot): boolean {
    const record = slot.pending;
    if (this.#closed || this.#healing || record === null || record.ttl === null || slot.touchedAtMs <= record.touchedAtMs) return true;
    void this.stage({ slot, next: { ...record, touchedAtMs: slot.touchedAtMs }, quiet: true }).catch(() => undefined);
    return false;
  }

  /** Resolves when nothing is waiting or in flight. */
  async drain(): Promise<void> {
    while (this.#flight !== null || this.#waiting.length > 0) await new Promise<void>((resolve) => this.#drained.push(resolve));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    for (const slot of this.#slots.all()) {
      const record = slot.pending;
      if (record !== null && record.ttl !== null && slot.touchedAtMs > record.touchedAtMs && !this.#healing) {
        void this.stage({ slot, next: { ...record, touchedAtMs: slot.touchedAtMs }, quiet: true }).catch(() => undefined);
      }
    }
    await this.#journalWriter.drain();
    if (!this.#healing) await this.drain();
    this.#closed = true;
  }
}
