/**
 * Bodies of large snapshots before they are offloaded, and parts of snapshots before they are committed: synced files in `staging/`.
 *
 * Owns: their names, and what is needed for their clean-up after a crash (R103). A file counts only once a durable stream record, or the row of a part, names it; one that
 * nothing names is a leftover and goes at the next start.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rm, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { Incarnation, Offset, StreamKey } from '../../../shared/protocol/types.js';

const BODY_SUFFIX = '.snapshot';
const PART_SUFFIX = '.part';

export class StagingFile {
  constructor(
    readonly name: string,
    readonly path: string,
    readonly handle: FileHandle,
  ) {}
}

export class StagingFiles {
  readonly #dir: string;

  private constructor(dir: string) {
    this.#dir = dir;
  }

  static async open(dir: string): Promise<StagingFiles> {
    await mkdir(dir, { recursive: true });
    return new StagingFiles(dir);
  }

  /** A new file for a body that is being received. */
  create(key: StreamKey, incarnation: Incarnation, offset: Offset): Promise<StagingFile> {
    return this.#create(`${Buffer.from(key).toString('base64url')}.${incarnation}.${offset}.${randomBytes(8).toString('hex')}${BODY_SUFFIX}`);
  }

  /** A new file for a part that is being received. */
  createPart(key: StreamKey, id: string): Promise<StagingFile> {
    return this.#create(this.partName(key, id));
  }

  /** `id` ends with `.part`. */
  partName(key: StreamKey, id: string): string {
    return `${Buffer.from(key).toString('base64url')}.${id}`;
  }

  async #create(name: string): Promise<StagingFile> {
    const path = this.path(name);
    return new StagingFile(name, path, await open(path, 'wx'));
  }

  /** Makes the file durable, its name too, and closes it. */
  async seal(file: StagingFile): Promise<void> {
    await file.handle.sync();
    await file.handle.close();
    const dir = await open(this.#dir, 'r');
    try {
      await dir.sync();
    } finally {
      await dir.close();
    }
  }

  async discard(file: StagingFile): Promise<void> {
    await file.handle.close().catch(() => undefined);
    await this.remove(file.name);
  }

  /** Idempotent. Open readers keep their bytes. */
  async remove(name: string): Promise<void> {
    await rm(this.path(name), { force: true });
  }

  read(name: string, from: number, length: number, signal?: AbortSignal): AsyncIterable<Buffer> {
    return createReadStream(this.path(name), { start: from, end: from + length - 1, highWaterMark: 256 * 1024, ...(signal === undefined ? {} : { signal }) });
  }

  /** Length of a file, null when it is not there. */
  async bytes(name: string): Promise<number | null> {
    try {
      return (await stat(this.path(name))).size;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
  }

  path(name: string): string {
    if (name.includes('/') || !(name.endsWith(BODY_SUFFIX) || name.endsWith(PART_SUFFIX))) throw new Error(`not a staging file: ${name}`);
    return join(this.#dir, name);
  }

  /** Files of ours with what their names hold. `part`: id of the part, null for the body of a snapshot. */
  async *list(): AsyncGenerator<{ readonly name: string; readonly key: StreamKey; readonly part: string | null }> {
    for (const name of await readdir(this.#dir)) {
      const encoded = name.split('.', 1)[0]!;
      const key = Buffer.from(encoded, 'base64url').toString() as StreamKey;
      if (name.endsWith(BODY_SUFFIX)) yield { name, key, part: null };
      else if (name.endsWith(PART_SUFFIX)) yield { name, key, part: name.slice(encoded.length + 1) };
    }
  }
}
