/**
 * Decompressed frames of data objects in memory, and the one way by which they are fetched (design section 6, R115).
 *
 * Owns: the cache, and the fetches under way. Promises: at most `bytesMax` of raw bytes are kept (I11); a frame is fetched once however many
 * wait for it; neighbours are fetched by one GET; a fetch that nobody waits for any more is cancelled; a failure is never kept.
 */
import { readFrame } from '../../../shared/storage/frame.js';
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import type { BlockRef } from '../../../shared/storage/records/types.js';
import { JoinedSignal } from '../../../shared/time/joined-signal.js';
import type { ColdMetrics } from './cold-metrics.js';
import { FRAME_CACHE_BYTES_MAX, GET_DEADLINE_MS } from './limits.js';

export type FrameOf = Pick<BlockRef, 'object' | 'frameAt' | 'frameBytes' | 'frameCrc'>;

/** One GET for a row of neighbouring frames. */
interface Fetch {
  readonly frames: Promise<readonly Buffer[]>;
  waiting: number;
  /** Gives the fetch up: who comes now starts another. */
  readonly giveUp: () => void;
}

interface Pending {
  readonly fetch: Fetch;
  /** Which frame of the fetch. */
  readonly index: number;
}

export interface FrameCacheOptions {
  readonly store: ObjectStore;
  readonly metrics: ColdMetrics;
  readonly bytesMax?: number;
  /** Longest wait for one GET, ms. */
  readonly deadlineMs?: number;
}

export class FrameCache {
  readonly #options: FrameCacheOptions;
  readonly #bytesMax: number;
  /** In order of last use. */
  readonly #frames = new Map<string, Buffer>();
  readonly #pending = new Map<string, Pending>();
  #bytes = 0;

  constructor(options: FrameCacheOptions) {
    this.#options = options;
    this.#bytesMax = options.bytesMax ?? FRAME_CACHE_BYTES_MAX;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Raw bytes of frames that lie one behind the other in one object, in order. Throws `ObjectMissing`, `ObjectDamaged`, `BadBytes`, `StoreUnavailable`, and the
   * signal's reason when it fires first.
   */
  async get(frames: readonly FrameOf[], signal?: AbortSignal): Promise<Buffer[]> {
    signal?.throwIfAborted();
    const found: (Buffer | Pending)[] = [];
    let run: FrameOf[] = [];
    const flush = (): void => {
      if (run.length === 0) return;
      const fetch = this.#start(run);
      for (const index of run.keys()) found.push({ fetch, index });
      run = [];
    };
    for (const frame of frames) {
      const name = nameOf(frame);
      const there = this.#touch(name) ?? this.#pending.get(name);
      this.#options.metrics.frame(Buffer.isBuffer(there) ? 'hit' : 'miss');
      if (there === undefined) {
        run.push(frame);
        continue;
      }
      flush();
      found.push(there);
    }
    flush();
    return this.#await(found, signal);
  }

  #touch(name: string): Buffer | undefined {
    const frame = this.#frames.get(name);
    if (frame === undefined) return undefined;
    this.#frames.delete(name);
    this.#frames.set(name, frame);
    return frame;
  }

  #start(frames: readonly FrameOf[]): Fetch {
    const until = new JoinedSignal([], this.#options.deadlineMs ?? GET_DEADLINE_MS);
    const loading = this.#load(frames, until.signal);
    const forget = (): void => {
      until.release();
      for (const frame of frames) if (this.#pending.get(nameOf(frame))?.fetch === fetch) this.#pending.delete(nameOf(frame));
    };
    const giveUp = (): void => {
      forget();
      until.abort(new Error('nobody waits for this fetch'));
    };
    const fetch: Fetch = { frames: loading, waiting: 0, giveUp };
    for (const [index, frame] of frames.entries()) this.#pending.set(nameOf(frame), { fetch, index });
    loading.then((raws) => {
      forget();
      for (const [index, frame] of frames.entries()) this.#keep(nameOf(frame), raws[index] as Buffer);
    }, forget);
    return fetch;
  }

  async #load(frames: readonly FrameOf[], signal: AbortSignal): Promise<readonly Buffer[]> {
    const first = frames[0] as FrameOf;
    const length = frames.reduce((sum, frame) => sum + frame.frameBytes, 0);
    // A store that does not look at the signal must not make readers wait longer.
    const stored = await abortable(this.#options.store.get(objectKey(first.object), { from: first.frameAt, length }, signal), signal);
    return Promise.all(frames.map((frame) => {
      const at = frame.frameAt - first.frameAt;
      return readFrame(stored.subarray(at, at + frame.frameBytes), frame);
    }));
  }

  #keep(name: string, raw: Buffer): void {
    if (raw.length > this.#bytesMax) return;
    const before = this.#frames.get(name);
    if (before !== undefined) this.#bytes -= before.length;
    this.#frames.delete(name);
    this.#frames.set(name, raw);
    this.#bytes += raw.length;
    for (const [oldest, frame] of this.#frames) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#frames.delete(oldest);
      this.#bytes -= frame.length;
    }
  }

  async #await(found: readonly (Buffer | Pending)[], signal?: AbortSignal): Promise<Buffer[]> {
    const fetches = new Set<Fetch>();
    for (const one of found) if (!Buffer.isBuffer(one)) fetches.add(one.fetch);
    for (const fetch of fetches) fetch.waiting++;
    try {
      return await abortable(Promise.all(found.map(async (one) => (Buffer.isBuffer(one) ? one : ((await one.fetch.frames)[one.index] as Buffer)))), signal);
    } finally {
      for (const fetch of fetches) if (--fetch.waiting === 0) fetch.giveUp();
    }
  }
}

function nameOf(frame: FrameOf): string {
  return `${objectKey(frame.object)}@${frame.frameAt}`;
}

/** The result of `work`, or the signal's reason as soon as it fires. */
function abortable<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
