/**
 * A real Redis server for tests and demonstrations, one that may be stopped, killed, frozen and started again.
 *
 * Owns: the server's process (or container), its port and its directory. Promises: `start` brings a server up on a free port of loopback: the `redis-server`
 * of this machine (installed by apt where there is none and the user may), else a container; the port stays the same over a restart; `dispose` leaves nothing behind.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../lib/ports.js';
import { ensurePrograms } from './debian.js';
import { have, run, ServerProcess } from './processes.js';

const IMAGE = 'redis:7.4-alpine';
const READY_MS_MAX = 20_000;

export interface RedisServerOptions {
  /** Keep what was written over a restart (append-only file). */
  readonly persistent?: boolean;
  /** More of `redis.conf`, as arguments such as `--requirepass x`. */
  readonly args?: readonly string[];
  /** For `requirepass`. */
  readonly password?: string;
}

/** What can be done to a server from outside. */
interface Host {
  up(): Promise<void>;
  /** Ends it in good order. */
  down(): Promise<void>;
  kill(): Promise<void>;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  remove(): Promise<void>;
}

export class RedisServer {
  #client: Redis | null = null;

  private constructor(readonly url: string, readonly host: Host) {}

  /** A server of its own. Throws when this machine has neither the program, nor the right to install it, nor Docker. */
  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    const port = await freePort();
    const keep = options.persistent === true ? ['--appendonly', 'yes', '--appendfsync', 'always'] : ['--appendonly', 'no'];
    const password = options.password === undefined ? [] : ['--requirepass', options.password];
    const args = ['--save', '', ...keep, ...password, ...(options.args ?? [])];
    const host = await hostOn(port, args);
    const server = new RedisServer(`redis://${options.password === undefined ? '' : `:${options.password}@`}127.0.0.1:${port}`, host);
    try {
      await server.up();
    } catch (error) {
      await host.remove();
      throw error;
    }
    return server;
  }

  /** Starts it (again) and waits until it answers. */
  async up(): Promise<void> {
    await this.host.up();
    const deadline = Date.now() + READY_MS_MAX;
    for (;;) {
      try {
        await this.command('PING');
        return;
      } catch (error) {
        if (Date.now() > deadline) throw error;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }

  async down(): Promise<void> {
    this.#forget();
    await this.host.down();
  }

  async kill(): Promise<void> {
    this.#forget();
    await this.host.kill();
  }

  /** The server keeps its connections and answers nothing, as behind a network that drops packets. */
  async freeze(): Promise<void> {
    await this.host.freeze();
  }

  async thaw(): Promise<void> {
    await this.host.thaw();
  }

  /** One command, as `redis-cli` would send it. */
  async command(name: string, ...args: readonly (string | number)[]): Promise<unknown> {
    this.#client ??= quiet(this.url);
    try {
      return await this.#client.call(name, ...args.map(String));
    } catch (error) {
      if (!this.#client.status.startsWith('ready')) this.#forget();
      throw error;
    }
  }

  async dispose(): Promise<void> {
    this.#forget();
    await this.host.remove();
  }

  #forget(): void {
    this.#client?.disconnect();
    this.#client = null;
  }
}

/** A connection that tells of failures by its answers alone. */
function quiet(url: string): Redis {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: null, maxRetriesPerRequest: 0, commandTimeout: 10_000 });
  client.on('error', () => undefined);
  return client;
}

class LocalHost implements Host {
  readonly #dir = mkdtempSync(join(tmpdir(), 'firn-redis-'));
  #process: ServerProcess | null = null;

  constructor(readonly port: number, readonly args: readonly string[]) {}

  async up(): Promise<void> {
    this.#process = new ServerProcess('redis-server', ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#dir, '--daemonize', 'no', ...this.args], join(this.#dir, 'output'));
  }

  async down(): Promise<void> {
    await this.#process?.stop();
  }

  async kill(): Promise<void> {
    this.#process?.signal('SIGKILL');
    await this.#process?.stop();
  }

  async freeze(): Promise<void> {
    this.#process?.signal('SIGSTOP');
  }

  async thaw(): Promise<void> {
    this.#process?.signal('SIGCONT');
  }

  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

/** The program of this machine, or a container where it cannot be had. */
async function hostOn(port: number, args: readonly string[]): Promise<Host> {
  try {
    await ensurePrograms(['redis-server'], ['redis-server']);
    return new LocalHost(port, args);
  } catch (error) {
    if (!have('docker')) throw error;
    return Container.create(port, args);
  }
}

/** The same in a container, steered by the command line of Docker: a port that is given once stays the same. */
class Container implements Host {
  private constructor(readonly id: string) {}

  static async create(port: number, args: readonly string[]): Promise<Container> {
    const id = await run('docker', ['create', '-p', `127.0.0.1:${port}:6379`, IMAGE, 'redis-server', ...args]).catch((error: unknown) => {
      throw new Error('no Redis to test with: there is no redis-server, it cannot be installed, and Docker does not run', { cause: error });
    });
    return new Container(id.trim());
  }

  up(): Promise<void> {
    return this.#docker('start');
  }

  down(): Promise<void> {
    return this.#docker('stop');
  }

  kill(): Promise<void> {
    return this.#docker('kill');
  }

  freeze(): Promise<void> {
    return this.#docker('pause');
  }

  thaw(): Promise<void> {
    return this.#docker('unpause');
  }

  async remove(): Promise<void> {
    await run('docker', ['rm', '-f', '-v', this.id]);
  }

  async #docker(verb: string): Promise<void> {
    await run('docker', [verb, this.id]);
  }
}
