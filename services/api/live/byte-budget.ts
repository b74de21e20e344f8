/**
 * A number of bytes that many share; who asks for more than is left waits in line.
 *
 * Promises: first come, first served; a request above the whole budget is served alone; a wait can be given up.
 */

export interface Claim {
  /** true: the bytes are this claim's until `release`; false: it was given up. */
  readonly granted: Promise<boolean>;
  /** Ends the wait; without effect once granted. */
  giveUp(): void;
  /** Gives the bytes back; once, and only after they were granted. */
  release(): void;
}

interface Waiting {
  readonly bytes: number;
  readonly settle: (granted: boolean) => void;
}

export class ByteBudget {
  #held = 0;
  readonly #line = new Set<Waiting>();

  constructor(readonly max: number) {}

  get heldBytes(): number {
    return this.#held;
  }

  claim(bytes: number): Claim {
    let settle: (granted: boolean) => void = () => undefined;
    const granted = new Promise<boolean>((resolve) => {
      settle = resolve;
    });
    const waiting: Waiting = { bytes, settle };
    this.#line.add(waiting);
    this.#serve();
    return {
      granted,
      giveUp: () => {
        if (!this.#line.delete(waiting)) return;
        settle(false);
        this.#serve();
      },
      release: () => {
        this.#held -= bytes;
        this.#serve();
      },
    };
  }

  #serve(): void {
    for (const waiting of this.#line) {
      if (this.#held > 0 && this.#held + waiting.bytes > this.max) return;
      this.#line.delete(waiting);
      this.#held += waiting.bytes;
      waiting.settle(true);
    }
  }
}
