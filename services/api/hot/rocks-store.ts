/**
 * The hot store over RocksDB.
 *
 * Owns: one open directory, and every call into the native code for it. Promises: keys order bytewise, a batch is atomic and with `sync` on disk before
 * it resolves (I2), a scan sees one moment, reads hold a bounded share of libuv's threads (I11), and closing at any moment ends reads with `StoreClosed`
 * and never crashes the process (R091): native work is counted, and the directory is closed when none runs.
 *
 * What it does not promise: that damage is seen. `get` proves the checksums of the blocks it reads; iterators of this binding do not,
 * and lost batches go unnoticed. That is the work of `durable-store`.
 */
import { binding, type BatchHandle, type DbHandle, type IteratorHandle, type OpenOptions } from './binding.js';
import { HotStoreError, isNotFound, storeError } from './errors.js';
import { StepGate } from './step-gate.js';
import { StoreClosed, type HotEntry, type HotOp, type HotStore, type ScanRange } from './store.js';

/** Smallest allowed in production; a smaller one (tests) makes the log roll often. */
const WRITE_BUFFER_BYTES = 67_108_864;
const BLOCK_CACHE_BYTES = 67_108_864;
/** Size of a table's block before compression: what one checksum covers. */
export const TABLE_BLOCK_BYTES = 4_096;
/** Table files kept open: well below the usual limit of 1,024 descriptors (R093). */
const OPEN_FILES_MAX = 256;
/** Bytes of a page of a scan when the caller does not say. */
export const SCAN_PAGE_BYTES = 1_048_576;
/** A written batch is used again if it held no more than this, bytes: its memory is RocksDB's own, of which V8 knows nothing, and would lie about until V8 collects. */
const BATCH_KEPT_BYTES_MAX = 8_388_608;
/** libuv's own default when the variable is not set. */
const POOL_THREADS = Math.max(1, Number(process.env['UV_THREADPOOL_SIZE'] ?? 4) || 4);
/** Scans read at most this many pages at once: half of the pool, so that commits and gets always find a thread. */
const SCAN_STEPS_MAX = Math.max(1, Math.floor(POOL_THREADS / 2));
/** Scans that may wait for their next page. */
const SCAN_STEPS_WAITING_MAX = 16_384;

/** For tests: less than a node takes. */
export interface RocksOptions {
  readonly writeBufferBytes?: number;
  readonly openFilesMax?: number;
}

/** Opens or creates the directory. Throws `HotStoreLocked`, `HotStoreCorrupt` or another `HotStoreError`. */
export function openRocksStore(dir: string, options: RocksOptions = {}): Promise<HotStore> {
  const db = binding.db_init();
  const open: OpenOptions = {
    createIfMissing: true,
    compression: true,
    writeBufferSize: options.writeBufferBytes ?? WRITE_BUFFER_BYTES,
    cacheSize: BLOCK_CACHE_BYTES,
    blockSize: TABLE_BLOCK_BYTES,
    maxOpenFiles: options.openFilesMax ?? OPEN_FILES_MAX,
  };
  return new Promise((resolve, reject) => {
    binding.db_open(db, dir, open, (error) => (error === null ? resolve(new RocksStore(db, dir)) : reject(storeError(error, dir))));
  });
}

const NO_OPTIONS = {};

class RocksStore implements HotStore {
  private readonly scans = new Set<OpenScan>();
  private readonly gate = new StepGate(SCAN_STEPS_MAX, SCAN_STEPS_WAITING_MAX);
  /** Native calls that have not called back, open iterators included. */
  private running = 0;
  private spare: BatchHandle | null = null;
  private closing: Promise<void> | null = null;
  private idle: (() => void) | null = null;

  constructor(private readonly db: DbHandle, private readonly dir: string) {}

  get(key: Buffer): Promise<Buffer | undefined> {
    if (this.closing !== null) return Promise.reject(new StoreClosed());
    if (key.length === 0) return Promise.reject(new HotStoreError('an empty key'));
    return new Promise((resolve, reject) => {
      this.running++;
      binding.db_get(this.db, key, NO_OPTIONS, (error, value) => {
        this.done();
        if (error === null) resolve(value);
        else if (isNotFound(error)) resolve(undefined);
        else reject(storeError(error, this.dir));
      });
    });
  }

  getMany(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    if (this.closing !== null) return Promise.reject(new StoreClosed());
    if (keys.length === 0) return Promise.resolve([]);
    // The native code leaves empty keys out of its answer: every later value would be another key's.
    for (const key of keys) if (key.length === 0) return Promise.reject(new HotStoreError('an empty key'));
    return new Promise((resolve, reject) => {
      this.running++;
      binding.db_get_many(this.db, keys, NO_OPTIONS, (error, values) => {
        this.done();
        if (error !== null) reject(storeError(error, this.dir));
        else if (values?.length !== keys.length) reject(new HotStoreError(`${values?.length} values for ${keys.length} keys`));
        else resolve(values);
      });
    });
  }

  batch(ops: readonly HotOp[], sync: boolean): Promise<void> {
    if (this.closing !== null) return Promise.reject(new StoreClosed());
    const batch = this.spare ?? binding.batch_init(this.db);
    this.spare = null;
    let bytes = 0;
    for (const op of ops) {
      if (op.key.length === 0) return Promise.reject(new HotStoreError('an empty key'));
      if (op.type === 'put') {
        binding.batch_put(batch, op.key, op.value);
        bytes += op.value.length;
      } else {
        binding.batch_del(batch, op.key);
      }
    }
    return new Promise((resolve, reject) => {
      this.running++;
      binding.batch_write(batch, { sync }, (error) => {
        if (bytes <= BATCH_KEPT_BYTES_MAX) {
          binding.batch_clear(batch);
          this.spare = batch;
        }
        this.done();
        if (error === null) resolve();
        else reject(storeError(error, this.dir));
      });
    });
  }

  async *scan(range: ScanRange): AsyncGenerator<readonly HotEntry[], void, void> {
    if (this.closing !== null) throw new StoreClosed();
    if (Buffer.compare(range.from, range.to) >= 0 || range.limit === 0) return;
    this.running++;
    const scan = new OpenScan(this.db, range, () => {
      this.scans.delete(scan);
      this.done();
    });
    this.scans.add(scan);
    try {
      for (let finished = false; !finished; ) {
        if (!this.gate.tryEnter()) await this.gate.wait();
        try {
          finished = await scan.step(this.dir);
        } finally {
          this.gate.leave();
        }
        if (scan.page.length > 0) yield scan.page;
      }
    } finally {
      scan.end();
    }
  }

  close(): Promise<void> {
    this.closing ??= this.shut();
    return this.closing;
  }

  private async shut(): Promise<void> {
    for (const scan of this.scans) scan.end();
    if (this.running > 0) await new Promise<void>((resolve) => (this.idle = resolve));
    await new Promise<void>((resolve, reject) => {
      binding.db_close(this.db, (error) => (error === null ? resolve() : reject(storeError(error, this.dir))));
    });
  }

  private done(): void {
    this.running--;
    if (this.running === 0 && this.idle !== null) this.idle();
  }
}

/** One native iterator: ended exactly once, and never while it reads. */
class OpenScan {
  page: readonly HotEntry[] = [];
  private readonly iterator: IteratorHandle;
  private readonly limit: number;
  private readonly reverse: boolean;
  private given = 0;
  private stepping = false;
  private ended = false;

  constructor(db: DbHandle, range: ScanRange, private readonly onEnded: () => void) {
    this.limit = range.limit ?? -1;
    this.reverse = range.reverse ?? false;
    this.iterator = binding.iterator_init(db, {
      gte: range.from.length > 0 ? range.from : undefined,
      lt: range.to,
      reverse: this.reverse,
      limit: this.limit,
      values: range.values ?? true,
      highWaterMark: Math.max(1, Math.floor(range.pageBytes ?? SCAN_PAGE_BYTES)),
      fillCache: false,
    });
  }

  /** Reads the next page; true: it was the last. Throws `StoreClosed` when the scan was ended meanwhile: that is never the end of the data. */
  step(dir: string): Promise<boolean> {
    if (this.ended) return Promise.reject(new StoreClosed());
    this.stepping = true;
    return new Promise((resolve, reject) => {
      binding.iterator_next(this.iterator, (error, entries, finished) => {
        this.stepping = false;
        if (this.ended) {
          this.endNow();
          reject(new StoreClosed());
        } else if (error !== null) {
          reject(storeError(error, dir));
        } else {
          this.page = toPage(entries ?? []);
          this.given += this.page.length;
          resolve(finished === true || this.given === this.limit);
        }
      });
    });
  }

  end(): void {
    if (this.ended) return;
    this.ended = true;
    if (!this.stepping) this.endNow();
  }

  private endNow(): void {
    binding.iterator_end(this.iterator, this.onEnded);
  }
}

/** The native code gives entries last to first, each as value, key. */
function toPage(entries: readonly Buffer[]): HotEntry[] {
  const page: HotEntry[] = [];
  for (let at = entries.length - 1; at > 0; at -= 2) page.push({ key: entries[at] as Buffer, value: entries[at - 1] as Buffer });
  return page;
}
