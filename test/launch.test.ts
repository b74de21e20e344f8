/**
 * How the process starts and ends: ready line, exit codes, signals, thread pool, and the commands against a running node (architecture section 3).
 */
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { cleanEnv, freePort, ownNode, useNode } from './support/node.js';
import { FIRN, PROJECT } from './support/paths.js';

const scratch = mkdtempSync(join(tmpdir(), 'firn-launch-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function firn(args: readonly string[], env: Record<string, string> = {}, stdin = ''): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [FIRN, ...args], { cwd: PROJECT, env: cleanEnv(env), maxBuffer: 1 << 24 }, (error, out, err) => resolve({ code: error === null ? 0 : Number(error.code), out, err }));
    child.stdin?.end(stdin);
  });
}

async function settingsFor(name: string): Promise<Record<string, string>> {
  return { FIRN_PORT: String(await freePort()), FIRN_ADMIN_PORT: String(await freePort()), FIRN_DATA_DIR: join(scratch, name) };
}

describe('npm start', () => {
  it('prints one ready line with both addresses, serves, and ends with 0 on SIGTERM', async () => {
    const env = await settingsFor('npm');
    const child = spawn('npm', ['start', '--silent'], { cwd: PROJECT, env: cleanEnv(env), stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = new Promise<[number | null, string | null]>((resolve) => child.once('exit', (code, signal) => resolve([code, signal])));
    let out = '';
    await new Promise<void>((resolve, reject) => {
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        out += text;
        if (out.includes('"listening"')) resolve();
      });
      void exited.then((how) => reject(new Error(`npm start ended with ${how.join(' ')}: ${out}`)));
    });
    const ready = out.split('\n').filter((line) => line.includes('"listening"')).map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(ready).toHaveLength(1);
    expect(ready[0]).toMatchObject({ event: 'listening', client: `http://127.0.0.1:${env['FIRN_PORT']}`, admin: `http://127.0.0.1:${env['FIRN_ADMIN_PORT']}` });
    expect((await fetch(`http://127.0.0.1:${env['FIRN_PORT']}/v1/stream/launch`, { method: 'PUT' })).status).toBe(201);
    expect((await fetch(`http://127.0.0.1:${env['FIRN_ADMIN_PORT']}/__firn/readyz`)).status).toBe(200);
    child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    await expect(fetch(`http://127.0.0.1:${env['FIRN_PORT']}/v1/stream/launch`)).rejects.toThrow('fetch failed');
  });
});

describe('firn serve', () => {
  const node = ownNode({ FIRN_LOG: 'silent' });

  it('is announced whatever the log level, has its threads, and ends with 0 on SIGINT too', async () => {
    await node.start();
    expect(node.output.split('\n')).toHaveLength(1);
    await Promise.all(Array.from({ length: 64 }, (_, n) => node.http.send('PUT', `/v1/stream/threads-${n}`)));
    // 16 of libuv's pool beside those that any Node process has.
    expect(readdirSync(`/proc/${node.pid}/task`).length).toBeGreaterThanOrEqual(16 + 5);
    process.kill(node.pid, 'SIGINT');
    expect(await node.exited).toEqual({ code: 0, signal: null });
  });

  it('R095 leaves a running node alone: a second one on its directory ends with a sentence', async () => {
    await node.start();
    for (let tries = 0; tries < 2; tries += 1) {
      const second = await firn(['serve'], { ...(await settingsFor('unused')), FIRN_DATA_DIR: node.dataDir });
      expect(second.code).toBe(1);
      expect(second.err).toMatch(/^firn: the node did not start: /m);
      expect(second.out).not.toContain('listening');
    }
    expect((await node.http.send('PUT', '/v1/stream/still-here')).status).toBe(201);
    expect(await node.stop()).toEqual({ code: 0, signal: null });
  });

  it('ends with 2 for wrong settings, and with 1 for what this version lacks or an address that is taken', async () => {
    expect(await firn(['serve'], { FIRN_HOST: '0.0.0.0' })).toMatchObject({ code: 2, out: '', err: expect.stringContaining('FIRN_ALLOW_OPEN=1') });
    expect(await firn(['serve'], { FIRN_COLD: 's3' })).toMatchObject({ code: 2, err: expect.stringContaining('FIRN_S3_BUCKET') });
    const taken = createServer();
    const port = await new Promise<number>((resolve) => taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { port: number }).port)));
    const refused = await firn(['serve'], { ...(await settingsFor('taken')), FIRN_PORT: String(port) });
    taken.close();
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/^firn: .*port \d+ is in use by another process: choose another one with FIRN_PORT$/m) });
  });
});

describe('commands against a running node', () => {
  const node = useNode();
  const env = (): Record<string, string> => ({ FIRN_PORT: new URL(node.url).port, FIRN_ADMIN_PORT: new URL(node.adminUrl).port, FIRN_DATA_DIR: node.dataDir });

  it('npx firn finds the program of the clone', async () => {
    const out = await new Promise<string>((resolve, reject) => execFile('npx', ['firn', 'streams', '--prefix', 'nothing/'], { cwd: PROJECT, env: cleanEnv(env()) }, (error, stdout) => (error === null ? resolve(stdout) : reject(error))));
    expect(out).toBe('');
  });

  it('append, list, follow', async () => {
    expect(await firn(['append', 'demo/cli', 'one\n', '--create'], env())).toEqual({ code: 0, out: '00000000000000000004\n', err: '' });
    expect((await firn(['append', 'demo/cli', '--close'], env(), 'two\n')).out).toBe('00000000000000000008\n');
    expect(await firn(['tail', 'demo/cli'], env())).toEqual({ code: 0, out: 'one\ntwo\n', err: '' });
    expect((await firn(['tail', 'demo/cli', '--from', '4'], env())).out).toBe('two\n');
    const rows = (await firn(['streams', '--prefix', 'demo/cli'], env())).out.trim().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rows).toEqual([expect.objectContaining({ key: 'demo/cli', contentType: 'text/plain', tail: '00000000000000000008', closed: true })]);
    expect(await firn(['append', 'demo/cli', 'three'], env())).toMatchObject({ code: 1, err: expect.stringContaining('STREAM_CLOSED') });
  });

  it('follow bytes of every value', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
    await node.http.send('PUT', '/demo/cli-bytes', { headers: { 'content-type': 'application/octet-stream', 'stream-closed': 'true' }, body: bytes });
    const out = await new Promise<Buffer>((resolve, reject) => execFile(process.execPath, [FIRN, 'tail', 'demo/cli-bytes'], { cwd: PROJECT, env: cleanEnv(env()), encoding: 'buffer' }, (error, stdout) => (error === null ? resolve(stdout) : reject(error))));
    expect(out.equals(bytes)).toBe(true);
  });

  it('publish and fetch a snapshot, and bootstrap', async () => {
    await firn(['append', 'demo/cli-snap', 'abc', '--create'], env());
    const [from, to] = [join(scratch, 'snap-in'), join(scratch, 'snap-out')];
    writeFileSync(from, 'the state');
    const published = await firn(['snapshot', 'put', 'demo/cli-snap', '3', from, '--content-type', 'text/plain'], env());
    expect(JSON.parse(published.out)).toMatchObject({ offset: '00000000000000000003' });
    expect(await firn(['snapshot', 'get', 'demo/cli-snap'], env())).toEqual({ code: 0, out: 'the state', err: '' });
    expect((await firn(['snapshot', 'get', 'demo/cli-snap', '3', '--out', to], env())).code).toBe(0);
    expect(readFileSync(to, 'utf8')).toBe('the state');
    const bootstrap = await firn(['bootstrap', 'demo/cli-snap'], env());
    expect(bootstrap.out).toContain('the state');
    expect(JSON.parse(bootstrap.err)).toMatchObject({ snapshotOffset: '00000000000000000003', nextOffset: '00000000000000000003', upToDate: true });
  });

  it('checkpoint and verify by the node', async () => {
    await node.seal();
    const checkpoint = JSON.parse((await firn(['checkpoint'], env())).out) as { checkpoints: { partition: number }[] };
    expect(checkpoint.checkpoints.map((row) => row.partition)).toEqual([0]);
    for (const args of [['verify'], ['verify', '--deep']]) expect(await firn(args, env())).toMatchObject({ code: 0, err: '' });
  });
});
