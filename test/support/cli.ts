/** Runs the command line of the project to its end. */
import { spawn } from 'node:child_process';
import { cleanEnv } from './node.js';
import type { Env, FirnNode } from './node.js';
import { FIRN, PROJECT } from './paths.js';

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function firn(args: readonly string[], settings: Env): Promise<Run> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [FIRN, ...args], { cwd: PROJECT, env: cleanEnv(settings), stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (piece: string) => (stdout += piece));
    child.stderr.setEncoding('utf8').on('data', (piece: string) => (stderr += piece));
    const late = setTimeout(() => child.kill('SIGKILL'), 120_000);
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(late);
      resolve({ code, stdout, stderr });
    });
  });
}

/** The settings by which a command finds a node and its directory. */
export function settingsFor(node: FirnNode, more: Env = {}): Env {
  return { FIRN_DATA_DIR: node.dataDir, FIRN_PORT: new URL(node.url).port, FIRN_ADMIN_PORT: new URL(node.adminUrl).port, ...more };
}
