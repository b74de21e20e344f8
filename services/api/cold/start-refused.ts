/** Directory and object store do not belong together: a node must not start on them. The message names both and what to do. */
export class StartRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'StartRefused';
  }
}
