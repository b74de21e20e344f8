/**
 * Workers under test: `firn worker` in processes of their own, or a worker that ends itself at a named step.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { cleanEnv, type Env, type Exit, type FirnNode } from './node.js';
import { FIRN, PROJECT } from './paths.js';

const READY_MS_MAX = 30_000;
const OUTPUT_MAX = 200_000;

export class FirnWorker {
  output = '';
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcess;

  /** `script`: with its arguments; the command line of the project when left out. */
  constructor(settings: Env, script: readonly string[] = [FIRN, 'worker']) {
    this.#child = spawn(process.execPath, [...script], { cwd: PROJECT, env: cleanEnv(settings), stdio: ['ignore', 'pipe', 'pipe'] });
    this.exited = new Promise((resolve) => this.#child.once('exit', (code, signal) => resolve({ code, signal })));
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.setEncoding('utf8').on('data', (text: string) => (this.output = (this.output + text).slice(-OUTPUT_MAX)));
  }

  /** Resolves when it works; throws when it ends before. */
  async ready(): Promise<this> {
    let gone: Exit | null = null;
    void this.exited.then((exit) => {
      gone = exit;
    });
    for (const end = Date.now() + READY_MS_MAX; !this.output.includes('"event":"working"'); await new Promise((resolve) => setTimeout(resolve, 20))) {
      if (gone !== null || Date.now() > end) throw new Error(`the worker ${gone === null ? 'did not get ready' : `ended: ${JSON.stringify(gone)}`}\n${this.output.slice(-4_000)}`);
    }
    return this;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<Exit> {
    this.#child.kill(signal);
    return this.exited;
  }
}

/** Starts workers, and ends them after the file's last test. */
export function useWorkers(): { readonly start: (settings: Env, script?: readonly string[]) => FirnWorker; readonly endAll: () => Promise<void> } {
  const running = new Set<FirnWorker>();
  const endAll = async (): Promise<void> => {
    const all = [...running];
    running.clear();
    await Promise.all(all.map((worker) => worker.end('SIGKILL')));
  };
  afterAll(endAll, 60_000);
  return {
    start: (settings, script) => {
      const worker = new FirnWorker(settings, script);
      running.add(worker);
      return worker;
    },
    endAll,
  };
}

/** What a worker has to know of its node. */
export function workerSettings(node: FirnNode, settings: Env): Env {
  const { FIRN_DATA_DIR: _dir, FIRN_JOBS: _jobs, ...rest } = settings;
  return { ...rest, FIRN_NODE_ADMIN_URL: node.adminUrl };
}

/** A worker that ends itself by SIGKILL at the n-th time that it comes to a step (see the script for their names). */
export function dyingWorker(step: string, occurrence: number): readonly string[] {
  return [join(PROJECT, 'test', 'support', 'dying-worker.mjs'), step, String(occurrence)];
}

/** The steps of a worker, each before or after something that leaves the process. */
export const WORKER_STEPS: readonly (readonly [string, number])[] = [
  ['taken', 1], ['item', 1], ['item', 4], ['put:before', 1], ['put:after', 1], ['put:after', 2], ['commit:before', 1], ['commit:sent', 1], ['commit:after', 1],
  ['snapshot:piece', 1], ['snapshot:piece', 3], ['unique:after', 1], ['offload:before', 1], ['offload:sent', 1], ['offload:after', 1],
];
