/**
 * Nodes and workers of this clone in processes of their own, for the demonstration and the benchmark.
 *
 * Owns: start, the wait for its ready line, its end, and its memory. Promises: `stop` leaves no process behind.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { freePort } from './ports.js';

/** The clone: the folder above that holds `package.json`, seen from the sources as from `dist`. */
export const PROJECT = projectAbove(dirname(fileURLToPath(import.meta.url)));
const READY_MS_MAX = 60_000;
const STOP_MS_MAX = 40_000;

function projectAbove(folder: string): string {
  if (existsSync(join(folder, 'package.json'))) return folder;
  const parent = dirname(folder);
  if (parent === folder) throw new Error('this file lies outside the project');
  return projectAbove(parent);
}

export type Settings = Readonly<Record<string, string>>;

/** The environment without settings of firn, plus these. */
export function environment(settings: Settings): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('FIRN_'));
  return { ...Object.fromEntries(kept), ...settings };
}

/** Resident bytes of a process. */
export function residentBytes(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  if (line === null) throw new Error(`process ${pid} has no resident memory`);
  return Number(line[1]) * 1_024;
}

export interface Measured {
  readonly stdout: string;
  readonly ms: number;
  /** Most resident bytes that were seen. */
  readonly peakBytes: number;
}

const SAMPLE_MS = 25;

/** Runs a command of the command line to its end and watches its memory. Throws when it does not end with 0. */
export async function measuredCommand(args: readonly string[], settings: Settings): Promise<Measured> {
  const started = performance.now();
  const child = spawn(join(PROJECT, 'services', 'cli', 'firn.cjs'), args, { cwd: PROJECT, env: environment(settings), stdio: ['ignore', 'pipe', 'inherit'] });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  let peakBytes = 0;
  const sampler = setInterval(() => {
    if (child.pid !== undefined && child.exitCode === null) peakBytes = Math.max(peakBytes, peakOf(child.pid));
  }, SAMPLE_MS);
  const outcome = await new Promise<number | string>((resolve) => child.once('close', (code, signal) => resolve(signal ?? code ?? 0)));
  clearInterval(sampler);
  if (outcome !== 0) throw new Error(`firn ${args.join(' ')} ended with ${outcome}\n${stdout}`);
  return { stdout, ms: performance.now() - started, peakBytes };
}

/** Most resident bytes of a process so far; 0 when it is gone. */
function peakOf(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1_024;
  } catch {
    return 0;
  }
}

/** A command of the command line that runs until it is told to end. */
class LongCommand {
  #child: ChildProcess | null = null;
  #exit: Promise<number | string> | null = null;
  #output = '';
  #killed = false;

  /** `event`: of the line on standard output that says that it is ready. */
  constructor(readonly name: string, readonly event: string, readonly settings: Settings) {}

  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error(`firn ${this.name} does not run`);
    return this.#child.pid;
  }

  /** Starts the process and waits for its ready line. Throws after `kill`. */
  async start(): Promise<void> {
    if (this.#killed) throw new Error(`firn ${this.name} was killed`);
    const child = spawn(join(PROJECT, 'services', 'cli', 'firn.cjs'), [this.name], { cwd: PROJECT, env: environment(this.settings), stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child = child;
    this.#exit = new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code ?? 0)));
    this.#output = '';
    const ready = new Promise<true>((resolve) => {
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        this.#output = (this.#output + text).slice(-100_000);
        if (this.#output.includes(`"event":"${this.event}"`)) resolve(true);
      });
    });
    let late: NodeJS.Timeout | undefined;
    const timeout = new Promise<false>((resolve) => {
      late = setTimeout(() => resolve(false), READY_MS_MAX);
    });
    const outcome = await Promise.race([ready, timeout, this.#exit]);
    clearTimeout(late);
    if (outcome !== true) {
      child.kill('SIGKILL');
      throw new Error(`firn ${this.name} did not start (${outcome === false ? 'no ready line' : `ended with ${outcome}`})\n${this.#output}`);
    }
  }

  /** Ends the process by SIGTERM; throws when its exit code is not 0. */
  async stop(): Promise<void> {
    if (this.#child === null || this.#exit === null) return;
    this.#child.kill('SIGTERM');
    const late = setTimeout(() => this.#child?.kill('SIGKILL'), STOP_MS_MAX);
    const outcome = await this.#exit;
    clearTimeout(late);
    this.#child = null;
    if (outcome !== 0) throw new Error(`firn ${this.name} ended with ${outcome}\n${this.#output}`);
  }

  /** Ends the process at once, whatever it does, and for good. */
  async kill(): Promise<void> {
    this.#killed = true;
    this.#child?.kill('SIGKILL');
    await this.#exit;
    this.#child = null;
  }
}

/** A node. */
export class FirnProcess extends LongCommand {
  private constructor(readonly dataDir: string, settings: Settings, readonly url: string, readonly adminUrl: string) {
    super('serve', 'listening', settings);
  }

  /** A node with the data directory on free ports, not yet started. */
  static async on(dataDir: string, settings: Settings = {}): Promise<FirnProcess> {
    const port = await freePort();
    const all = { FIRN_LOG: 'warn', ...settings, FIRN_DATA_DIR: dataDir, FIRN_PORT: String(port), FIRN_ADMIN_PORT: String(port + 1) };
    return new FirnProcess(dataDir, all, `http://127.0.0.1:${port}`, `http://127.0.0.1:${port + 1}`);
  }

  /** Runs a command of the command line with this node's settings; answers its standard output. */
  async command(...args: readonly string[]): Promise<string> {
    const { stdout } = await promisify(execFile)('npx', ['firn', ...args], { cwd: PROJECT, env: environment(this.settings), maxBuffer: 64 * 1_024 * 1_024 });
    return stdout;
  }
}

/** A worker for a node: it gets of the node's settings what has nothing to do with the node's disk and listeners. */
export class WorkerProcess extends LongCommand {
  constructor(node: FirnProcess) {
    const shared = Object.entries(node.settings).filter(([name]) => !['FIRN_DATA_DIR', 'FIRN_PORT', 'FIRN_ADMIN_PORT', 'FIRN_JOBS'].includes(name));
    super('worker', 'working', { ...Object.fromEntries(shared), FIRN_NODE_ADMIN_URL: node.adminUrl });
  }
}
