/**
 * Frames kept in one block of memory, the newest ones.
 *
 * Owns: the block, which is made at the first frame. Promises: at most `bytesMax` are held (I11), and nothing that V8 has to look after one by one: frames kept as buffers of their own
 * outlive the young generation, and moving and marking them took a third of the processor time of a cold read. A frame is copied in, and copied out, since what is given away may still
 * wait for a socket when its place is taken by another.
 */

interface Place {
  readonly at: number;
  readonly length: number;
}

export class FrameMemory {
  readonly #bytesMax: number;
  #block: Buffer | null = null;
  /** From the oldest to the newest: places follow each other around the block. */
  readonly #places = new Map<string, Place>();
  #next = 0;
  #bytes = 0;

  constructor(bytesMax: number, private readonly onEvicted: () => void = () => undefined) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  has(name: string): boolean {
    return this.#places.has(name);
  }

  get(name: string): Buffer | undefined {
    const place = this.#places.get(name);
    if (place === undefined || this.#block === null) return undefined;
    return Buffer.from(this.#block.subarray(place.at, place.at + place.length));
  }

  /** Keeps a copy, and drops the oldest frames for it. */
  put(name: string, raw: Buffer): void {
    if (raw.length > this.#bytesMax || this.#places.has(name)) return;
    this.#block ??= Buffer.allocUnsafeSlow(this.#bytesMax);
    if (this.#next + raw.length > this.#bytesMax) {
      this.#drop(this.#next, this.#bytesMax);
      this.#next = 0;
    }
    this.#drop(this.#next, this.#next + raw.length);
    raw.copy(this.#block, this.#next);
    this.#places.set(name, { at: this.#next, length: raw.length });
    this.#next += raw.length;
    this.#bytes += raw.length;
  }

  /** Drops what lies in [from, to): the oldest frames lie right behind the newest. */
  #drop(from: number, to: number): void {
    for (const [name, { at, length }] of this.#places) {
      if (at < from || at >= to) return;
      this.#places.delete(name);
      this.#bytes -= length;
      this.onEvicted();
    }
  }
}
