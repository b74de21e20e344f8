/**
 * MinIO on loopback: its program where there is one, else a container.
 *
 * Owns: finding it, and one server in a folder and on ports of its own. Promises: `startMinio` gives a server that answers, or the reason why this machine has none; `stop` ends it and removes the folder.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { peerScript } from '../lib/peers.js';
import { freePort } from '../lib/ports.js';
import { answers, have, run, ServerProcess } from './processes.js';
import type { S3Server } from './s3-server.js';

/** The image of Docker Hub is gone. */
export const MINIO_IMAGE = 'quay.io/minio/minio:RELEASE.2025-09-07T16-13-09Z';
const USER = { accessKey: 'test', secretKey: 'testtest' };
/** Buckets are subdomains of it, for who resolves it to this machine. */
const DOMAIN = 's3.firn.test';
/** With a key of its own it encrypts what asks for it (`FIRN_S3_SSE=AES256`); the key is of no worth. */
const SETTINGS = { MINIO_DOMAIN: DOMAIN, MINIO_ROOT_USER: USER.accessKey, MINIO_ROOT_PASSWORD: USER.secretKey, MINIO_KMS_SECRET_KEY: `firn-test:${Buffer.alloc(32, 7).toString('base64')}` };
const READY_MS_MAX = 30_000;
const STOP_MS_MAX = 10_000;
const POLL_MS = 50;
const PORT_IN_CONTAINER = 9_000;

/** A server, or the reason why there is none. */
export async function startMinio(program: string | undefined): Promise<S3Server | string> {
  if (program !== undefined) return startProgram(program);
  if (have('minio')) return startProgram('minio');
  if (existsSync(peerScript())) return startPeer();
  try {
    return await startContainer();
  } catch (error) {
    return `no MinIO: no program "minio" (FIRN_TEST_MINIO names one), and no container engine: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function server(version: string, endpoint: string, stop: () => Promise<void>): S3Server {
  return { name: `MinIO ${version}`, endpoint, region: 'us-east-1', ...USER, traits: { domain: DOMAIN, encryption: { sse: 'AES256', keyId: null }, cephConf: null }, stop };
}

async function versionOf(program: string): Promise<string> {
  return /version (\S+)/.exec(await run(program, ['--version']).catch(() => ''))?.[1] ?? 'of unknown version';
}

async function startProgram(program: string): Promise<S3Server> {
  const version = await versionOf(program);
  const dir = mkdtempSync(join(tmpdir(), 'firn-minio-'));
  const port = await freePort();
  const own = new ServerProcess(program, ['server', join(dir, 'data'), '--address', `127.0.0.1:${port}`, '--console-address', `127.0.0.1:${port + 1}`], join(dir, 'output'), SETTINGS);
  const stop = async (): Promise<void> => {
    await own.stop();
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    await own.until('it does not answer', READY_MS_MAX, () => answers(`http://127.0.0.1:${port}/minio/health/live`));
  } catch (error) {
    await stop();
    throw error;
  }
  return server(version, `http://127.0.0.1:${port}`, stop);
}

async function startPeer(): Promise<S3Server> {
  const dir = mkdtempSync(join(tmpdir(), 'firn-minio-'));
  const port = await freePort();
  const pid = Number((await run(peerScript(), ['minio', dir, String(port)], SETTINGS, READY_MS_MAX)).trim());
  const kill = (): void => void process.kill(pid, 'SIGKILL');
  process.once('exit', kill);
  const stop = async (): Promise<void> => {
    process.removeListener('exit', kill);
    process.kill(pid, 'SIGTERM');
    await gone(pid);
    rmSync(dir, { recursive: true, force: true });
  };
  return server(await versionOf(`/proc/${pid}/exe`), `http://127.0.0.1:${port}`, stop);
}

async function gone(pid: number): Promise<void> {
  const deadline = performance.now() + STOP_MS_MAX;
  for (;;) {
    try {
      process.kill(pid, performance.now() > deadline ? 'SIGKILL' : 0);
    } catch {
      return;
    }
    await sleep(POLL_MS);
  }
}

async function startContainer(): Promise<S3Server> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const container = await new GenericContainer(MINIO_IMAGE)
    .withEnvironment(SETTINGS)
    .withCommand(['server', '/data'])
    .withExposedPorts(PORT_IN_CONTAINER)
    .withWaitStrategy(Wait.forHttp('/minio/health/live', PORT_IN_CONTAINER))
    .start();
  return server(MINIO_IMAGE.split(':')[1] ?? '', `http://${container.getHost()}:${container.getMappedPort(PORT_IN_CONTAINER)}`, async () => void (await container.stop()));
}
