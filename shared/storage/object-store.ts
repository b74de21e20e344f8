/**
 * The seam to the cold tier: a flat map from key to immutable object with one primitive, create-if-absent.
 *
 * Owns: the interface. `fs-store` implements it on a directory, an S3 store on any S3 server. Every implementation passes
 * `object-store.contract.ts`. Promises (I4, I10): a key that exists never changes its bytes; an object is there whole or not at all.
 */

/**
 * What a create-once PUT came to: `created`; `exists-ours` (an earlier try of the very same bytes landed and its answer was lost);
 * `exists-theirs` (other bytes lie there). A conflict that settles nothing is retried inside until the deadline, then thrown.
 */
export type PutOutcome = 'created' | 'exists-ours' | 'exists-theirs';

export interface ObjectInfoListed {
  readonly key: string;
  readonly bytes: number;
}

export interface ObjectStore {
  /** A sentence for logs and reports: kind and place, no secrets. */
  readonly describe: string;
  /** Creates `key` with `body` if nothing is there; durable when it returns. At most 64 MiB. */
  putOnce(key: string, body: Buffer | readonly Buffer[], signal?: AbortSignal): Promise<PutOutcome>;
  /** Writes a body of known length from a stream under a name that is never used twice (large snapshots); durable when it returns. */
  putUnique(key: string, body: AsyncIterable<Buffer>, bytes: number, signal?: AbortSignal): Promise<void>;
  /** Bytes [from, from+length) or, without a range, the whole object. Missing: `ObjectMissing`; short or cut: `ObjectDamaged`. */
  get(key: string, range?: ByteRange, signal?: AbortSignal): Promise<Buffer>;
  /** The same as a stream, with back-pressure: for large snapshots. */
  stream(key: string, range?: ByteRange, signal?: AbortSignal): AsyncIterable<Buffer>;
  /** Size in bytes, null when missing. */
  size(key: string, signal?: AbortSignal): Promise<number | null>;
  /** Keys under a prefix in rising byte order, from after `after`. */
  list(prefix: string, after?: string): AsyncIterable<ObjectInfoListed>;
  /** Idempotent. */
  delete(key: string): Promise<void>;
  /** Removes unfinished bodies that killed processes left. None of them ever was an object, and nothing can name one. Answers how many. */
  sweepUploads(sweep: UploadSweep): Promise<number>;
  close(): Promise<void>;
}

/** The object is not there. Never a 404 to a client (I9). */
export class ObjectMissing extends Error {
  constructor(readonly key: string) {
    super(`object ${key} is missing`);
    this.name = 'ObjectMissing';
  }
}

/** Bytes that fail a length or checksum check. Never served (I9). */
export class ObjectDamaged extends Error {
  constructor(readonly key: string, readonly why: string) {
    super(`object ${key} is damaged: ${why}`);
    this.name = 'ObjectDamaged';
  }
}

/** The store did not answer in time or refused: try later. */
export class StoreUnavailable extends Error {
  constructor(readonly why: string, options?: ErrorOptions) {
    super(`object store unavailable: ${why}`, options);
    this.name = 'StoreUnavailable';
  }
}

/**
 * The store refuses: credentials, permission, the bucket. It ends when somebody changes a setting there or here, and tells nothing about any object, so everything
 * that waits for a store that is away waits for this too.
 */
export class StoreRefused extends StoreUnavailable {
  constructor(why: string) {
    super(why);
    this.name = 'StoreRefused';
  }
}

/** Which unfinished bodies of `putUnique` go. */
export interface UploadSweep {
  /** Only keys for which this holds: others may be somebody else's. Unfinished files in a directory have no key. */
  readonly isOwn: (key: string) => boolean;
  /** Begun at least so long ago, ms: longer than any upload that is alive. What belongs to a process that is known to be gone may go sooner. */
  readonly olderThanMs: number;
  readonly signal?: AbortSignal;
}

export interface ByteRange {
  readonly from: number;
  readonly length: number;
}
