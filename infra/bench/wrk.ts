/**
 * Load by `wrk`.
 *
 * Owns: finding or installing it, and reading its figures. Promises: only answers of 2xx and 3xx count.
 */
import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT } from '../lib/firn-process.js';

export interface AppendLoad {
  readonly url: string;
  /** Each connection POSTs to all of them in turn. */
  readonly paths: readonly string[];
  readonly connections: number;
  readonly seconds: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface LoadResult {
  /** Good answers a second. */
  readonly rate: number;
  readonly refused: number;
  readonly errors: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** null: `wrk` is there; else why it is not. */
export function ensureWrk(): string | null {
  if (spawnSync('wrk', ['-v']).error === undefined) return null;
  if (process.getuid?.() !== 0) return 'wrk is not installed, and only root could install it (apt-get install wrk)';
  process.stderr.write('bench: installing wrk\n');
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', 'wrk']]) {
    const done = spawnSync('apt-get', args, { stdio: ['ignore', 2, 2], env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } });
    if (done.status !== 0) return `apt-get ${args[0]} ended with ${done.status}`;
  }
  return null;
}

/** Runs one load to its end. */
export async function appendLoad(load: AppendLoad): Promise<LoadResult> {
  const script = join(PROJECT, 'infra', 'bench', 'append.lua');
  const headers = Object.entries(load.headers);
  const args = ['-t', '1', '-c', String(load.connections), '-d', `${load.seconds}s`, '--timeout', '10s', '-s', script, load.url, '--', load.body, String(headers.length), ...headers.flat(), ...load.paths];
  const { stdout } = await promisify(execFile)('wrk', args);
  const line = /^RESULT (.*)$/m.exec(stdout)?.[1];
  if (line === undefined) throw new Error(`wrk gave no figures\n${stdout}`);
  const { requests, micros, refused, errors, p50, p99 } = JSON.parse(line) as Record<'requests' | 'micros' | 'refused' | 'errors' | 'p50' | 'p99', number>;
  return { rate: ((requests - refused) / micros) * 1e6, refused, errors, p50Ms: p50 / 1_000, p99Ms: p99 / 1_000 };
}
