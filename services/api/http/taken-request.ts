/**
 * A request whose body may be taken in the turn in which it arrives.
 *
 * Owns: the way of a body from Node's parser to whoever takes it. Promises: what came before it was taken is not lost; a taker is told of the end, or that there will be none, and of nothing afterwards; a body that
 * nobody takes, or that its taker leaves, is a stream like any other. Why: a small body costs more as a stream (its buffer, its listeners, the turns in which it begins, ends and closes) than everything else that an append does
 * before the log.
 */
import { IncomingMessage } from 'node:http';

export interface BodyTaker {
  take(chunk: Buffer): void;
  /** All of it was taken. */
  finish(): void;
  /** The rest will not come. */
  broken(): void;
}

export class TakenRequest extends IncomingMessage {
  #taker: BodyTaker | null = null;
  #taken = false;

  /** Gives `taker` what has come, and the rest as it comes. Once. */
  giveBody(taker: BodyTaker): void {
    this.#taker = taker;
    if (this.destroyed) this.#leave()?.broken();
    else if (this.complete || this.readableLength > 0) this.#giveBuffered();
  }

  /** What is still to come is nobody's. */
  leaveBody(): void {
    this.#taker = null;
  }

  #giveBuffered(): void {
    while (this.#taker !== null) {
      const chunk = this.read() as Buffer | null;
      if (chunk === null) break;
      this.#taker.take(chunk);
    }
    if (this.complete) this.#leave()?.finish();
  }

  #leave(): BodyTaker | null {
    const taker = this.#taker;
    this.#taker = null;
    return taker;
  }

  /** Node's parser calls it with each piece of a body, and with null at the end. */
  override push(chunk: Buffer | null): boolean {
    if (this.#taker === null) return super.push(chunk);
    if (chunk === null) {
      this.#taken = true;
      this.#leave()?.finish();
    } else {
      this.#taker.take(chunk);
    }
    return true;
  }

  /** Node reads on what nobody read, behind the answer. */
  override resume(): this {
    return this.#taken ? this : super.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#leave()?.broken();
    super._destroy(error, callback);
  }
}
