/**
 * The demonstration as `npm run demo -- --s3` runs it: a real S3 server, Redis and two workers, one of them killed; and what it leaves behind.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { cleanEnv } from './support/node.js';
import { PROJECT } from './support/paths.js';

/** Everything of one run lies in here: its folders, and the folders of what it starts. */
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'firn-demo-test-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** `interruptAt`: SIGINT as soon as this stands on standard error. */
function demo(args: readonly string[], interruptAt: string | null = null): Promise<Ended> {
  const child = spawn(process.execPath, [join(PROJECT, 'dist', 'infra', 'demo', 'main.js'), ...args], { cwd: PROJECT, env: { ...cleanEnv({}), TMPDIR: folder }, stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  let interrupted = false;
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    if (interruptAt === null || interrupted || !stderr.includes(interruptAt)) return;
    interrupted = true;
    child.kill('SIGINT');
  });
  return new Promise((resolve) => child.once('exit', (code) => resolve({ code, stdout, stderr })));
}

/** Processes that have to do with a folder. */
function processesOf(path: string): string[] {
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid).flatMap((pid) => {
    try {
      const about = readFileSync(`/proc/${pid}/cmdline`, 'utf8') + readFileSync(`/proc/${pid}/environ`, 'utf8');
      return about.includes(path) ? [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')] : [];
    } catch {
      // It ended meanwhile.
      return [];
    }
  });
}

function expectNothingLeft(): void {
  expect(processesOf(folder)).toEqual([]);
  expect(readdirSync(folder)).toEqual([]);
}

it('with S3, Redis and two workers, one of them killed half-way, every byte comes back, and nothing stays behind', { timeout: 240_000 }, async () => {
  const { code, stdout, stderr } = await demo(['--s3']);
  expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
  expect(stderr).toMatch(/half-way: kill -9 of the worker \d+/);
  expect(stdout).toContain('Every byte came back as it was sent.');
  const row = (name: string): string => stdout.split('\n').find((line) => line.startsWith(`${name}  `)) ?? '';
  expect(row('records')).toContain('20,000 in ');
  expect(Number(/objects +(\d+),/.exec(row('objects'))?.[1])).toBeGreaterThan(0);
  for (const name of ['PUTs', 'GETs']) expect(row(name)).toMatch(/node [1-9][\d,]*, workers [1-9]/);
  expect(row('bytes to the object store')).toMatch(/node [\d.]+ KiB, workers [\d.]+ MiB/);
  expect(row('bytes from the object store')).toMatch(/node [\d.]+ MiB, workers/);
  expectNothingLeft();
});

it('ends everything that it started when it is interrupted', { timeout: 120_000 }, async () => {
  const { code } = await demo(['--s3'], 'start 2 workers');
  expect(code).toBe(130);
  expectNothingLeft();
});

it('runs without any service, and says what its objects cost', { timeout: 120_000 }, async () => {
  const { code, stdout, stderr } = await demo([]);
  expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/PUTs +node [1-9][\d,]*, workers 0/);
  expectNothingLeft();
});
