/**
 * The servers that are measured beside each other, each in a process and a directory of its own.
 *
 * Owns: starting and ending them, and how each names and creates a stream. Promises: `stop` ends what `start` started, by its pid.
 */
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { FirnProcess, type Settings } from '../lib/firn-process.js';
import { peerScript } from '../lib/peers.js';
import { freePort } from '../lib/ports.js';
import { call } from '../demo/client.js';

export type ServerName = 'bare' | 'firn' | 'ursula' | 'reference';

export interface Server {
  readonly name: ServerName;
  readonly url: string;
  readonly pid: number;
  /** Path of a stream; the name ends in what is counted up. */
  path(stream: string): string;
  /** Creates streams `{prefix}0` to `{prefix}{count - 1}`. */
  create(prefix: string, count: number, contentType: string): Promise<void>;
  stop(): Promise<void>;
}

/** null: the rival can be started; else why not. */
export function peerMissing(): string | null {
  return existsSync(peerScript()) ? null : `no rival can be started: there is no ${peerScript()} (FIRN_BENCH_PEER names another)`;
}

const BUCKET = 'bench';
/** Streams created at a time. */
const CREATES_AT_ONCE = 32;

async function createAll(url: string, path: (stream: string) => string, prefix: string, count: number, contentType: string): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const stream = `${prefix}${next}`;
      next += 1;
      await call(`${url}${path(stream)}`, { method: 'PUT', headers: { 'content-type': contentType }, expect: [200, 201] });
    }
  };
  await Promise.all(Array.from({ length: CREATES_AT_ONCE }, lane));
}

async function gone(pid: number): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await sleep(100);
  }
  process.kill(pid, 'SIGKILL');
}

async function startBare(): Promise<Server> {
  const port = await freePort();
  const child = spawn(process.execPath, [fileURLToPath(new URL('bare-server.js', import.meta.url)), String(port)], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((ready) => child.stdout.once('data', ready));
  const pid = child.pid ?? 0;
  return {
    name: 'bare', url: `http://127.0.0.1:${port}`, pid,
    path: (stream) => `/${BUCKET}/${stream}`,
    create: async () => undefined,
    stop: async () => {
      process.kill(pid, 'SIGTERM');
      await gone(pid);
    },
  };
}

async function startFirn(settings: Settings): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), 'firn-bench-'));
  const node = await FirnProcess.on(folder, settings);
  await node.start();
  const path = (stream: string): string => `/${BUCKET}/${stream}`;
  return {
    name: 'firn', url: node.url, pid: node.pid, path,
    create: (prefix, count, contentType) => createAll(node.url, path, prefix, count, contentType),
    stop: async () => {
      await node.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startPeer(name: 'ursula' | 'reference'): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), `firn-bench-${name}-`));
  const port = await freePort();
  const { stdout } = await promisify(execFile)(peerScript(), [name, folder, String(port)]).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw new Error(`${name} did not start`, { cause: error });
  });
  const pid = Number(stdout.trim());
  const url = `http://127.0.0.1:${port}`;
  const path = name === 'ursula' ? (stream: string) => `/${BUCKET}/${stream}` : (stream: string) => `/v1/stream/${BUCKET}/${stream}`;
  if (name === 'ursula') await call(`${url}/${BUCKET}`, { method: 'PUT', expect: [201, 200] });
  return {
    name, url, pid, path,
    create: (prefix, count, contentType) => createAll(url, path, prefix, count, contentType),
    stop: async () => {
      process.kill(pid, 'SIGTERM');
      await gone(pid);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Starts a server on a free port with an empty directory. `settings` go to Firn alone. */
export function startServer(name: ServerName, settings: Settings = {}): Promise<Server> {
  if (name === 'bare') return startBare();
  return name === 'firn' ? startFirn(settings) : startPeer(name);
}

/** Starts servers, runs work with them, and ends them whatever happens. */
export async function withServers<T>(names: readonly ServerName[], settings: Settings, work: (servers: readonly Server[]) => Promise<T>): Promise<T> {
  const servers: Server[] = [];
  try {
    for (const name of names) servers.push(await startServer(name, settings));
    return await work(servers);
  } finally {
    await Promise.allSettled(servers.map((server) => server.stop()));
  }
}
