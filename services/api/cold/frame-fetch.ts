/**
 * One GET for a row of neighbouring frames of one object, shared by everybody who wants some of them.
 *
 * Owns: the frames that have come and were not asked for yet. Promises: a frame is there as soon as its own bytes are, checked; at most `FRAMES_AHEAD` have come that nobody has
 * asked for (I11); when nobody asks for the next one within `REST_MS`, or nobody is there for so long, the GET ends: a reader who rests holds neither a connection nor frames, and one who
 * comes for the next window of a stream finds it under way.
 */
import { readFrame } from '../../../shared/storage/frame.js';
import type { BlockRef } from '../../../shared/storage/records/types.js';
import { FRAMES_AHEAD, FRAMES_AHEAD_ALL, FRAMES_AHEAD_MIN, REST_MS } from './limits.js';

export type FrameOf = Pick<BlockRef, 'object' | 'frameAt' | 'frameBytes' | 'frameCrc'>;

/** Frames of all fetches that have come and were not asked for. */
export interface AheadCount {
  frames: number;
}

export interface FetchHooks {
  readonly ahead: AheadCount;
  /** The stored bytes of the whole row. */
  readonly open: (signal: AbortSignal) => AsyncIterable<Buffer>;
  /** Raw bytes of a frame are there, and the stored ones that they come from. */
  readonly onFrame: (index: number, raw: Buffer, stored: Buffer) => void;
  /** Who wants this frame from now on does not find it here. */
  readonly onGone: (index: number) => void;
}

/** A frame that somebody waits for, or that waits for somebody. */
interface Slot {
  readonly raw: Promise<Buffer>;
  readonly resolve: (raw: Promise<Buffer>) => void;
  readonly reject: (error: unknown) => void;
  settled: boolean;
}

export class FrameFetch {
  /** The GET ended because nobody asked for more. */
  rested = false;
  readonly #frames: readonly FrameOf[];
  readonly #hooks: FetchHooks;
  readonly #slots = new Map<number, Slot>();
  readonly #end = new AbortController();
  /** Frames before this one have come. */
  #come = 0;
  /** Frames before this one have been asked for. */
  #asked = 0;
  #readers = 0;
  #lonely: NodeJS.Timeout | null = null;
  #wake: (() => void) | null = null;

  constructor(frames: readonly FrameOf[], hooks: FetchHooks) {
    this.#frames = frames;
    this.#hooks = hooks;
  }

  async run(): Promise<void> {
    let index = 0;
    try {
      for await (const stored of cut(this.#hooks.open(this.#end.signal), this.#frames)) {
        if (this.#end.signal.aborted) return;
        this.#slot(index).resolve(this.#unpacked(index, stored));
        this.#move(++index, this.#asked);
        if (await this.#isWanted()) continue;
        this.rested = true;
        this.#forget(this.#asked, new Error('the fetch rests'));
        return;
      }
    } catch (error) {
      this.#forget(this.#come, error);
    }
  }

  /** Raw bytes of a frame that is not gone. Throws `ObjectMissing`, `ObjectDamaged`, `BadBytes`, `StoreUnavailable`. */
  take(index: number): Promise<Buffer> {
    this.#move(this.#come, Math.max(this.#asked, index + 1));
    this.#wake?.();
    const slot = this.#slot(index);
    if (slot.settled) this.#gone(index);
    return slot.raw;
  }

  join(): void {
    this.#readers++;
    if (this.#lonely !== null) clearTimeout(this.#lonely);
  }

  leave(): void {
    if (--this.#readers > 0) return;
    this.#lonely = setTimeout(() => this.giveUp(new Error('nobody waits for this fetch')), REST_MS).unref();
  }

  /** Ends the GET now: who comes later starts another. */
  giveUp(why: Error): void {
    this.#forget(0, why);
    this.#end.abort(why);
  }

  #slot(index: number): Slot {
    const there = this.#slots.get(index);
    if (there !== undefined) return there;
    let resolve: Slot['resolve'] = () => undefined;
    let reject: Slot['reject'] = () => undefined;
    const raw = new Promise<Buffer>((...how) => ([resolve, reject] = how));
    const slot: Slot = { raw, resolve, reject, settled: false };
    this.#slots.set(index, slot);
    const settle = (): void => {
      slot.settled = true;
      if (index < this.#asked) this.#gone(index);
    };
    raw.then(settle, settle);
    return slot;
  }

  async #unpacked(index: number, stored: Buffer): Promise<Buffer> {
    const raw = await readFrame(stored, this.#frames[index] as FrameOf);
    this.#hooks.onFrame(index, raw, stored);
    return raw;
  }

  #move(come: number, asked: number): void {
    const before = this.#ahead;
    this.#come = come;
    this.#asked = asked;
    this.#hooks.ahead.frames += this.#ahead - before;
  }

  /** Frames that have come and were not asked for. */
  get #ahead(): number {
    return Math.max(0, this.#come - this.#asked);
  }

  #gone(index: number): void {
    this.#slots.delete(index);
    this.#hooks.onGone(index);
  }

  /** Nobody gets these frames here any more; whoever waits for one gets the error. */
  #forget(from: number, why: unknown): void {
    this.#move(Math.min(this.#come, Math.max(from, this.#asked)), this.#asked);
    for (let index = from; index < this.#frames.length; index++) {
      this.#slots.get(index)?.reject(why);
      this.#gone(index);
    }
  }

  /** Waits while enough has come that nobody asked for; false: nobody does. */
  async #isWanted(): Promise<boolean> {
    while (this.#come < this.#frames.length && this.#ahead >= (this.#hooks.ahead.frames < FRAMES_AHEAD_ALL ? FRAMES_AHEAD : FRAMES_AHEAD_MIN)) {
      const woken = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), REST_MS);
        timer.unref();
        this.#wake = () => {
          clearTimeout(timer);
          resolve(true);
        };
      });
      this.#wake = null;
      if (!woken) return false;
    }
    return true;
  }
}

/** Cuts the bytes of a row into its frames, each in memory of its own: what is held of one holds nothing of another. */
async function* cut(pieces: AsyncIterable<Buffer>, frames: readonly FrameOf[]): AsyncGenerator<Buffer> {
  let next = 0;
  let stored: Buffer | null = null;
  let filled = 0;
  for await (const piece of pieces) {
    for (let at = 0; at < piece.length && next < frames.length; ) {
      stored ??= Buffer.allocUnsafeSlow((frames[next] as FrameOf).frameBytes);
      const bytes = piece.copy(stored, filled, at);
      at += bytes;
      filled += bytes;
      if (filled < stored.length) break;
      const whole = stored;
      stored = null;
      filled = 0;
      next++;
      yield whole;
    }
  }
  if (next !== frames.length) throw new Error(`the store ended a range with ${frames.length - next} frames missing`);
}
