/**
 * The public suite of the base protocol, unmodified, against a running node at `/v1/stream`.
 *
 * Forks are a group of the suite that is left out by name until this server has them, subscriptions by the suite's own option. The suite's own
 * counts are printed, what was left out included.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { cleanEnv, useNode } from './support/node.js';
import { PROJECT } from './support/paths.js';

const node = useNode();

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly testResults: readonly { readonly message: string; readonly assertionResults: readonly { readonly fullName: string; readonly status: string; readonly failureMessages: readonly string[] }[] }[];
}

/** Every test whose full name does not begin with `Fork - `. */
const OUTSIDE_FORKS = '^\\s*(?!Fork - )';
/** The suite at the pinned version has this many tests outside forks and subscriptions, at least. */
const TESTS_MIN = 200;

async function runSuite(url: string): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), 'firn-conformance-'));
  const report = join(folder, 'report.json');
  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs');
  try {
    const args = [vitest, 'run', '--config', 'test/conformance/vitest.config.ts', '--reporter=json', `--outputFile=${report}`, '--testNamePattern', OUTSIDE_FORKS];
    let output = '';
    await new Promise<void>((resolve, reject) => {
      const child = spawn(process.execPath, args, { cwd: PROJECT, env: cleanEnv({ CONFORMANCE_TEST_URL: url }), stdio: ['ignore', 'pipe', 'pipe'] });
      child.stdout.on('data', (piece: Buffer) => (output = (output + piece.toString()).slice(-4_000)));
      child.stderr.on('data', (piece: Buffer) => (output = (output + piece.toString()).slice(-4_000)));
      child.once('error', reject);
      child.once('exit', () => resolve());
    });
    try {
      return JSON.parse(readFileSync(report, 'utf8')) as Report;
    } catch (error) {
      throw new Error(`the suite left no report:\n${output}`, { cause: error });
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

it('the public conformance suite passes outside forks and subscriptions', { timeout: 600_000 }, async () => {
  const report = await runSuite(node.url);
  const all = report.testResults.flatMap((file) => file.assertionResults);
  const failed = all.filter((test) => test.status === 'failed');
  const forks = all.filter((test) => test.fullName.trim().startsWith('Fork - ')).length;
  process.stdout.write(
    `public suite: ${report.numPassedTests} passed, ${report.numFailedTests} failed, ${report.numPendingTests} left out (${forks} on forks, ${report.numPendingTests - forks} on subscriptions)\n`,
  );
  expect(failed.map((test) => `${test.fullName}: ${test.failureMessages[0]?.split('\n')[0] ?? ''}`)).toEqual([]);
  expect(report.testResults.map((file) => file.message).join('')).toBe('');
  expect(report.numPassedTests).toBeGreaterThan(TESTS_MIN);
});
