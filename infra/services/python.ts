/**
 * A Python with packages from PyPI, for tests with clients that are written in it.
 *
 * Owns: a virtual environment in a directory of its own. Promises: nothing of the machine's own Python is changed; `dispose` leaves nothing behind.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensurePrograms, installPackages } from './debian.js';
import { run } from './processes.js';

const INSTALL_MS_MAX = 300_000;

export class PythonEnvironment {
  private constructor(readonly python: string, private readonly folder: string) {}

  /** `packages`: as for pip, with versions. Throws when there is no Python, or PyPI cannot be reached. */
  static async with(packages: readonly string[]): Promise<PythonEnvironment> {
    await ensurePrograms(['python3'], ['python3']);
    const folder = mkdtempSync(join(tmpdir(), 'firn-python-'));
    try {
      await makeEnvironment(folder);
      const python = join(folder, 'bin', 'python');
      await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages], {}, INSTALL_MS_MAX);
      return new PythonEnvironment(python, folder);
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Debian ships the module that makes environments in a package of its own. */
async function makeEnvironment(folder: string): Promise<void> {
  try {
    await run('python3', ['-m', 'venv', folder]);
  } catch {
    await installPackages(['python3-venv'], 'the module venv of Python');
    await run('python3', ['-m', 'venv', '--clear', folder]);
  }
}
