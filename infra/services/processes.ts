/**
 * Server processes for tests and demonstrations.
 *
 * Owns: their start, their output (a file in the server's folder) and their end. Promises: each is a child of this process and ends with it, by `stop`, or at the latest when this
 * process is gone, however it went (where `setpriv` can arrange that).
 */
import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const STOP_MS_MAX = 5_000;
const POLL_MS = 50;
const OUTPUT_BYTES_MAX = 64 * 1_024 * 1_024;

export type Environment = Readonly<Record<string, string>>;

/** Whether a program is on the path. */
export function have(program: string): boolean {
  return spawnSync('which', [program], { stdio: 'ignore' }).status === 0;
}

/** Runs a program to its end; throws with its output when it fails. */
export async function run(program: string, args: readonly string[], env: Environment = {}, timeoutMs = 120_000): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [...args], { env: { ...process.env, ...env }, timeout: timeoutMs, maxBuffer: OUTPUT_BYTES_MAX });
  return stdout;
}

/** Ends with this process even when that is killed. */
function bound(program: string, args: readonly string[]): [string, string[]] {
  return have('setpriv') ? ['setpriv', ['--pdeathsig', 'KILL', program, ...args]] : [program, [...args]];
}

export class ServerProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #onExit = (): void => void this.#child.kill('SIGKILL');
  #gone = false;

  /** `output`: path of a file. */
  constructor(readonly name: string, args: readonly string[], private readonly output: string, env: Environment = {}) {
    const file = openSync(output, 'a');
    const [program, all] = bound(name, args);
    this.#child = spawn(program, all, { stdio: ['ignore', file, file], env: { ...process.env, ...env } });
    closeSync(file);
    this.#exited = new Promise((resolve) => {
      const end = (): void => {
        this.#gone = true;
        process.removeListener('exit', this.#onExit);
        resolve();
      };
      this.#child.once('exit', end);
      this.#child.once('error', end);
    });
    process.once('exit', this.#onExit);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Asks until `check` holds. Throws when the server ends or the time is up, with the end of its output. */
  async until(what: string, timeoutMs: number, check: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    while (!(await check().catch(() => false))) {
      if (this.#gone || performance.now() > deadline) throw new Error(`${this.name} ${this.#gone ? 'ended' : 'did not get ready'}: ${what}\n${readFileSync(this.output, 'utf8').slice(-2_000)}`);
      await sleep(POLL_MS);
    }
  }

  /** Sends a signal: `SIGSTOP` and `SIGCONT` freeze and thaw it. */
  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** SIGTERM, after a while SIGKILL. */
  async stop(graceMs = STOP_MS_MAX): Promise<void> {
    if (this.#gone) return;
    this.#child.kill('SIGTERM');
    const late = setTimeout(() => this.#child.kill('SIGKILL'), graceMs);
    await this.#exited;
    clearTimeout(late);
  }
}

/** Whether something answers HTTP there, with whatever status. */
export async function answers(url: string): Promise<boolean> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(2_000) });
  await answer.arrayBuffer();
  return true;
}
