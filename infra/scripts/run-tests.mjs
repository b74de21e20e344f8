/**
 * `npm test`: type check, lint and tests, each with its own output; ends with each runner's count and, alone on the last line, the sum.
 *
 * One S3 server is started for all tests, unless `FIRN_TEST_S3_ENDPOINT` names one; without any, the files that need one say why they fail.
 * Arguments are passed on to vitest (`npm test -- shared/config`). Promises: anything that did not run or reported nothing counts as failed.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROJECT } from './lib.mjs';

const bin = (name, path) => join(PROJECT, 'node_modules', name, path);
const scratch = mkdtempSync(join(tmpdir(), 'firn-tests-'));
const filters = process.argv.slice(2);

let child = null;
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child?.kill(signal));

/** Runs one program to its end with output passed through; resolves with its exit code, or the signal that ended it. */
function stream(args) {
  return new Promise((resolve) => {
    child = spawn(process.execPath, args, { cwd: PROJECT, stdio: 'inherit' });
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ?? code));
  });
}

/** A runner that is one check: passed with exit code 0. */
async function check(name, args) {
  process.stdout.write(`\n== ${name}\n`);
  const code = await stream(args);
  return { name, passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, note: code === 0 ? '' : `ended with ${code}` };
}

function countsOf(report) {
  if (!existsSync(report)) return null;
  const { numPassedTests: passed, numFailedTests: failed, numFailedTestSuites: suites, numPendingTests: skipped, numTodoTests: todo } = JSON.parse(readFileSync(report, 'utf8'));
  // A file that cannot be loaded has no tests to fail.
  return { passed, failed: Math.max(failed, suites > 0 ? 1 : 0), skipped: skipped + todo };
}

async function vitest(name, args) {
  process.stdout.write(`\n== ${name}\n`);
  const report = join(scratch, `${name}.json`);
  const code = await stream([bin('vitest', 'vitest.mjs'), 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`, ...args]);
  const counts = countsOf(report);
  if (counts === null) return { name, passed: 0, failed: 1, note: `no report, ended with ${code}` };
  const notes = [];
  if (counts.skipped > 0) notes.push(`${counts.skipped} skipped`);
  if (counts.passed + counts.failed === 0) notes.push('no test ran');
  if (code !== 0) notes.push(`ended with ${code}`);
  const broken = counts.passed + counts.failed === 0 || (code !== 0 && counts.failed === 0);
  return { name, passed: counts.passed, failed: counts.failed + (broken ? 1 : 0), note: notes.join(', ') };
}

/** Starts the S3 server of this run and names it in the environment of the tests; resolves with how it is stopped. */
async function startS3() {
  const { namedS3, startS3: start } = await import('../../dist/infra/services/s3.js');
  const { credentialsOf } = await import('../../dist/infra/services/s3-server.js');
  try {
    const server = namedS3(process.env) ?? (await start(process.env));
    Object.assign(process.env, { FIRN_TEST_S3_ENDPOINT: server.endpoint, FIRN_TEST_S3_NAME: server.name, FIRN_TEST_S3_TRAITS: JSON.stringify(server.traits), ...credentialsOf(server) });
    process.stdout.write(`\nS3 server of this run: ${server.name} at ${server.endpoint}\n`);
    return server.stop;
  } catch (error) {
    process.stdout.write(`\n${error.message}\n`);
    return async () => undefined;
  }
}

// The AWS SDK announces on standard error which Node its future versions want.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
const results = [];
let stopS3 = async () => undefined;
try {
  results.push(await check('typecheck', [bin('typescript', 'bin/tsc'), '-p', 'tsconfig.json', '--noEmit']));
  results.push(await check('lint', [bin('oxlint', 'bin/oxlint'), '--deny-warnings', 'services', 'shared', 'infra', 'test']));
  stopS3 = await startS3();
  results.push(await vitest('tests', filters));
} finally {
  await stopS3();
  rmSync(scratch, { recursive: true, force: true });
}

process.stdout.write('\n');
for (const { name, passed, failed, note } of results) process.stdout.write(`${name}: ${passed} passed, ${failed} failed${note === '' ? '' : ` (${note})`}\n`);
const sum = (key) => results.reduce((total, result) => total + result[key], 0);
process.exitCode = sum('failed') === 0 ? 0 : 1;
process.stdout.write(`${sum('passed')} passed, ${sum('failed')} failed\n`);
