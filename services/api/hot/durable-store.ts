/**
 * The hot store with its losses made visible (architecture section 5, invariants I2 and I9).
 *
 * Owns: the numbered commit markers, the file `acked`, the check at open, and the poison. Promises:
 * - a commit that resolved is on disk, and a later open either finds it or refuses with `HotStoreDamaged`;
 * - what is read was stored under its key and is unaltered, or the read throws `HotStoreCorrupt` (`checked-reads`, `quarantine`);
 * - after the first failed batch nothing is written until `reopen` found out what is there (R001).
 */
import { readdir } from 'node:fs/promises';
import type { Logger } from 'pino';
import { crc32c } from '../../../shared/storage/crc.js';
import { AckedFile } from './acked-file.js';
import { checkedGet, checkedGetMany, checkedScan } from './checked-reads.js';
import type { DurableStore } from './durable.js';
import { HotStorePoisoned } from './errors.js';
import { FlushWatch } from './flush-watch.js';
import { replayJournal } from './journal-replay.js';
import { MARKER_RING, markerRow } from './keys/marker.js';
import { checkStore, verifiedOp, type Checked } from './open-check.js';
import { quarantined } from './quarantine.js';
import { openRocksStore, type RocksOptions } from './rocks-store.js';
import { isSelfChecked, rowSum, withSum } from './row-check.js';
import { StoreClosed, type HotEntry, type HotOp, type HotStore, type ScanRange } from './store.js';
import { checkTables, type DamagedRange } from './table-check.js';

/** Table bytes whose checksums are proven at an open, newest first: about a second's work. */
const TABLE_CHECK_BYTES_MAX = 1_073_741_824;

export interface DurableOptions {
  /** Directory of the embedded store; created when absent, its parent must be there. */
  readonly dir: string;
  /** Path of the file `acked`, outside `dir`. */
  readonly ackedFile: string;
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  readonly rocks?: RocksOptions;
  /** How the embedded store is opened; RocksDB unless another is measured or made to fail. */
  readonly openStore?: (dir: string) => Promise<HotStore>;
  /** Markers kept; part of the stored format, smaller only in tests. */
  readonly markerRing?: number;
  /** Commits between two looks at what was flushed, `LOOK_EVERY_COMMITS` by default. */
  readonly lookEveryCommits?: number;
}

/** Throws `HotStoreLocked`, `HotStoreFormat`, `HotStoreDamaged`, or another `HotStoreError`. */
export async function openDurableStore(options: DurableOptions): Promise<DurableStore> {
  const acked = await AckedFile.open(options.ackedFile, options.logger);
  try {
    const opened = await openChecked(options, acked);
    const store = new Durable(options, acked, opened);
    await store.replay(opened.store);
    return store;
  } catch (error) {
    await acked.close();
    throw error;
  }
}

interface Opened extends Checked {
  readonly store: HotStore;
  readonly damagedFiles: readonly string[];
}

async function openChecked(options: DurableOptions, acked: AckedFile): Promise<Opened> {
  const open = options.openStore ?? ((dir: string) => openRocksStore(dir, options.rocks));
  // Before the open: afterwards new tables are written, and an iterator may load a damaged block.
  const tables = await checkTables(options.dir, TABLE_CHECK_BYTES_MAX);
  const raw = await open(options.dir);
  const damaged = await stillThere(options.dir, tables.damaged);
  const store = quarantined(raw, damaged);
  const damagedFiles = [...new Set(damaged.map(({ file }) => file))];
  try {
    const checked = await checkStore(store, { dir: options.dir, acked: acked.last, places: options.markerRing ?? MARKER_RING });
    report(options, acked, checked);
    if (damagedFiles.length > 0) options.logger.error({ event: 'hot-store-table-damaged', dir: options.dir, files: damagedFiles, blocks: damaged.length }, 'tables of the hot store are damaged: reads of what they hold fail');
    if (tables.uncheckedBytes > 0) options.logger.info({ event: 'hot-store-tables-unchecked', bytes: tables.uncheckedBytes, checked: tables.bytes }, 'older tables were not checked at this start');
    return { ...checked, store, damagedFiles };
  } catch (error) {
    options.logger.error({ event: 'hot-store-refused', dir: options.dir, err: error }, 'the hot store was not opened');
    await store.close();
    throw error;
  }
}

/** Opening removes tables that are not in use: damage in those is none. */
async function stillThere(dir: string, damaged: readonly DamagedRange[]): Promise<DamagedRange[]> {
  if (damaged.length === 0) return [];
  const names = new Set(await readdir(dir));
  return damaged.filter(({ file }) => names.has(file));
}

function report(options: DurableOptions, acked: AckedFile, checked: Checked): void {
  if (acked.last === null && checked.batch > 0) {
    options.logger.warn({ event: 'acked-unknown', path: options.ackedFile, state: acked.state, batch: checked.batch }, 'the highest acknowledged batch is not known: a loss at the end of the log would go unnoticed');
  }
  const { batch, checkedFrom, created } = checked;
  options.logger.info({ event: 'hot-store-open', dir: options.dir, batch, checkedFrom, acked: acked.last?.n ?? null, created }, 'the hot store is open');
}

class Durable implements DurableStore {
  nextBatch: number;
  damagedFiles: readonly string[];
  poisoned: Error | null = null;
  /** null: being opened again, or that failed. */
  private store: HotStore | null;
  private crc: number;
  private readonly flushes: FlushWatch;
  private sums = Buffer.allocUnsafeSlow(4_096);
  private committing: Promise<void> | null = null;
  private reopening: Promise<void> | null = null;
  private closing: Promise<void> | null = null;

  constructor(private readonly options: DurableOptions, private readonly acked: AckedFile, opened: Opened) {
    this.store = opened.store;
    this.damagedFiles = opened.damagedFiles;
    this.nextBatch = opened.batch + 1;
    this.crc = opened.crc;
    this.flushes = new FlushWatch(options.dir, options.lookEveryCommits);
  }

  async commit(ops: readonly HotOp[]): Promise<void> {
    if (this.committing !== null) throw new Error('a commit before the one before has settled');
    if (this.closing !== null) throw new StoreClosed();
    if (this.poisoned !== null) throw new HotStorePoisoned(this.poisoned);
    if (this.store === null) throw new Error('no store and no poison');
    await this.write(this.store, ops);
  }

  private async write(store: HotStore, ops: readonly HotOp[]): Promise<void> {
    const n = this.nextBatch;
    const batch = this.batchOf(ops);
    const crc = crc32c(this.sums.subarray(0, ops.length * 4), this.crc);
    batch.push({ type: 'put', key: markerRow.key(n, this.options.markerRing), value: markerRow.encode({ n, crc, before: this.crc }) });
    const flushed = this.flushes.take();
    if (flushed !== null) batch.push(verifiedOp(flushed));
    this.committing = store.batch(batch, true);
    try {
      await this.committing;
    } catch (error) {
      this.poisoned = error instanceof Error ? error : new Error(String(error));
      this.options.logger.error({ event: 'hot-store-poisoned', batch: n, err: error }, 'a batch failed: no writes until the store was opened again');
      throw error;
    } finally {
      this.committing = null;
    }
    this.nextBatch = n + 1;
    this.crc = crc;
    this.acked.write(n, crc);
    this.flushes.noteCommit(n, crc);
  }

  /** Appends that lie in the journal become rows of their streams. Not while others use the store. */
  async replay(store: HotStore): Promise<void> {
    try {
      const { rows, damaged } = await replayJournal({ get: (key) => checkedGet(store, key), scan: (range) => checkedScan(store, range), commit: (ops) => this.write(store, ops) });
      if (rows > 0) this.options.logger.info({ event: 'hot-journal-replayed', rows }, 'appends of the journal are rows of their streams now');
      for (const stream of damaged) this.options.logger.error({ event: 'damage', tier: 'hot', stream }, 'the row of a stream is damaged: what the journal holds of it stays there');
    } catch (error) {
      await store.close();
      throw error;
    }
  }

  reopen(): Promise<void> {
    if (this.committing !== null) return Promise.reject(new Error('opening again while a commit runs'));
    if (this.closing !== null) return Promise.reject(new StoreClosed());
    this.reopening ??= this.openAgain().finally(() => {
      this.reopening = null;
    });
    return this.reopening;
  }

  get(key: Buffer): Promise<Buffer | undefined> {
    if (this.store !== null) return checkedGet(this.store, key);
    return this.opened().then((store) => checkedGet(store, key));
  }

  getMany(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    if (this.store !== null) return checkedGetMany(this.store, keys);
    return this.opened().then((store) => checkedGetMany(store, keys));
  }

  async *scan(range: ScanRange): AsyncGenerator<readonly HotEntry[], void, void> {
    yield* checkedScan(this.store ?? (await this.opened()), range);
  }

  close(): Promise<void> {
    this.closing ??= this.shut();
    return this.closing;
  }

  /** The rows of a batch with their sums; leaves the sums in `this.sums`. */
  private batchOf(ops: readonly HotOp[]): HotOp[] {
    if (this.sums.length < ops.length * 4) this.sums = Buffer.allocUnsafeSlow(ops.length * 8);
    const batch: HotOp[] = [];
    for (let index = 0; index < ops.length; index++) {
      const op = ops[index] as HotOp;
      if (op.type === 'put') {
        const sum = rowSum(op.key, op.value);
        this.sums.writeUInt32LE(sum, index * 4);
        batch.push(isSelfChecked(op.key) ? op : { type: 'put', key: op.key, value: withSum(op.value, sum) });
      } else {
        this.sums.writeUInt32LE(~crc32c(op.key) >>> 0, index * 4);
        batch.push(op);
      }
    }
    return batch;
  }

  private async openAgain(): Promise<void> {
    const before = this.store;
    this.store = null;
    this.poisoned ??= new Error('the store is being opened again');
    // A store that cannot even close must not keep the next try from opening: its lock decides that.
    await before?.close().catch((error: unknown) => this.options.logger.warn({ event: 'hot-store-close-failed', err: error }, 'closing the failed hot store failed'));
    const opened = await openChecked(this.options, this.acked);
    this.nextBatch = opened.batch + 1;
    this.crc = opened.crc;
    await this.replay(opened.store);
    this.store = opened.store;
    this.damagedFiles = opened.damagedFiles;
    this.poisoned = null;
  }

  /** Waits for a reopen that runs. Throws `StoreClosed` when there is none or it fails. */
  private async opened(): Promise<HotStore> {
    await this.reopening?.catch(() => undefined);
    if (this.store === null || this.closing !== null) throw new StoreClosed();
    return this.store;
  }

  private async shut(): Promise<void> {
    await this.committing?.catch(() => undefined);
    await this.reopening?.catch(() => undefined);
    await this.flushes.settled();
    try {
      await this.store?.close();
    } finally {
      await this.acked.close();
    }
  }
}

