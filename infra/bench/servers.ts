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
import { endsWithRun } from './started.js';

export type PeerName = 'ursula' | 'reference' | 's2';
export type ServerName = 'bare' | 'firn' | PeerName;

export interface Server {
  readonly name: ServerName;
  readonly url: string;
  readonly pid: number;
  /** Where appends to a stream go; for all but S2 reads too. */
  path(stream: string): string;
  /** An append of so many bytes. */
  append(bytes: number): { readonly headers: Readonly<Record<string, string>>; readonly body: string };
  /** Creates streams `{prefix}0` to `{prefix}{count - 1}`. */
  create(prefix: string, count: number, contentType: string): Promise<void>;
  stop(): Promise<void>;
}

/** null: the rival can be started; else why not. */
export function peerMissing(): string | null {
  return existsSync(peerScript()) ? null : `no rival can be started: there is no ${peerScript()} (FIRN_BENCH_PEER names another)`;
}

const BUCKET = 'bench';
/** S2's word for a bucket: a header of each request, at least 8 characters. */
const S2_BASIN = { 's2-basin': 'benchbasin' };
/** Streams created at a time. */
const CREATES_AT_ONCE = 32;

const rawAppend: Server['append'] = (bytes) => ({ headers: { 'content-type': 'application/octet-stream' }, body: 'x'.repeat(bytes) });

async function createAll(prefix: string, count: number, create: (stream: string) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const stream = `${prefix}${next}`;
      next += 1;
      await create(stream);
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
    path: (stream) => `/${BUCKET}/${stream}`, append: rawAppend,
    create: async () => undefined,
    stop: async () => {
      process.kill(pid, 'SIGTERM');
      await gone(pid);
    },
  };
}

function put(url: string, contentType: string): Promise<unknown> {
  return call(url, { method: 'PUT', headers: { 'content-type': contentType }, expect: [200, 201] });
}

async function startFirn(settings: Settings): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), 'firn-bench-'));
  const node = await FirnProcess.on(folder, settings);
  await node.start();
  const path = (stream: string): string => `/${BUCKET}/${stream}`;
  return {
    name: 'firn', url: node.url, pid: node.pid, path, append: rawAppend,
    create: (prefix, count, contentType) => createAll(prefix, count, (stream) => put(`${node.url}${path(stream)}`, contentType)),
    stop: async () => {
      await node.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startPeer(name: PeerName): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), `firn-bench-${name}-`));
  const port = await freePort();
  const { stdout } = await promisify(execFile)(peerScript(), [name, folder, String(port)]).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw new Error(`${name} did not start`, { cause: error });
  });
  const pid = Number(stdout.trim());
  const url = `http://127.0.0.1:${port}`;
  const stop = async (): Promise<void> => {
    process.kill(pid, 'SIGTERM');
    await gone(pid);
    await rm(folder, { recursive: true, force: true });
  };
  if (name === 's2') return s2(url, pid, stop);
  const path = name === 'ursula' ? (stream: string) => `/${BUCKET}/${stream}` : (stream: string) => `/v1/stream/${BUCKET}/${stream}`;
  if (name === 'ursula') await call(`${url}/${BUCKET}`, { method: 'PUT', expect: [201, 200] });
  return { name, url, pid, path, append: rawAppend, create: (prefix, count, contentType) => createAll(prefix, count, (stream) => put(`${url}${path(stream)}`, contentType)), stop };
}

/** Its records are JSON: the same bytes as text in one. */
async function s2(url: string, pid: number, stop: () => Promise<void>): Promise<Server> {
  const json = { 'content-type': 'application/json', ...S2_BASIN };
  await call(`${url}/v1/basins`, { method: 'POST', headers: json, body: JSON.stringify({ basin: S2_BASIN['s2-basin'] }), expect: [200, 201] });
  return {
    name: 's2', url, pid, stop,
    path: (stream) => `/v1/streams/${stream}/records`,
    append: (bytes) => ({ headers: json, body: JSON.stringify({ records: [{ body: 'x'.repeat(bytes) }] }) }),
    create: (prefix, count) => createAll(prefix, count, (stream) => call(`${url}/v1/streams`, { method: 'POST', headers: json, body: JSON.stringify({ stream }), expect: [200, 201] })),
  };
}

/** Starts a server on a free port with an empty directory. `settings` go to Firn alone. */
function startServer(name: ServerName, settings: Settings = {}): Promise<Server> {
  if (name === 'bare') return startBare();
  return name === 'firn' ? startFirn(settings) : startPeer(name);
}

/** Starts servers, runs work with them, and ends them whatever happens. */
export async function withServers<T>(names: readonly ServerName[], settings: Settings, work: (servers: readonly Server[]) => Promise<T>): Promise<T> {
  const servers: Server[] = [];
  const ends: (() => Promise<unknown>)[] = [];
  try {
    for (const name of names) {
      const server = await startServer(name, settings);
      ends.push(await endsWithRun(() => server.stop()));
      servers.push(server);
    }
    return await work(servers);
  } finally {
    await Promise.allSettled(ends.map((end) => end()));
  }
}
