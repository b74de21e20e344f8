/**
 * How commands end that did not do all of their work.
 */

/** A command that could not do its work, said in one sentence; no stack trace helps whoever reads it. */
export class CommandFailed extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CommandFailed';
  }
}

/** A node answered, with something else than success. */
export class Refused extends CommandFailed {
  constructor(message: string, readonly status: number) {
    super(message);
    this.name = 'Refused';
  }

  /** The same request may well succeed soon. */
  get isTransient(): boolean {
    return this.status === 429 || (this.status >= 502 && this.status <= 504);
  }
}

/** Nobody reads the output any more, such as `head` that has its lines: the end of the work, and no failure. */
export class OutputClosed extends Error {}
