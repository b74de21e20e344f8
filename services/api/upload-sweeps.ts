/**
 * Regular removal of unfinished uploads that killed processes left in the object store (R041).
 *
 * Owns: when they are looked for, and which of them go: bodies of data objects that were begun long ago. An unfinished upload never was an object, so nothing can
 * refer to one (I8), and no plan has to be asked. Promises: what the store refuses, such as the permission to list uploads, is said and changes nothing else.
 */
import type { Logger } from '../../shared/observability/index.js';
import type { ObjectStore } from '../../shared/storage/object-store.js';
import { parseObjectKey } from '../../shared/storage/records/object-id.js';

/** After the start, and between two looks, ms. */
const FIRST_MS = 60_000;
const SWEEP_MS = 21_600_000;
/** An upload that began so long ago is nobody's any more, ms: the largest snapshot over the slowest line that still counts as working takes an hour and a half. */
const UPLOAD_GRACE_MS = 86_400_000;

export interface UploadSweepsOptions {
  readonly objects: ObjectStore;
  readonly logger: Logger;
  /** For tests: shorter times, ms. */
  readonly firstMs?: number;
  readonly graceMs?: number;
}

export class UploadSweeps {
  readonly #options: UploadSweepsOptions;
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();

  constructor(options: UploadSweepsOptions) {
    this.#options = options;
    this.#timer = this.#after(options.firstMs ?? FIRST_MS);
  }

  /** Resolves when nothing is under way any more. */
  async end(): Promise<void> {
    clearTimeout(this.#timer);
    this.#stop.abort(new Error('the node is stopping'));
    await this.#running;
  }

  #after(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      this.#timer = this.#after(SWEEP_MS);
      this.#running = this.#sweep().then(() => undefined);
    }, ms).unref();
  }

  /** Looks now, on top of the regular looks: how many were removed, 0 when the store refused. */
  now(): Promise<number> {
    const sweep = this.#sweep();
    this.#running = Promise.all([this.#running, sweep]).then(() => undefined);
    return sweep;
  }

  async #sweep(): Promise<number> {
    const { objects, logger, graceMs: olderThanMs = UPLOAD_GRACE_MS } = this.#options;
    try {
      const count = await objects.sweepUploads({ isOwn: (key) => parseObjectKey(key) !== null, olderThanMs, signal: this.#stop.signal });
      if (count > 0) logger.info({ event: 'uploads-swept', count }, 'unfinished uploads of killed processes were removed from the object store');
      return count;
    } catch (error) {
      if (!this.#stop.signal.aborted) logger.warn({ err: error, event: 'uploads-not-swept' }, 'unfinished uploads in the object store could not be looked for');
      return 0;
    }
  }
}
