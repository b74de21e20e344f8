/** A command that could not do its work, said in one sentence; no stack trace helps whoever reads it. */
export class CommandFailed extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CommandFailed';
  }
}
