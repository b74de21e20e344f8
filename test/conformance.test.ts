/**
 * The public suite of the base protocol, unmodified, against a running node at `/v1/stream`.
 *
 * Nothing is left out by the suite's options. The suite's own counts are printed.
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

/** The suite at the pinned version has this many tests, at least. */
const TESTS_MIN = 338;

async function runSuite(url: string): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), 'firn-conformance-'));
  const report = join(folder, 'report.json');
  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs');
  try {
    const args = [vitest, 'run', '--config', 'test/conformance/vitest.config.ts', '--reporter=json', `--outputFile=${report}`];
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

it('the public conformance suite passes, forks and subscriptions included', { timeout: 600_000 }, async () => {
  const report = await runSuite(node.url);
  const all = report.testResults.flatMap((file) => file.assertionResults);
  const failed = all.filter((test) => test.status === 'failed');
  process.stdout.write(`public suite: ${report.numPassedTests} passed, ${report.numFailedTests} failed, ${report.numPendingTests} left out\n`);
  expect(failed.map((test) => `${test.fullName}: ${test.failureMessages[0]?.split('\n')[0] ?? ''}`)).toEqual([]);
  expect(report.testResults.map((file) => file.message).join('')).toBe('');
  expect(report.numPendingTests).toBe(0);
  expect(report.numPassedTests).toBeGreaterThanOrEqual(TESTS_MIN);
});
