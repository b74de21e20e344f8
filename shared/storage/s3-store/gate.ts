/**
 * Places for requests under way: who finds none waits in the order of arrival (I11).
 */
export class Gate {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(places: number) {
    this.#free = places;
  }

  /** Whether a place is free now. */
  get hasRoom(): boolean {
    return this.#free > 0;
  }

  /** Waits for a place; the answer gives it back and may be called again. Throws the signal's reason when it fires first. */
  async enter(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(signal);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const [next] = this.#waiting;
      if (next === undefined) this.#free++;
      else next();
    };
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const take = (): void => {
        this.#waiting.delete(take);
        signal.removeEventListener('abort', giveUp);
        resolve();
      };
      const giveUp = (): void => {
        this.#waiting.delete(take);
        reject(signal.reason as Error);
      };
      this.#waiting.add(take);
      signal.addEventListener('abort', giveUp, { once: true });
    });
  }
}
