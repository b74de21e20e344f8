/**
 * The native half of the `rocksdb` package, typed.
 *
 * Owns: the only import of that package. The layer of JavaScript that the package puts over it is left out: it copies every operation of a
 * batch and hands entries of an iterator out one a tick (measured: building a batch of 200 puts costs 0.13 ms by array, 0.06 ms by
 * `batch_put`). Nothing here guards against misuse, and misuse is a crash of the process: `rocks-store` alone may call it.
 */
import { createRequire } from 'node:module';

declare const handle: unique symbol;
export type DbHandle = { readonly [handle]: 'db' };
export type IteratorHandle = { readonly [handle]: 'iterator' };
export type BatchHandle = { readonly [handle]: 'batch' };

export interface OpenOptions {
  readonly createIfMissing: boolean;
  readonly compression: boolean;
  /** Bytes. */
  readonly writeBufferSize: number;
  readonly cacheSize: number;
  readonly blockSize: number;
  readonly maxOpenFiles: number;
}

export interface IteratorOptions {
  readonly gte?: Buffer;
  readonly lt?: Buffer;
  readonly reverse: boolean;
  /** -1: no limit. */
  readonly limit: number;
  readonly values: boolean;
  readonly highWaterMark: number;
  /** Never true: an iterator does not prove checksums, and a block it left in the cache would pass for a proven one. */
  readonly fillCache: false;
}

export interface Binding {
  db_init(): DbHandle;
  db_open(db: DbHandle, dir: string, options: OpenOptions, done: (error: Error | null) => void): void;
  /** Only without running work and open iterators. */
  db_close(db: DbHandle, done: (error: Error | null) => void): void;
  db_get(db: DbHandle, key: Buffer, options: object, done: (error: Error | null, value?: Buffer) => void): void;
  /** Skips empty keys: there must be none. */
  db_get_many(db: DbHandle, keys: readonly Buffer[], options: object, done: (error: Error | null, values?: (Buffer | undefined)[]) => void): void;
  iterator_init(db: DbHandle, options: IteratorOptions): IteratorHandle;
  /** Entries last to first, each as value, key. The first call gives one entry, later ones to `highWaterMark` bytes or 1,000 entries. */
  iterator_next(iterator: IteratorHandle, done: (error: Error | null, entries?: Buffer[], finished?: boolean) => void): void;
  /** Once, and not while `iterator_next` runs. */
  iterator_end(iterator: IteratorHandle, done: (error: Error | null) => void): void;
  batch_init(db: DbHandle): BatchHandle;
  /** Copies key and value. */
  batch_put(batch: BatchHandle, key: Buffer, value: Buffer): void;
  batch_del(batch: BatchHandle, key: Buffer): void;
  /** Empties it; not while it is being written. Its memory stays. */
  batch_clear(batch: BatchHandle): void;
  batch_write(batch: BatchHandle, options: { readonly sync: boolean }, done: (error: Error | null) => void): void;
}

const USED = ['db_init', 'db_open', 'db_close', 'db_get', 'db_get_many', 'iterator_init', 'iterator_next', 'iterator_end', 'batch_init', 'batch_put', 'batch_del', 'batch_clear', 'batch_write'] as const satisfies readonly (keyof Binding)[];

function load(): Binding {
  const module: Partial<Binding> = createRequire(import.meta.url)('rocksdb/binding.js');
  for (const name of USED) {
    if (typeof module[name] !== 'function') throw new Error(`the rocksdb package has no ${name}: versions 5.2.x are supported`);
  }
  return module as Binding;
}

export const binding: Binding = load();
