/**
 * Frames of data objects on disk, as they are stored in the object store: the second stage of the frame cache (architecture section 6, "Cold reads").
 *
 * Owns: the folder `cache/` of the data directory, one file a frame, named by object and place in it. Object names are never used twice, so a file can only ever mean what it was written for (I4, I7).
 * Promises: at most `bytesMax` bytes and `CACHE_FILES_MAX` files lie there, what a killed process left included (I11); what is read back is checked against the checksum of the reference, and whatever is
 * wrong with it is a miss, never an error of a reader; it takes no room that the hot tier needs. Nothing here is synced, and nothing here has to be there.
 */
import { mkdir, open, opendir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../../shared/observability/logger.js';
import { BadBytes } from '../../../shared/storage/codec.js';
import { checkFrame } from '../../../shared/storage/frame.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import type { ColdMetrics } from './cold-metrics.js';
import type { FrameOf } from './frame-fetch.js';
import { CACHE_FILE_BYTES_MIN, CACHE_FILES_MAX, CACHE_REST_MS, CACHE_SHED_FILES, CACHE_SHED_MS, CACHE_STATS_TOGETHER, CACHE_WAITING_BYTES_MAX } from './limits.js';

export interface FrameDiskOptions {
  readonly dir: string;
  /** Bytes of files, each counted in whole blocks of the disk. */
  readonly bytesMax: number;
  /** Whether the hot tier will soon need the room. */
  readonly isShort: () => boolean;
  readonly metrics: Pick<ColdMetrics, 'diskFrame' | 'frameEvicted' | 'diskWriteFailed'>;
  readonly logger: Logger;
  readonly now: () => number;
  readonly filesMax?: number;
}

export class FrameDisk {
  readonly #options: FrameDiskOptions;
  /** What each file takes, bytes, from the one used longest ago to the newest. */
  readonly #files = new Map<string, number>();
  #bytes = 0;
  /** Files that are to be written. */
  readonly #waiting = new Map<string, Buffer>();
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;
  /** After a write that failed none is tried before this time, ms. */
  #restUntilMs = 0;
  #state: 'loading' | 'open' | 'closed' = 'loading';
  readonly #loading: Promise<void>;
  readonly #shedding: NodeJS.Timeout;

  private constructor(options: FrameDiskOptions) {
    this.#options = options;
    this.#loading = this.#load();
    this.#shedding = setInterval(() => void this.#shed(), CACHE_SHED_MS).unref();
  }

  /** null with a bound of 0: then what an earlier setting left goes. A folder that cannot be made is no reason not to start. */
  static async open(options: FrameDiskOptions): Promise<FrameDisk | null> {
    if (options.bytesMax > 0) return new FrameDisk(options);
    await rm(options.dir, { recursive: true, force: true }).catch((error: unknown) => options.logger.warn({ err: error, event: 'cache-failed' }, 'the folder of a cache that is switched off cannot be removed'));
    return null;
  }

  /** Resolves when what lay there at the start is known; before that nothing is found. */
  get loaded(): Promise<void> {
    return this.#loading;
  }

  get bytes(): number {
    return this.#bytes;
  }

  has(frame: FrameOf): boolean {
    return this.#files.has(fileOf(frame));
  }

  /** The frame as it is stored, checked; null: it is not there, or not as it was. */
  async read(frame: FrameOf): Promise<Buffer | null> {
    const name = fileOf(frame);
    const found = this.#files.has(name) ? await this.#check(name, frame) : 'miss';
    this.#options.metrics.diskFrame(Buffer.isBuffer(found) ? 'hit' : found);
    const bytes = this.#files.get(name);
    if (bytes === undefined) return Buffer.isBuffer(found) ? found : null;
    if (!Buffer.isBuffer(found)) {
      await this.#remove(name);
      return null;
    }
    this.#files.delete(name);
    this.#files.set(name, bytes);
    return found;
  }

  async #check(name: string, frame: FrameOf): Promise<Buffer | 'miss' | 'damaged'> {
    try {
      const stored = await readWhole(join(this.#options.dir, name), frame.frameBytes);
      return checkFrame(stored).crc === frame.frameCrc ? stored : 'damaged';
    } catch (error) {
      return error instanceof BadBytes ? 'damaged' : 'miss';
    }
  }

  /** Keeps a frame that was checked, soon and perhaps: never waits, never fails. */
  put(frame: FrameOf, stored: Buffer): void {
    const name = fileOf(frame);
    const { now, isShort, bytesMax } = this.#options;
    if (this.#state !== 'open' || this.#files.has(name) || this.#waiting.has(name) || taken(stored.length) > bytesMax) return;
    if (this.#waitingBytes + stored.length > CACHE_WAITING_BYTES_MAX || now() < this.#restUntilMs || isShort()) return;
    this.#waiting.set(name, stored);
    this.#waitingBytes += stored.length;
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = null));
  }

  /** One after the other: RocksDB needs the same threads. */
  async #writeAll(): Promise<void> {
    for (const [name, stored] of this.#waiting) {
      if (this.#state === 'open' && this.#options.now() >= this.#restUntilMs) await this.#write(name, stored);
      this.#waiting.delete(name);
      this.#waitingBytes -= stored.length;
    }
  }

  async #write(name: string, stored: Buffer): Promise<void> {
    const { dir, metrics, logger, now } = this.#options;
    try {
      await this.#makeRoom(taken(stored.length));
      // A file that a crash leaves half-written fails its sum, and counts like any other until then.
      await writeFile(join(dir, name), stored);
      this.#add(name, stored.length);
    } catch (error) {
      metrics.diskWriteFailed();
      this.#restUntilMs = now() + CACHE_REST_MS;
      logger.warn({ err: error, event: 'cache-failed' }, 'a cold frame cannot be kept on disk; the next try follows later');
      await this.#unlink(name);
      // Somebody may have taken the folder away, and every file with it.
      await this.#load();
    }
  }

  async #makeRoom(bytes: number): Promise<void> {
    const { bytesMax, filesMax = CACHE_FILES_MAX } = this.#options;
    while (this.#files.size > 0 && (this.#bytes + bytes > bytesMax || this.#files.size >= filesMax)) await this.#evictOldest();
  }

  async #evictOldest(): Promise<void> {
    const [name] = this.#files.keys();
    if (name === undefined) return;
    this.#options.metrics.frameEvicted('disk');
    await this.#remove(name);
  }

  /** Room is short: the oldest files go before the hot tier has to refuse writes. */
  async #shed(): Promise<void> {
    for (let n = 0; n < CACHE_SHED_FILES && this.#state === 'open' && this.#options.isShort(); n++) await this.#evictOldest();
  }

  #add(name: string, length: number): void {
    this.#files.set(name, taken(length));
    this.#bytes += taken(length);
  }

  async #remove(name: string): Promise<void> {
    this.#bytes -= this.#files.get(name) ?? 0;
    this.#files.delete(name);
    await this.#unlink(name);
  }

  async #unlink(name: string): Promise<void> {
    await rm(join(this.#options.dir, name), { force: true }).catch(() => undefined);
  }

  /** Finds what lies in the folder: the files written last are the newest. Never rejects. */
  async #load(): Promise<void> {
    const { dir, logger } = this.#options;
    this.#files.clear();
    this.#bytes = 0;
    try {
      await mkdir(dir, { recursive: true });
      const found = await this.#listed();
      for (const { name, bytes } of found.toSorted((a, b) => a.writtenMs - b.writtenMs)) this.#add(name, bytes);
      await this.#makeRoom(0);
    } catch (error) {
      logger.warn({ err: error, event: 'cache-failed' }, 'the folder of cold frames cannot be read');
    }
    if (this.#state === 'loading') this.#state = 'open';
  }

  /** Files, at most twice as many as may stay: those beyond go unseen. */
  async #listed(): Promise<{ readonly name: string; readonly bytes: number; readonly writtenMs: number }[]> {
    const { dir, filesMax = CACHE_FILES_MAX } = this.#options;
    const found: { readonly name: string; readonly bytes: number; readonly writtenMs: number }[] = [];
    let names: string[] = [];
    const look = async (): Promise<void> => {
      const stats = await Promise.all(names.map((name) => stat(join(dir, name)).catch(() => null)));
      for (const [n, one] of stats.entries()) if (one !== null) found.push({ name: names[n] as string, bytes: one.size, writtenMs: one.mtimeMs });
      names = [];
    };
    for await (const { name } of await opendir(dir)) {
      if (this.#state === 'closed') return found;
      if (found.length + names.length >= 2 * filesMax) await this.#unlink(name);
      else if (names.push(name) === CACHE_STATS_TOGETHER) await look();
    }
    await look();
    return found;
  }

  /** Nothing is written any more when it returns. */
  async close(): Promise<void> {
    this.#state = 'closed';
    clearInterval(this.#shedding);
    await this.#loading;
    await this.#writing;
  }
}

function fileOf(frame: FrameOf): string {
  return `${objectKey(frame.object).replaceAll('/', '+')}@${frame.frameAt}`;
}

/** What a file takes of a disk. */
function taken(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / CACHE_FILE_BYTES_MIN)) * CACHE_FILE_BYTES_MIN;
}

/** So many bytes of a file, in memory of their own. Throws `BadBytes` when it is shorter, and errors of the file system. */
async function readWhole(path: string, bytes: number): Promise<Buffer> {
  const file = await open(path, 'r');
  try {
    const buffer = Buffer.allocUnsafeSlow(bytes);
    const { bytesRead } = await file.read(buffer, 0, bytes, 0);
    if (bytesRead !== bytes) throw new BadBytes('cached frame', `${bytesRead} bytes of ${bytes}`);
    return buffer;
  } finally {
    await file.close();
  }
}
