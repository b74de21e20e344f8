/**
 * Runs once before all test files: compiles the project if its sources changed, so that tests start the very program that `npm start` starts.
 *
 * `FIRN_TEST_BUILD=0` leaves it out (the tests of single modules need no build). A build that fails ends the run.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT } from './paths.js';

export default async function build(): Promise<void> {
  if (process.env['FIRN_TEST_BUILD'] === '0') return;
  try {
    await promisify(execFile)(process.execPath, [join(PROJECT, 'infra', 'scripts', 'ensure-build.mjs')], { cwd: PROJECT, maxBuffer: 16 * 1024 * 1024 });
  } catch (error) {
    const output = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    throw new Error(`the project does not compile:\n${output.slice(0, 8_000)}`, { cause: error });
  }
}
