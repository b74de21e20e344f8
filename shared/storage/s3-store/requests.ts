/**
 * Requests of one store: each in a place of its own, under a watch, and by its own name in the bucket.
 *
 * Owns: the SDK's client, the places, and what all requests have in common. Promises: a request that failed, was cancelled or stalled leaves no socket behind; at most
 * `STREAMS_MAX`, `READS_MAX` and `OTHERS_MAX` are under way (I11); after `close` nothing is, and nothing begins.
 */
import { setMaxListeners } from 'node:events';
import type { S3Client } from '@aws-sdk/client-s3';
import { withSignal } from '../../time/joined-signal.js';
import { StoreUnavailable } from '../object-store.js';
import { Credentials } from './credentials.js';
import { TryFailed, type AnswerKind } from './failures.js';
import { Gate } from './gate.js';
import { Hedges } from './hedge.js';
import { OTHERS_MAX, READS_MAX, STREAMS_MAX } from './limits.js';
import { Retries, type RetryRules } from './retries.js';
import { Watch } from './watch.js';

/** One try: what it runs under, and what has to be told of its end. */
export interface Try {
  readonly watch: Watch;
  /** The work goes on behind the call: whoever asked calls `end`. */
  keep(): void;
  end(): void;
}

/** A read that follows a reader, one that is taken as fast as it comes, and all the rest. */
export type Kind = 'stream' | 'read' | 'other';

export interface RequestsOptions {
  readonly client: S3Client;
  readonly bucket: string;
  readonly prefix: string;
  /** For messages. */
  readonly where: string;
  readonly random: () => number;
  readonly onRetry: (why: string) => void;
  /** A second GET was made because the first one was late. */
  readonly onHedge: () => void;
}

export class Requests {
  readonly client: S3Client;
  readonly bucket: string;
  readonly hedges: Hedges;
  readonly #options: RequestsOptions;
  readonly #credentials: Credentials;
  readonly #closing = new AbortController();
  readonly #gates = { stream: new Gate(STREAMS_MAX), read: new Gate(READS_MAX), other: new Gate(OTHERS_MAX) };

  constructor(options: RequestsOptions) {
    this.client = options.client;
    this.bucket = options.bucket;
    this.hedges = new Hedges(options.onHedge);
    this.#credentials = new Credentials(options.client);
    this.#options = options;
    // One for each request under way or waiting, which are bounded elsewhere.
    setMaxListeners(0, this.#closing.signal);
  }

  /** The name of a key in the bucket; '' gives what all names begin with. */
  nameOf(key: string): string {
    const { prefix } = this.#options;
    return prefix === '' ? key : `${prefix}/${key}`;
  }

  /** Bucket and name of a key, as most commands want them. */
  at(key: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.bucket, Key: this.nameOf(key) };
  }

  alive(): void {
    this.#closing.signal.throwIfAborted();
  }

  retries(what: string, signal: AbortSignal | undefined, rules: Pick<RetryRules, 'answers' | 'extraMs'> = {}): Retries {
    const { where, random, onRetry } = this.#options;
    return new Retries({ ...rules, what: `${what} in ${where}`, signal, random, onRetry });
  }

  /** Whether a request of a kind would begin at once. */
  hasRoom(kind: Kind): boolean {
    return this.#gates[kind].hasRoom;
  }

  /** One try. Throws what failed, as the SDK says it; the reason of a signal; `TryFailed` for one that did not move. `quit` ends this one try. */
  async once<T>(kind: Kind, retries: Retries, signal: AbortSignal | undefined, work: (own: Try) => Promise<T>, quit?: AbortSignal): Promise<T> {
    const leave = await this.#enter(kind, retries.leftMs, signal);
    const watch = new Watch([signal, this.#closing.signal, quit]);
    const { generation } = this.#credentials;
    let kept = false;
    const end = (): void => {
      watch.end();
      leave();
    };
    try {
      return await work({ watch, keep: () => (kept = true), end });
    } catch (error) {
      kept = false;
      const reason: unknown = watch.signal.aborted ? watch.signal.reason : error;
      watch.cut(reason);
      throw (await this.#credentials.renewed(reason, generation)) ? new TryFailed('the server took the credentials no longer, there are others now') : reason;
    } finally {
      if (!kept) end();
    }
  }

  /** Retried until it succeeds or nothing more can be hoped for. Throws `Answered` for the answers that are named. */
  run<T>(what: string, signal: AbortSignal | undefined, work: (own: Try) => Promise<T>, answers?: readonly AnswerKind[]): Promise<T> {
    const retries = this.retries(what, signal, { answers });
    return retries.run(() => this.once('other', retries, signal, work));
  }

  async #enter(kind: Kind, leftMs: number, signal: AbortSignal | undefined): Promise<() => void> {
    return withSignal([signal, this.#closing.signal], leftMs, async (until) => {
      try {
        return await this.#gates[kind].enter(until);
      } catch (error) {
        signal?.throwIfAborted();
        this.alive();
        throw until.aborted ? new TryFailed('all connections are busy') : error;
      }
    });
  }

  close(): void {
    this.#closing.abort(new StoreUnavailable(`${this.#options.where} is closed`));
    this.client.destroy();
  }
}
