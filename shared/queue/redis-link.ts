/**
 * The connections of one process to Redis, and what is known of the server.
 *
 * Owns: their settings, the regular look at the server, and the sentences for operators. Promises: a command of `commands` is answered or refused within
 * `ENQUEUE_MS_MAX` and never waits in memory for a server that is away (I5, R046); connections come back by themselves; neither the password nor the arguments of a
 * command reach a log or an error.
 */
import { Redis, type RedisOptions } from 'ioredis';
import type { Logger } from '../observability/index.js';
import { ENQUEUE_MS_MAX, errorText } from './types.js';

/** How often the server is looked at, ms. */
export const PROBE_MS = 5_000;
/** Wait before a connection is tried again, ms: first and longest. */
const RECONNECT_MS = 50;
const RECONNECT_MS_MAX = 2_000;
/** The connection for single commands is made anew when nothing answers for so long, ms: two probes. Networks forget connections without a sign. */
const COMMANDS_SOCKET_MS_MAX = 2 * PROBE_MS;
/** A worker's connection that gets no answer for so long is made anew, ms; no command of it takes longer than a few seconds. */
const WORKER_SOCKET_MS_MAX = 20_000;
/** The same complaint is logged again after this long, ms. */
const COMPLAIN_AGAIN_MS = 60_000;
/** BullMQ needs scripts and commands that came with these. */
const VERSION_MIN = [6, 2, 0] as const;
/** Name and password before the host of a URL. */
const USER_IN_URL = /(rediss?:\/\/)[^\s/]*@/g;

export interface RedisLinkOptions {
  /** `redis://` or `rediss://`, with credentials. */
  readonly url: string;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

export class RedisLink {
  /** Place of the server, without credentials. */
  readonly describe: string;
  /** For single commands: refused at once while the server is away. */
  readonly commands: Redis;
  readonly #options: RedisLinkOptions;
  /** Connections that are open or come back by themselves. */
  readonly #opened = new Set<Redis>();
  readonly #secrets: readonly string[];
  readonly #timer: NodeJS.Timeout;
  readonly #complained = new Map<string, number>();
  #lastError = 'not connected yet';
  #silent = false;
  /** What the last look found wrong; null: nobody looked yet. */
  #server: readonly string[] | null = null;
  #closed = false;

  constructor(options: RedisLinkOptions) {
    this.#options = options;
    const { protocol, host, pathname, password } = new URL(options.url);
    this.describe = `${protocol}//${host}${pathname === '/' ? '' : pathname}`;
    this.#secrets = [password, decodeURIComponent(password)].filter((text) => text !== '');
    this.commands = this.#open({
      enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false, commandTimeout: ENQUEUE_MS_MAX, socketTimeout: COMMANDS_SOCKET_MS_MAX,
    });
    this.commands.on('ready', () => void this.probe());
    this.#timer = setInterval(() => void this.probe(), PROBE_MS);
    this.#timer.unref();
  }

  /** A connection for BullMQ workers: their commands wait until the server is back. Its duplicates end with this link too. */
  forWorkers(): Redis {
    return this.#open({ maxRetriesPerRequest: null, socketTimeout: WORKER_SOCKET_MS_MAX });
  }

  /** Whether the server answers, and was looked at: a wrong one is known as wrong by then. */
  get ready(): boolean {
    return this.commands.status === 'ready' && !this.#silent && this.#server !== null;
  }

  /** Why the server cannot be used, null when it can. */
  get away(): string | null {
    return this.ready ? null : `${this.describe} does not answer (${this.#lastError})`;
  }

  /** What is wrong with a server that answers, such as an eviction policy that would lose jobs. */
  get warnings(): readonly string[] {
    return this.ready ? (this.#server ?? []) : [];
  }

  /** Asks the server how it is. Never rejects. */
  async probe(): Promise<void> {
    if (this.#closed || this.commands.status !== 'ready') return;
    try {
      const found = judge(await this.commands.info(), this.describe);
      this.#server = found;
      this.#silent = false;
      for (const warning of found) this.complain('redis-warning', warning);
    } catch (error) {
      this.#silent = true;
      this.note(error);
    }
  }

  /** Remembers and logs what went wrong: the same thing once a minute. */
  note(error: unknown): void {
    if (this.#closed) return;
    this.#lastError = this.safe(error);
    this.complain('redis-error', `${this.describe}: ${this.#lastError}`);
  }

  complain(event: string, sentence: string): void {
    const now = this.#options.now();
    const key = `${event} ${sentence}`;
    if (now - (this.#complained.get(key) ?? -Infinity) < COMPLAIN_AGAIN_MS) return;
    if (this.#complained.size > 100) this.#complained.clear();
    this.#complained.set(key, now);
    this.#options.logger.warn({ event }, sentence);
  }

  /** The text of an error of Redis without anything secret: errors carry the command they answer, credentials included. A user's name is hidden in URLs only: it may be a common word. */
  safe(error: unknown): string {
    const withoutUsers = errorText(error).replaceAll(USER_IN_URL, '$1(hidden)@');
    return this.#secrets.reduce((text, secret) => text.replaceAll(secret, '(hidden)'), withoutUsers);
  }

  /** Ends every connection at once. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    for (const redis of this.#opened) redis.disconnect();
  }

  #open(options: Omit<RedisOptions, 'replyMapping' | 'protocol'>): Redis {
    const keep = (redis: Redis): void => void this.#keep(redis);
    /** BullMQ makes the connections that wait for jobs by duplicating the one it was given. */
    class Kept extends Redis {
      override duplicate(override?: Partial<RedisOptions>): Redis {
        const twin = super.duplicate(override);
        keep(twin);
        return twin;
      }
    }
    const retryStrategy = (times: number): number => Math.min(RECONNECT_MS * 2 ** Math.min(times - 1, 16), RECONNECT_MS_MAX);
    return this.#keep(new Kept(this.#options.url, { retryStrategy, connectTimeout: WORKER_SOCKET_MS_MAX / 4, ...options }));
  }

  #keep<R extends Redis>(redis: R): R {
    this.#opened.add(redis);
    redis.on('error', (error) => this.note(error));
    redis.on('end', () => this.#opened.delete(redis));
    // BullMQ ends the connections that wait for jobs and opens them again.
    redis.on('connecting', () => {
      if (this.#closed) redis.disconnect();
      else this.#opened.add(redis);
    });
    return redis;
  }
}

/** What `INFO` says against using the server for jobs. */
function judge(info: string, place: string): string[] {
  const field = (name: string): string => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';
  const found: string[] = [];
  const policy = field('maxmemory_policy');
  if (policy !== '' && policy !== 'noeviction') found.push(`${place}: maxmemory-policy is ${policy}, so Redis may drop queued jobs; set it to noeviction`);
  const [used, max] = [Number(field('used_memory')), Number(field('maxmemory'))];
  if (max > 0 && used >= max) found.push(`${place} has reached its maxmemory of ${max} bytes: it takes no more jobs`);
  if (field('role') === 'slave') found.push(`${place} is a read-only replica: name its primary`);
  const version = field('redis_version');
  if (version !== '' && isBelow(version)) found.push(`${place} has version ${version}: jobs need ${VERSION_MIN.join('.')} or later`);
  return found;
}

function isBelow(version: string): boolean {
  const parts = version.split('.').map(Number);
  for (const [index, least] of VERSION_MIN.entries()) {
    const part = parts[index] ?? 0;
    if (part !== least) return part < least;
  }
  return false;
}
