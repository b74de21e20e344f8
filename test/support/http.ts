/**
 * A plain HTTP client for tests: sends the path and headers as they are given (no normalisation), shows all of the answer.
 */
import { Pool } from 'undici';
import type { Dispatcher } from 'undici';
import type { Readable } from 'node:stream';

export type Headers = Readonly<Record<string, string | readonly string[]>>;
export type Body = string | Buffer | Readable | null;
type Incoming = Readonly<Record<string, string | string[] | undefined>>;

export interface SendOptions {
  readonly headers?: Headers | undefined;
  readonly body?: Body | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Status and headers of an answer. */
class Head {
  constructor(
    readonly status: number,
    private readonly incoming: Incoming,
  ) {}

  /** The header's value; undefined when absent, joined with `, ` when repeated. */
  header(name: string): string | undefined {
    const value = this.incoming[name.toLowerCase()];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  /** The header's value; fails when it is absent. */
  need(name: string): string {
    const value = this.header(name);
    if (value === undefined) throw new Error(`no ${name} header in a ${this.status} answer`);
    return value;
  }

  /** `Stream-Next-Offset`. */
  get next(): string {
    return this.need('stream-next-offset');
  }

  get incarnation(): string {
    return this.need('stream-incarnation');
  }

  get upToDate(): boolean {
    return this.flag('stream-up-to-date');
  }

  get closed(): boolean {
    return this.flag('stream-closed');
  }

  /** Names of all headers, lower case. */
  get names(): string[] {
    return Object.keys(this.incoming);
  }

  private flag(name: string): boolean {
    const value = this.header(name);
    if (value !== undefined && value !== 'true') throw new Error(`${name}: ${value} (a flag is sent as true or not at all)`);
    return value !== undefined;
  }
}

/** A whole answer. */
export class Answer extends Head {
  constructor(status: number, incoming: Incoming, readonly body: Buffer) {
    super(status, incoming);
  }

  get text(): string {
    return this.body.toString('utf8');
  }

  json(): unknown {
    return JSON.parse(this.text);
  }

  /** The code of an error answer; checks the shape of its body on the way (ERR-01). */
  get code(): string {
    const parsed = this.json() as { error?: { code?: unknown; message?: unknown } };
    if (typeof parsed.error?.code !== 'string' || typeof parsed.error.message !== 'string') throw new Error(`not an error body: ${this.text}`);
    return parsed.error.code;
  }

  get message(): string {
    return (this.json() as { error: { message: string } }).error.message;
  }
}

/** An answer whose body is still coming. */
export class OpenAnswer extends Head {
  constructor(status: number, incoming: Incoming, readonly stream: Dispatcher.ResponseData['body']) {
    super(status, incoming);
  }
}

export class Http {
  /** Awaited before a read of a stream, given the path of that; null: nothing is to be waited for. */
  beforeRead: ((path: string) => Promise<void>) | null = null;
  readonly #pool: Pool;

  constructor(readonly origin: string) {
    this.#pool = new Pool(origin, { headersTimeout: 120_000, bodyTimeout: 120_000, keepAliveTimeout: 4_000 });
  }

  /** Sends a request and waits for the whole answer. */
  async send(method: string, path: string, options: SendOptions = {}): Promise<Answer> {
    const answer = await this.#request(method, path, options);
    const pieces: Buffer[] = [];
    for await (const piece of answer.body) pieces.push(piece as Buffer);
    return new Answer(answer.statusCode, answer.headers, Buffer.concat(pieces));
  }

  /** Sends a request and returns once the head of the answer is here. */
  async open(method: string, path: string, options: SendOptions = {}): Promise<OpenAnswer> {
    const answer = await this.#request(method, path, options);
    answer.body.on('error', () => undefined);
    return new OpenAnswer(answer.statusCode, answer.headers, answer.body);
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #request(method: string, path: string, options: SendOptions): Promise<Dispatcher.ResponseData> {
    return this.#pool.request({
      method: method as Dispatcher.HttpMethod,
      path,
      headers: options.headers as Record<string, string | string[]>,
      body: options.body ?? null,
      signal: options.signal,
    });
  }
}
