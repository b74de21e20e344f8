/**
 * The README's lines for S3, Redis and a worker, pasted into shells of their own, against real servers.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { RedisServer } from '../../infra/services/redis.js';
import { ensureBucket } from '../../infra/services/s3-server.js';
import { cleanEnv, freePort } from '../support/node.js';
import { PROJECT } from '../support/paths.js';
import { useS3 } from '../support/s3.js';

const server = await useS3();
const redis = await RedisServer.start();
const folder = mkdtempSync(join(tmpdir(), 'firn-readme-'));
const shells: ChildProcess[] = [];
afterAll(async () => {
  for (const shell of shells) await end(shell);
  await redis.dispose();
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

/** The block that names a bucket, with the servers of this test for those of the example. Each of them has to be in it. */
function example(): string {
  const blocks = [...readFileSync(join(PROJECT, 'README.md'), 'utf8').matchAll(/^```\n([\s\S]*?)^```/gm)].map(([, block = '']) => block).filter((block) => block.includes('FIRN_S3_BUCKET'));
  expect(blocks).toHaveLength(1);
  const places = { 'http://127.0.0.1:9000': server.endpoint, 'redis://127.0.0.1:6379': redis.url, '=KEY ': `=${server.accessKey} `, '=SECRET\n': `=${server.secretKey}\n`, './data-s3': join(folder, 'data') };
  return Object.entries(places).reduce((text, [there, here]) => {
    expect(text).toContain(there);
    return text.replace(there, here);
  }, blocks[0]!);
}

/** Runs lines as a terminal does, with nothing set but the ports, until they have said something. */
async function paste(lines: string, ports: Readonly<Record<string, string>>, said: string): Promise<ChildProcess> {
  const shell = spawn('bash', ['-euo', 'pipefail', '-c', lines], { cwd: PROJECT, env: cleanEnv(ports), detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  shells.push(shell);
  let output = '';
  for (const stream of [shell.stdout, shell.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  await expect.poll(() => (shell.exitCode === null ? output : `${output}\nended with ${shell.exitCode}`), { timeout: 60_000 }).toContain(said);
  return shell;
}

/** Ends a shell and what runs in it. */
async function end(shell: ChildProcess): Promise<void> {
  if (shell.exitCode !== null || shell.signalCode !== null) return;
  const ended = once(shell, 'exit');
  process.kill(-shell.pid!, 'SIGTERM');
  await ended;
}

it('a node and a worker start by the lines of the README, and seal into the bucket', { timeout: 180_000 }, async () => {
  await ensureBucket(server, 'firn');
  const port = await freePort();
  const ports = { FIRN_PORT: String(port), FIRN_ADMIN_PORT: String(port + 1) };
  const lines = example();
  await paste(lines, ports, '"event":"listening"');
  await paste(lines.replace('npm start', 'npx firn worker'), ports, '"event":"working"');
  const stream = `http://127.0.0.1:${port}/demo/hello`;
  expect((await fetch(stream, { method: 'PUT', headers: { 'content-type': 'text/plain' }, body: 'hello' })).status).toBe(201);
  const sealed = await fetch(`http://127.0.0.1:${port + 1}/__firn/seal`, { method: 'POST' });
  expect([sealed.status, await sealed.json()]).toEqual([200, { segments: 1, bytes: 5, streams: 1 }]);
  const detail = (await (await fetch(`http://127.0.0.1:${port + 1}/__firn/streams/demo/hello`)).json()) as { cold: { segments: { object: string }[] } };
  expect(detail.cold.segments).toHaveLength(1);
  expect(await (await fetch(`http://127.0.0.1:${port + 1}/__firn/healthz`)).json()).toEqual({ status: 'ok', reasons: [] });
});
