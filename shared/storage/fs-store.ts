/**
 * The object store in a directory: the same keys and the same create-once semantics as S3 (architecture section 7).
 *
 * Owns: the directory. Promises (I4, I10): an object appears under its key whole and synced, or not at all; of several creators exactly one wins, on any
 * number of processes, since the file system decides by `link`. A temporary file of a killed process is never listed or read, and goes at the next open.
 */
import { constants } from 'node:fs';
import { link, mkdir, open, stat, unlink, type FileHandle } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { TEMPORARY_FOLDER, newTemporary, releaseTemporary, removeLeftovers } from './fs-temporary.js';
import { foldersOf, listFiles } from './fs-walk.js';
import { checkRange, exactLength, putOnceBytes } from './object-body.js';
import { checkKey, checkPrefix } from './object-key.js';
import { ObjectDamaged, ObjectMissing, StoreUnavailable, type ByteRange, type ObjectInfoListed, type ObjectStore, type PutOutcome, type UploadSweep } from './object-store.js';

const READ_BYTES = 262_144;
/**
 * Bytes of a body that may be written and not be on the disk yet. A journalling file system (ext4) makes every sync on it, that of a hot store's log among them,
 * wait for the data of files that are being synced: 64 MiB at once would hold up acknowledgements for as long as they take to reach the disk.
 */
export const DIRTY_BYTES_MAX = 1_048_576;
/** Folders remembered as made and synced. */
const FOLDERS_MAX = 10_000;

export class FsObjectStore implements ObjectStore {
  readonly describe: string;
  private closed = false;
  /** Folders known to be there and synced into their parents. */
  private readonly folders = new Set<string>();

  private constructor(private readonly root: string) {
    this.describe = `directory ${root}`;
  }

  /** Makes the directory when it is missing, and removes what a killed process left unfinished. */
  static async open(directory: string): Promise<FsObjectStore> {
    const store = new FsObjectStore(resolve(directory));
    await unavailable(async () => {
      const made = await mkdir(store.root, { recursive: true });
      if (made !== undefined) await makeFolder(store.root, dirname(made));
      await makeFolder(join(store.root, TEMPORARY_FOLDER), store.root);
      await removeLeftovers(store.root);
      // Names that a killed process gave and did not sync are seen from now on, so they have to stay.
      for await (const folder of foldersOf(store.root)) await syncFolder(join(store.root, folder));
    });
    return store;
  }

  async putOnce(key: string, body: Buffer | readonly Buffer[], signal?: AbortSignal): Promise<PutOutcome> {
    const path = this.pathOf(key);
    const parts: readonly Buffer[] = Buffer.isBuffer(body) ? [body] : body;
    const bytes = putOnceBytes(key, parts);
    signal?.throwIfAborted();
    return unavailable(async () => {
      if ((await sizeOf(path)) !== null) return this.compare(path, parts, bytes);
      const temporary = await this.writeTemporary(parts, signal);
      try {
        if (await this.publish(temporary, path)) return 'created';
        return await this.compare(path, parts, bytes);
      } finally {
        await releaseTemporary(temporary);
      }
    });
  }

  async putUnique(key: string, body: AsyncIterable<Buffer>, bytes: number, signal?: AbortSignal): Promise<void> {
    const path = this.pathOf(key);
    signal?.throwIfAborted();
    if ((await this.size(key)) !== null) throw new Error(`object ${key} exists, its name was to be unique`);
    const temporary = await this.writeTemporary(exactLength(body, bytes, key), signal);
    try {
      if (!(await unavailable(() => this.publish(temporary, path)))) throw new Error(`object ${key} exists, its name was to be unique`);
    } finally {
      await releaseTemporary(temporary);
    }
  }

  async get(key: string, range?: ByteRange, signal?: AbortSignal): Promise<Buffer> {
    const { handle, from, length } = await this.openRange(key, range, signal);
    try {
      const bytes = Buffer.allocUnsafe(length);
      for (let at = 0; at < length; ) {
        signal?.throwIfAborted();
        at += await readSome(handle, key, bytes, at, Math.min(length - at, 16 * READ_BYTES), from + at);
      }
      return bytes;
    } finally {
      await handle.close();
    }
  }

  async *stream(key: string, range?: ByteRange, signal?: AbortSignal): AsyncGenerator<Buffer> {
    const { handle, from, length } = await this.openRange(key, range, signal);
    try {
      for (let at = 0; at < length; ) {
        signal?.throwIfAborted();
        const piece = Buffer.allocUnsafeSlow(Math.min(length - at, READ_BYTES));
        const bytes = await readSome(handle, key, piece, 0, piece.length, from + at);
        at += bytes;
        yield piece.subarray(0, bytes);
      }
    } finally {
      await handle.close();
    }
  }

  async size(key: string, signal?: AbortSignal): Promise<number | null> {
    const path = this.pathOf(key);
    signal?.throwIfAborted();
    return unavailable(() => sizeOf(path));
  }

  async *list(prefix: string, after?: string): AsyncGenerator<ObjectInfoListed> {
    this.alive();
    checkPrefix(prefix);
    yield* listFiles(this.root, prefix, after ?? '');
  }

  async delete(key: string): Promise<void> {
    const path = this.pathOf(key);
    await unavailable(async () => {
      try {
        await unlink(path);
      } catch (error) {
        return ignoreMissing(error);
      }
      await syncFolder(dirname(path));
    });
  }

  async sweepUploads({ olderThanMs }: UploadSweep): Promise<number> {
    this.alive();
    return unavailable(() => removeLeftovers(this.root, olderThanMs));
  }

  async close(): Promise<void> {
    this.closed = true;
  }

  private alive(): void {
    if (this.closed) throw new StoreUnavailable(`${this.describe} is closed`);
  }

  private pathOf(key: string): string {
    this.alive();
    checkKey(key);
    return join(this.root, key);
  }

  /** Writes and syncs a temporary file in the same tree; leaves nothing behind when it throws. */
  private async writeTemporary(body: Iterable<Buffer> | AsyncIterable<Buffer>, signal?: AbortSignal): Promise<string> {
    const path = newTemporary(this.root);
    let handle: FileHandle | undefined;
    try {
      const file = await unavailable(() => open(path, 'wx'));
      handle = file;
      let dirty = 0;
      for await (const part of body) {
        for (let at = 0; at < part.length; ) {
          signal?.throwIfAborted();
          const piece = part.subarray(at, at + DIRTY_BYTES_MAX - dirty);
          await unavailable(() => writeAll(file, piece));
          at += piece.length;
          dirty += piece.length;
          if (dirty < DIRTY_BYTES_MAX) continue;
          await unavailable(() => file.datasync());
          dirty = 0;
        }
      }
      await unavailable(() => file.sync());
      signal?.throwIfAborted();
      await file.close();
      return path;
    } catch (error) {
      await handle?.close().catch(() => undefined);
      await releaseTemporary(path);
      throw error;
    }
  }

  /** Gives a finished file its key; false: the key is taken. The name is on disk when it returns. */
  private async publish(temporary: string, path: string): Promise<boolean> {
    const folder = dirname(path);
    try {
      await this.linkInto(folder, temporary, path);
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      if (codeOf(error) !== 'ENOENT') throw error;
      // Somebody tidied up empty folders.
      this.folders.clear();
      await this.linkInto(folder, temporary, path);
    }
    await syncFolder(folder);
    return true;
  }

  /** What lies under a taken key against what was to be put there. Its creator may have died before the name was on disk, and the answer promises that it stays. */
  private async compare(path: string, parts: readonly Buffer[], bytes: number): Promise<PutOutcome> {
    const same = await holds(path, parts, bytes);
    await makeFolder(dirname(path), this.root);
    await syncFolder(dirname(path));
    return same ? 'exists-ours' : 'exists-theirs';
  }

  private async linkInto(folder: string, temporary: string, path: string): Promise<void> {
    if (!this.folders.has(folder)) {
      await makeFolder(folder, this.root);
      if (this.folders.size >= FOLDERS_MAX) this.folders.clear();
      this.folders.add(folder);
    }
    await link(temporary, path);
  }

  /** Opens an object and proves that the range lies within it. */
  private async openRange(key: string, range: ByteRange | undefined, signal?: AbortSignal): Promise<{ handle: FileHandle; from: number; length: number }> {
    const path = this.pathOf(key);
    checkRange(range);
    signal?.throwIfAborted();
    let handle: FileHandle;
    try {
      handle = await open(path, constants.O_RDONLY);
    } catch (error) {
      if (isMissing(error)) throw new ObjectMissing(key);
      throw new StoreUnavailable(messageOf(error), { cause: error });
    }
    try {
      const stats = await unavailable(() => handle.stat());
      if (!stats.isFile()) throw new ObjectMissing(key);
      const from = range?.from ?? 0;
      const length = range?.length ?? stats.size;
      if (from + length > stats.size) throw new ObjectDamaged(key, `${stats.size} bytes long where ${from + length} were expected`);
      return { handle, from, length };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }
}

/** Both files of a race are synced before `link`, so the winner is whole. */
async function holds(path: string, parts: readonly Buffer[], bytes: number): Promise<boolean> {
  const handle = await open(path, constants.O_RDONLY);
  try {
    if ((await handle.stat()).size !== bytes) return false;
    const piece = Buffer.allocUnsafe(Math.min(Math.max(bytes, 1), READ_BYTES));
    let at = 0;
    for (const part of parts) {
      for (let done = 0; done < part.length; ) {
        const { bytesRead } = await handle.read(piece, 0, Math.min(piece.length, part.length - done), at);
        if (bytesRead === 0 || !piece.subarray(0, bytesRead).equals(part.subarray(done, done + bytesRead))) return false;
        done += bytesRead;
        at += bytesRead;
      }
    }
    return true;
  } finally {
    await handle.close();
  }
}

async function readSome(handle: FileHandle, key: string, into: Buffer, at: number, length: number, position: number): Promise<number> {
  const { bytesRead } = await unavailable(() => handle.read(into, at, length, position));
  if (bytesRead === 0) throw new ObjectDamaged(key, `ends at byte ${position}`);
  return bytesRead;
}

async function writeAll(handle: FileHandle, part: Buffer): Promise<void> {
  for (let at = 0; at < part.length; ) at += (await handle.write(part, at, part.length - at)).bytesWritten;
}

/** Makes a folder and its parents below `top`, and syncs each name into its parent, since another call may have made one just now. */
async function makeFolder(folder: string, top: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (let at = folder; at !== top; at = dirname(at)) await syncFolder(dirname(at));
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function sizeOf(path: string): Promise<number | null> {
  try {
    const stats = await stat(path);
    return stats.isFile() ? stats.size : null;
  } catch (error) {
    ignoreMissing(error);
    return null;
  }
}

/** Errors of the file system become `StoreUnavailable`; all others pass. */
async function unavailable<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (codeOf(error) === null || (error as Error).name === 'AbortError') throw error;
    throw new StoreUnavailable(messageOf(error), { cause: error });
  }
}

function ignoreMissing(error: unknown): void {
  if (!isMissing(error)) throw error;
}

function isMissing(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'ENOENT' || code === 'ENOTDIR';
}

/** Code of an error of the file system, null for any other. */
function codeOf(error: unknown): string | null {
  return error instanceof Error && 'syscall' in error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
