/**
 * Programs that come as Debian packages: there already, or installed here.
 *
 * Owns: the call of `apt-get`. Promises: at most one installation at a time on a machine; a sentence that says what to do where it cannot be done.
 */
import { spawnSync } from 'node:child_process';
import { have, run } from './processes.js';

const INSTALL_MS_MAX = 600_000;
/** apt waits so long for another one, seconds. */
const LOCK_WAIT_S = 300;

/** Throws when a program is missing and cannot be installed. */
export async function ensurePrograms(programs: readonly string[], packages: readonly string[]): Promise<void> {
  const missing = programs.filter((program) => !have(program));
  if (missing.length === 0) return;
  await installPackages(packages, missing.join(', '));
  const still = programs.filter((program) => !have(program));
  if (still.length > 0) throw new Error(`${still.join(', ')} is still missing after apt-get installed ${packages.join(', ')}`);
}

/** Installs packages for the sake of `what`. Throws when that cannot be done here. */
export async function installPackages(packages: readonly string[], what: string): Promise<void> {
  const how = `apt-get install --no-install-recommends ${packages.join(' ')}`;
  if (spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).status !== 0) throw new Error(`${what} is not here, and neither is apt-get: on Debian, ${how}`);
  if (process.getuid?.() !== 0) throw new Error(`${what} is not here, and only root may install it: ${how}`);
  process.stderr.write(`installing ${packages.join(', ')} (once)\n`);
  const env = { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const lock = ['-o', `DPkg::Lock::Timeout=${LOCK_WAIT_S}`];
  await run('apt-get', ['update', '-qq', ...lock], env, INSTALL_MS_MAX);
  await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...lock, ...packages], env, INSTALL_MS_MAX);
}
