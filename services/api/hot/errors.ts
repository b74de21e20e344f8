/**
 * What can go wrong in the hot store, as types: callers never look at message texts.
 *
 * Owns: the errors of this folder and the reading of the binding's error texts, which are all that RocksDB's binding gives.
 * Promises: damage has a type of its own (I9) and is never confused with absence, a full queue or a closed store.
 */
import type { Incarnation, Offset } from '../../../shared/protocol/types.js';

/** Any failure of the embedded store: I/O, no space, an operation it refuses. */
export class HotStoreError extends Error {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'HotStoreError';
  }
}

/** Another process (or another open store of this one) holds the directory. Nothing was touched (R095). */
export class HotStoreLocked extends HotStoreError {
  constructor(readonly dir: string, options?: { readonly cause?: unknown }) {
    super(`the hot store ${dir} is in use by another process`, options);
    this.name = 'HotStoreLocked';
  }
}

/** Stored bytes are damaged or a file is missing: what was asked for is neither there nor absent (I9). */
export class HotStoreCorrupt extends HotStoreError {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'HotStoreCorrupt';
  }
}

/** Too many reads wait for a thread already (I11). */
export class HotStoreBusy extends HotStoreError {
  constructor() {
    super('too many reads wait for the hot store');
    this.name = 'HotStoreBusy';
  }
}

/** A batch failed before: nothing is written until the store was opened again. */
export class HotStorePoisoned extends HotStoreError {
  constructor(first: Error) {
    super(`the hot store takes no writes since a batch failed: ${first.message}`, { cause: first });
    this.name = 'HotStorePoisoned';
  }
}

/** The directory holds a format that this program does not know. */
export class HotStoreFormat extends HotStoreError {
  constructor(message: string) {
    super(message);
    this.name = 'HotStoreFormat';
  }
}

/** No hot copy is there. It may have been evicted meanwhile: the stream's state says where the bytes are now. */
export class HotGap extends Error {
  constructor(readonly incarnation: Incarnation, readonly at: Offset) {
    super(`no hot copy of ${incarnation} at ${at}`);
    this.name = 'HotGap';
  }
}

/** A hot copy is there and its bytes are wrong (I9): unlike `HotGap`, looking again does not help. */
export class HotDamaged extends Error {
  constructor(readonly incarnation: Incarnation, readonly at: Offset, detail: string, options?: { readonly cause?: unknown }) {
    super(`the hot copy of ${incarnation} at ${at} is damaged: ${detail}`, options);
    this.name = 'HotDamaged';
  }
}

/** Gives an error of the binding its type. RocksDB prefixes its messages with the kind of the status. */
export function storeError(error: unknown, dir: string): HotStoreError {
  if (error instanceof HotStoreError) return error;
  const text = error instanceof Error ? error.message : String(error);
  const options = { cause: error };
  if (/^IO error: (While lock file|lock hold|lock )/i.test(text)) return new HotStoreLocked(dir, options);
  if (text.startsWith('Corruption') || /No such file or directory.*(\.sst|\.log|MANIFEST)/s.test(text)) return new HotStoreCorrupt(`the hot store is damaged: ${text}`, options);
  return new HotStoreError(`the hot store failed: ${text}`, options);
}

/** The binding reports an absent key as an error. */
export function isNotFound(error: Error): boolean {
  return error.message.startsWith('NotFound');
}
