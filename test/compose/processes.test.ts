/**
 * The services of `docker-compose.yml` as processes, without a container engine: their very command lines, environment and health checks, from the image that the
 * Dockerfile makes, as its user. Hosts and ports are those of this machine; the S3 server it has stands for MinIO, and the SDK for MinIO's client.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensurePrograms } from '../../infra/services/debian.js';
import { RedisServer } from '../../infra/services/redis.js';
import { ensureBucket } from '../../infra/services/s3-server.js';
import { Http } from '../support/http.js';
import { freePort } from '../support/node.js';
import { useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';
import { until } from '../workers/rig.js';
import { composeFile, milliseconds, service, type Service } from './compose-file.js';
import { Image, type Environment, type Running } from './image.js';

const s3 = await useS3();
const [clientPort, adminPort] = [await freePort(), await freePort()];
const TOKEN = 'token-of-the-tests';
const BUCKET = `compose-${randomBytes(6).toString('hex')}`;
const file = composeFile({ FIRN_ADMIN_TOKEN: TOKEN, MINIO_ROOT_USER: s3.accessKey, MINIO_ROOT_PASSWORD: s3.secretKey, FIRN_S3_BUCKET: BUCKET });

let redis: RedisServer;
let image: Image;
const running = new Set<Running>();

beforeAll(async () => {
  await ensurePrograms(['redis-cli'], ['redis-tools']);
  redis = await RedisServer.start({ args: service(file, 'redis').command.slice(1) });
  image = await Image.build();
}, 120_000);
afterAll(async () => {
  for (const one of running) await one.end('SIGKILL');
  await redis?.dispose();
  image?.dispose();
}, 60_000);

/** What a service says, with the places of this machine in place of the network of containers. */
function here(text: string): string {
  return text
    .replaceAll('redis://redis:6379', redis.url)
    .replaceAll('http://minio:9000', s3.endpoint)
    .replaceAll('http://node:4438', `http://127.0.0.1:${adminPort}`)
    .replaceAll('http://127.0.0.1:4438', `http://127.0.0.1:${adminPort}`)
    .replaceAll('0.0.0.0', '127.0.0.1');
}

function environmentOf({ environment = {} }: Service): Environment {
  return { ...Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, here(value)])), FIRN_PORT: String(clientPort), FIRN_ADMIN_PORT: String(adminPort) };
}

function start(name: string, command: readonly string[] = service(file, name).command): Running {
  const own = service(file, name);
  const process = image.start(command, environmentOf(own));
  running.add(process);
  void process.exited.then(() => running.delete(process));
  return process;
}

async function healthOf(name: string): Promise<number | null> {
  const own = service(file, name);
  const [kind, ...argv] = own.healthcheck?.test ?? [];
  expect(kind).toBe('CMD');
  if (name === 'redis') argv.splice(1, 0, '-p', new URL(redis.url).port);
  return (await image.exec(argv.map(here), environmentOf(own)).exited).code;
}

/** Ends as `docker compose stop` ends it. */
async function stop(name: string, process: Running): Promise<void> {
  const began = performance.now();
  expect(await process.end(), process.output.slice(-2_000)).toEqual({ code: 0, signal: null });
  expect(performance.now() - began, name).toBeLessThan(milliseconds(service(file, name).stop_grace_period ?? ''));
}

describe('the image', () => {
  it('carries the build, what it needs, and nothing that it was made with', () => {
    expect(readdirSync(image.at('/app')).sort()).toEqual(['dist', 'node_modules', 'package.json', 'services']);
    expect(readdirSync(image.at('/app/services/cli'))).toEqual(['firn.cjs']);
    expect(readdirSync(image.at('/app/dist')).sort()).toEqual(['services', 'shared']);
    for (const name of ['typescript', 'vitest', 'testcontainers', 'oxlint']) expect(existsSync(image.at(`/app/node_modules/${name}`)), name).toBe(false);
  });

  it('starts every command by its short name', async () => {
    for (const args of [['--help'], ['serve', '--help'], ['worker', '--help'], ['restore', '--help']]) expect((await image.start(args, {}).exited).code, args.join(' ')).toBe(0);
  });
});

describe('redis', () => {
  it('keeps what it was told over a restart, and evicts nothing', async () => {
    for (const [name, value] of [['appendonly', 'yes'], ['appendfsync', 'everysec'], ['maxmemory-policy', 'noeviction'], ['maxmemory', String(256 * 1_048_576)]] as const) expect(await redis.command('CONFIG', 'GET', name)).toEqual([name, value]);
    expect(await healthOf('redis')).toBe(0);
    await redis.command('SET', 'kept', 'yes');
    await redis.down();
    expect(await healthOf('redis')).not.toBe(0);
    await redis.up();
    expect(await redis.command('GET', 'kept')).toBe('yes');
  });
});

describe('node and workers', () => {
  const [client, admin] = [new Http(`http://127.0.0.1:${clientPort}`), new Http(`http://127.0.0.1:${adminPort}`)];
  const content = randomBytes(700_000);
  const stream = new Stream(client, '/demo/compose');
  const ask = (method: string, path: string, token = TOKEN): ReturnType<Http['send']> => admin.send(method, path, { headers: { authorization: `Bearer ${token}` } });
  afterAll(() => Promise.all([client.close(), admin.close()]));

  it('makes the bucket that the node is told of', async () => {
    const { entrypoint, command, environment = {} } = service(file, 'bucket');
    const [, name = ''] = command.at(-1)?.split('/') ?? [];
    expect([entrypoint, command, environment]).toEqual([['mc'], ['mb', '--ignore-existing', `store/${name}`], { MC_HOST_store: `http://${s3.accessKey}:${s3.secretKey}@minio:9000` }]);
    for (let times = 0; times < 2; times += 1) await ensureBucket(s3, name);
    for (const other of ['node', 'worker']) expect(environmentOf(service(file, other))['FIRN_S3_BUCKET']).toBe(name);
  });

  it('append, seal by workers, and read back from S3 when the disk of the node is gone', { timeout: 240_000 }, async () => {
    for (const name of ['node', 'worker']) expect(await healthOf(name), `${name} before it runs`).not.toBe(0);
    let node = await start('node').says('"event":"listening"');
    const workers = await Promise.all(Array.from({ length: service(file, 'worker').deploy?.replicas ?? 1 }, () => start('worker').says('"event":"working"')));
    expect(workers).toHaveLength(2);
    for (const name of ['node', 'worker', 'redis']) expect(await healthOf(name), name).toBe(0);
    expect((await ask('GET', '/__firn/healthz', 'another')).status).toBe(401);
    for (const process of [node, ...workers]) expect(statSync(`/proc/${process.pid}`).uid).toBe(image.identity.uid ?? userInfo().uid);

    expect((await stream.create({ type: OCTETS })).status).toBe(201);
    expect((await stream.append(content)).status).toBe(204);
    expect((await ask('POST', '/__firn/seal')).json()).toMatchObject({ streams: 1 });
    await until('a worker says that it sealed', async () => ((await ask('GET', '/__firn/jobs')).json() as { jobs: { seal: { done: number } } }).jobs.seal.done > 0);
    expect((await ask('GET', '/__firn/healthz')).json()).toEqual({ status: 'ok', reasons: [] });

    const listed = image.exec(['firn', 'streams'], environmentOf(service(file, 'node')));
    expect([(await listed.exited).code, listed.output]).toEqual([0, expect.stringContaining('"key":"demo/compose"')]);
    await stop('node', node);
    expect(await healthOf('node')).not.toBe(0);
    const data = image.at('/var/lib/firn');
    for (const entry of readdirSync(data)) rmSync(join(data, entry), { recursive: true });
    const restored = start('node', ['restore']);
    expect((await restored.exited).code, restored.output).toBe(0);
    node = await start('node').says('"event":"listening"');
    expect((await stream.all('0')).equals(content)).toBe(true);
    expect((await ask('GET', '/__firn/metrics')).text).toMatch(new RegExp(`^firn_read_bytes_total\\{tier="cold"\\} ${content.length}$`, 'm'));
    for (const worker of workers) await stop('worker', worker);
    await stop('node', node);
  });
});
