/**
 * Decompressed frames of data objects in memory, and the one way by which they are fetched: from the cache on disk where there is one and it holds them, else from the object store
 * (architecture section 6, R115).
 *
 * Owns: the cache, and which fetch brings which frame. Promises: at most `bytesMax` of raw bytes are kept (I11); a frame is fetched once however many
 * wait for it; neighbours are fetched by one GET; a fetch that nobody waits for any more is cancelled; a failure is never kept.
 */
import type { ObjectStore } from '../../../shared/storage/object-store.js';
import { objectKey } from '../../../shared/storage/records/object-id.js';
import { DeadlinePassed, withSignal } from '../../../shared/time/joined-signal.js';
import type { ColdMetrics } from './cold-metrics.js';
import type { FrameDisk } from './frame-disk.js';
import { FrameFetch, type AheadCount, type FrameOf } from './frame-fetch.js';
import { FrameMemory } from './frame-memory.js';
import { FRAME_CACHE_BYTES_MAX, GET_DEADLINE_MS, SLOW_GET_FRAMES } from './limits.js';

export type { FrameOf } from './frame-fetch.js';

interface Pending {
  readonly fetch: FrameFetch;
  /** Which frame of the fetch. */
  readonly index: number;
}

export interface FrameCacheOptions {
  readonly store: ObjectStore;
  readonly metrics: ColdMetrics;
  /** What memory does not hold is looked for here before the store is asked. */
  readonly disk?: FrameDisk | null;
  readonly bytesMax?: number;
  /** Longest wait for one frame, ms. */
  readonly deadlineMs?: number;
}

export class FrameCache {
  readonly #options: FrameCacheOptions;
  readonly #kept: FrameMemory;
  readonly #pending = new Map<string, Pending>();
  readonly #ahead: AheadCount = { frames: 0 };

  constructor(options: FrameCacheOptions) {
    this.#options = options;
    this.#kept = new FrameMemory(options.bytesMax ?? FRAME_CACHE_BYTES_MAX, () => options.metrics.frameEvicted('memory'));
  }

  get bytes(): number {
    return this.#kept.bytes;
  }

  /**
   * Raw bytes of frames that lie one behind the other in one object, one after the other; those behind the one that is asked for are already on their way. Throws `ObjectMissing`, `ObjectDamaged`,
   * `BadBytes`, `StoreUnavailable`, `DeadlinePassed`, and the signal's reason when it fires first.
   */
  async *read(frames: readonly FrameOf[], signal?: AbortSignal): AsyncGenerator<Buffer, void> {
    const joined = new Set<FrameFetch>();
    try {
      for (const [index, frame] of frames.entries()) yield await this.#one(frame, frames, index, joined, signal);
    } finally {
      for (const fetch of joined) fetch.leave();
    }
  }

  async #one(frame: FrameOf, frames: readonly FrameOf[], index: number, joined: Set<FrameFetch>, signal: AbortSignal | undefined): Promise<Buffer> {
    signal?.throwIfAborted();
    const name = nameOf(frame);
    const cached = this.#pending.has(name) ? undefined : this.#kept.get(name);
    this.#options.metrics.frame(cached === undefined ? 'miss' : 'hit');
    if (cached !== undefined) return cached;
    // A reader who did not keep up would let a long GET wait again.
    const most = [...joined].some((fetch) => fetch.rested) ? SLOW_GET_FRAMES : frames.length;
    const pending = this.#pending.get(name) ?? this.#start(this.#missing(frames.slice(index, index + most)));
    if (!joined.has(pending.fetch)) {
      joined.add(pending.fetch);
      pending.fetch.join();
    }
    try {
      return await withSignal([signal], this.#options.deadlineMs ?? GET_DEADLINE_MS, (until) => abortable(pending.fetch.take(pending.index), until));
    } catch (error) {
      // A store that does not look at its signal must not make others wait as long.
      if (error instanceof DeadlinePassed) pending.fetch.giveUp(error);
      throw error;
    }
  }

  /** The first frame, which is missing, and those behind it that are missing as well and come from the same place. */
  #missing(frames: readonly FrameOf[]): readonly FrameOf[] {
    const onDisk = this.#isOnDisk(frames[0] as FrameOf);
    const end = frames.findIndex((frame, index) => index > 0 && (this.#kept.has(nameOf(frame)) || this.#pending.has(nameOf(frame)) || this.#isOnDisk(frame) !== onDisk));
    return end < 0 ? frames : frames.slice(0, end);
  }

  #isOnDisk(frame: FrameOf): boolean {
    return this.#options.disk?.has(frame) ?? false;
  }

  /** Fetches frames; answers the first. */
  #start(frames: readonly FrameOf[]): Pending {
    const names = frames.map(nameOf);
    const fetch: FrameFetch = new FrameFetch(frames, {
      ahead: this.#ahead,
      open: (signal) => this.#stored(frames, signal),
      onFrame: (index, raw, stored) => {
        this.#kept.put(names[index] as string, raw);
        this.#options.disk?.put(frames[index] as FrameOf, stored);
      },
      onGone: (index) => {
        const name = names[index] as string;
        if (this.#pending.get(name)?.fetch === fetch) this.#pending.delete(name);
      },
    });
    for (const [index, name] of names.entries()) this.#pending.set(name, { fetch, index });
    void fetch.run();
    return { fetch, index: 0 };
  }

  /** Stored bytes of a row of frames: from disk as far as they are there and whole, the rest by one GET. */
  async *#stored(frames: readonly FrameOf[], signal: AbortSignal): AsyncGenerator<Buffer, void> {
    const { disk, store } = this.#options;
    let rest = frames;
    for (; rest.length > 0 && this.#isOnDisk(rest[0] as FrameOf); rest = rest.slice(1)) {
      const stored = await disk?.read(rest[0] as FrameOf);
      signal.throwIfAborted();
      if (!stored) break;
      yield stored;
    }
    const [first] = rest;
    if (first === undefined) return;
    yield* store.stream(objectKey(first.object), { from: first.frameAt, length: rest.reduce((sum, frame) => sum + frame.frameBytes, 0) }, signal);
  }
}

function nameOf(frame: FrameOf): string {
  return `${objectKey(frame.object)}@${frame.frameAt}`;
}

/** The result of `work`, or the signal's reason as soon as it fires. */
function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
