/**
 * The seam to the embedded key-value store that holds the hot tier.
 *
 * Owns: the interface. `rocks-store` implements it; every implementation passes `store.contract.ts`.
 * Keys order bytewise. `batch` is atomic: all or none, also over a crash.
 */

import type { Offset } from '../../../shared/protocol/types.js';

export type HotOp =
  | { readonly type: 'put'; readonly key: Buffer; readonly value: Buffer }
  | { readonly type: 'del'; readonly key: Buffer };

export interface ScanRange {
  /** Inclusive lower and exclusive upper bound. */
  readonly from: Buffer;
  readonly to: Buffer;
  readonly reverse?: boolean;
  /** Most entries to return over the whole scan. */
  readonly limit?: number;
  /** false: values come back empty, only keys are read. */
  readonly values?: boolean;
  /** For data rows of one stream: the caller needs no bytes from this offset on, so later ones need not lie in rows. */
  readonly through?: Offset;
  /** Bytes fetched at a time, 1 MiB by default: a page ends with the entry that exceeds them. The first page is one entry. */
  readonly pageBytes?: number;
}

export interface HotEntry {
  readonly key: Buffer;
  readonly value: Buffer;
}

/** Reading alone: all that most of the node may do with rows. */
export interface HotReads {
  get(key: Buffer): Promise<Buffer | undefined>;
  getMany(keys: readonly Buffer[]): Promise<(Buffer | undefined)[]>;
  /**
   * Pages of entries from one consistent view, that of the first pull. The loop must end or break: only then is the view given up.
   * Throws `StoreClosed` when the store closes meanwhile, `HotStoreBusy` when too many scans wait.
   */
  scan(range: ScanRange): AsyncIterable<readonly HotEntry[]>;
}

export interface HotStore extends HotReads {
  /** Applies all operations atomically; `sync`: on disk before it resolves. */
  batch(ops: readonly HotOp[], sync: boolean): Promise<void>;
  /** Waits for running reads, then closes. Idempotent. */
  close(): Promise<void>;
}

/** The store was closed under a running read: reopen, and resume at the own position. */
export class StoreClosed extends Error {
  constructor() {
    super('the hot store was closed');
    this.name = 'StoreClosed';
  }
}
