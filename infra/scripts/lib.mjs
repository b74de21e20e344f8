/**
 * What the launch scripts share: where the project lies, one process at a time, and running a program with its output passed on.
 *
 * Plain Node without dependencies: these scripts run before anything is installed.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const PROJECT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Longest wait for another process that installs or builds, ms. */
const LOCK_WAIT_MS_MAX = 600_000;
const LOCK_POLL_MS = 100;

/** Ends the script with a sentence on standard error. */
export function fail(sentence) {
  process.stderr.write(`firn: ${sentence}\n`);
  process.exit(1);
}

/** Runs a program in the project; its output goes to standard error, so that standard output stays the caller's. Resolves with its exit code. */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: PROJECT, stdio: ['ignore', 2, 2], ...options });
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve(signal === null ? code : 128));
  });
}

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function holderOf(folder) {
  try {
    return Number(readFileSync(join(folder, 'pid'), 'utf8'));
  } catch {
    return null;
  }
}

/** A folder without a pid is either brand new or was left by a process that died between two steps. */
function abandoned(folder) {
  const holder = holderOf(folder);
  if (holder !== null) return !alive(holder);
  try {
    return Date.now() - statSync(folder).mtimeMs > 5_000;
  } catch {
    return false;
  }
}

/** Runs `work` while no other process of this clone installs or builds. */
export async function exclusively(work) {
  const folder = join(tmpdir(), `firn-setup-${createHash('sha256').update(PROJECT).digest('hex').slice(0, 16)}`);
  const deadline = Date.now() + LOCK_WAIT_MS_MAX;
  for (;;) {
    try {
      mkdirSync(folder);
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (abandoned(folder)) rmSync(folder, { recursive: true, force: true });
    else if (Date.now() > deadline) fail(`another process has been installing or building for ten minutes (${folder})`);
    else await new Promise((resolve) => setTimeout(resolve, LOCK_POLL_MS));
  }
  writeFileSync(join(folder, 'pid'), String(process.pid));
  try {
    return await work();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** true when this file was started as a program. */
export function isMain(url) {
  return process.argv[1] !== undefined && fileURLToPath(url) === process.argv[1];
}
