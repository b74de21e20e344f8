/**
 * What can be said of `docker-compose.yml`, `Dockerfile` and `.dockerignore` without running them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MINIO_IMAGE } from '../../infra/services/minio.js';
import { describeConfig, loadConfig } from '../../shared/config/index.js';
import { PROJECT } from '../support/paths.js';
import { composeFile, milliseconds, service } from './compose-file.js';
import { copyOf, dockerfile, inContext } from './dockerfile.js';

const SECRETS = { FIRN_ADMIN_TOKEN: 'token-of-the-tests', MINIO_ROOT_PASSWORD: 'password-of-the-tests' };
const file = composeFile(SECRETS);
const services = Object.entries(file.services);
const environmentOf = (name: string): Record<string, string> => service(file, name).environment ?? {};

/** A named limit of a source file, ms. */
function limitOf(path: string, name: string): number {
  const [, digits = 'none'] = new RegExp(`const ${name} = ([\\d_]+);`).exec(readFileSync(join(PROJECT, path), 'utf8')) ?? [];
  return Number(digits.replaceAll('_', ''));
}

describe('docker-compose.yml', () => {
  it('has a node, two workers, Redis, MinIO, and what makes the bucket', () => {
    expect(services.map(([name]) => name)).toEqual(['node', 'worker', 'redis', 'minio', 'bucket']);
    expect(service(file, 'worker').deploy).toEqual({ replicas: 2 });
    for (const name of ['node', 'worker']) expect(service(file, name)).toMatchObject({ image: 'firn', build: '.' });
    for (const name of ['minio', 'bucket']) expect(service(file, name).image).toBe(MINIO_IMAGE);
    for (const [name, { image, build }] of services) expect(build !== undefined || /:[\w.-]*\d/.test(image), `${name} has ${image}`).toBe(true);
  });

  it('gives node and workers settings that exist, with values that they take', () => {
    const node = loadConfig({ env: environmentOf('node') });
    const worker = loadConfig({ env: environmentOf('worker'), role: 'client' });
    expect([...node.warnings, ...worker.warnings]).toEqual([]);
    expect(node).toMatchObject({ cold: 's3', jobs: 'queue', host: '0.0.0.0', adminHost: '0.0.0.0', adminToken: SECRETS.FIRN_ADMIN_TOKEN });
    expect(worker).toMatchObject({ s3: node.s3, redisUrl: node.redisUrl, adminToken: node.adminToken, nodeAdminUrl: `http://node:${node.adminPort}` });
    const known = new Set([...describeConfig().map(({ variable }) => variable), 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']);
    for (const name of ['node', 'worker']) expect(Object.keys(environmentOf(name)).filter((variable) => !known.has(variable))).toEqual([]);
  });

  it('asks for its secrets and has none of its own', () => {
    for (const missing of Object.keys(SECRETS)) expect(() => composeFile({ ...SECRETS, [missing]: '' }), missing).toThrow(`${missing} has to be set`);
    const text = readFileSync(join(PROJECT, 'docker-compose.yml'), 'utf8');
    const literal = [...text.matchAll(/^ *(\w*(?:TOKEN|SECRET|PASSWORD)\w*): (.*)$/gm)].filter(([, , value]) => !/^\$\{\w+:\?[^}]+\}$/.test(value ?? ''));
    expect(literal).toEqual([]);
  });

  it('names services, ports and volumes that are there', () => {
    const ports: Record<string, string> = { node: '4438', redis: '6379', minio: '9000' };
    for (const [name, { environment = {}, volumes = [], depends_on: needs = {} }] of services) {
      for (const [, host = '', port] of Object.values(environment).join('\n').matchAll(/(?:\/\/|@)([a-z]+):(\d+)/g)) expect([name, host, port]).toEqual([name, host, ports[host]]);
      for (const volume of volumes) expect(Object.keys(file.volumes)).toContain(volume.split(':')[0]);
      for (const [other, { condition }] of Object.entries(needs)) {
        const { healthcheck, restart } = service(file, other);
        expect(condition, `${name} waits for ${other}`).toBe(restart === 'no' ? 'service_completed_successfully' : 'service_healthy');
        expect(condition === 'service_healthy' && healthcheck === undefined, `${other} has a health check`).toBe(false);
      }
    }
    expect(new Set(services.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(':')[0])))).toEqual(new Set(Object.keys(file.volumes)));
  });

  it('keeps every byte in a volume: the directory of the image is that of the node, and a worker has none', () => {
    const data = dockerfile().flatMap(({ instructions }) => instructions).find(({ verb, text }) => verb === 'ENV' && text.includes('FIRN_DATA_DIR='));
    expect(service(file, 'node').volumes).toEqual([`data:${/FIRN_DATA_DIR=(\S+)/.exec(data?.text ?? '')?.[1]}`]);
    expect(service(file, 'worker').volumes).toBeUndefined();
    for (const name of ['redis', 'minio']) expect(service(file, name).volumes?.[0]).toMatch(/:\/data$/);
  });

  it('checks the health of all that runs on, starts it again, and leaves it the time that it takes to stop', () => {
    for (const [name, { healthcheck, restart }] of services) expect([name, healthcheck?.test[0], restart]).toEqual([name, ...(name === 'bucket' ? [undefined, 'no'] : ['CMD', 'unless-stopped'])]);
    for (const [name, path] of [['node', 'services/cli/commands/serve.ts'], ['worker', 'services/cli/commands/worker.ts']] as const) {
      expect(milliseconds(service(file, name).stop_grace_period ?? ''), name).toBeGreaterThan(limitOf(path, 'STOP_MS_MAX'));
    }
    expect(milliseconds(service(file, 'worker').healthcheck?.timeout ?? '')).toBeGreaterThan(limitOf('services/cli/commands/worker.ts', 'CHECK_MS_MAX'));
  });

  it('publishes the listeners of the node on loopback and nothing else, and gives its processes no rights', () => {
    for (const [name, { ports }] of services) expect([name, ports]).toEqual([name, name === 'node' ? ['127.0.0.1:4437:4437', '127.0.0.1:4438:4438'] : undefined]);
    for (const name of ['node', 'worker']) expect(service(file, name)).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] });
  });
});

describe('Dockerfile', () => {
  const stages = dockerfile();
  const last = stages.at(-1)!;

  it('has stages for packages and build, and an image of slim Debian with Node 20 that has neither of their tools', () => {
    expect(stages.map(({ base, name }) => [base, name])).toEqual([['node:20-bookworm', 'dependencies'], ['node:20-bookworm', 'build'], ['node:20-bookworm-slim', null]]);
    expect(last.instructions.filter(({ verb, text }) => verb === 'RUN' && /npm|apt|curl/.test(text))).toEqual([]);
  });

  it('runs as a user that is not root, in exec form', () => {
    const of = (verb: string): string[] => last.instructions.filter((one) => one.verb === verb).map(({ text }) => text);
    expect(of('USER')).toEqual(['1000:1000']);
    expect([of('ENTRYPOINT'), of('CMD')]).toEqual([['["firn"]'], ['["serve"]']]);
    expect(last.instructions.findIndex(({ verb }) => verb === 'USER')).toBeGreaterThan(last.instructions.findLastIndex(({ verb }) => verb === 'RUN' || verb === 'COPY'));
  });

  it('copies what the context has, and the context has nothing that should stay outside', () => {
    const inside = inContext();
    const copies = stages.flatMap(({ instructions }) => instructions.filter(({ verb }) => verb === 'COPY').map(copyOf)).filter(({ from }) => from === null);
    for (const { sources } of copies) for (const source of sources) expect([source, inside(source), existsSync(join(PROJECT, source))]).toEqual([source, true, true]);
    for (const path of ['.env', '.git/config', 'data/acked', 'node_modules/koa/package.json', 'dist/services/cli/main.js', 'test/tidy.test.ts', 'docs/formats.md', 'shared/config/config.test.ts', 'docker-compose.yml']) expect([path, inside(path)]).toEqual([path, false]);
    for (const path of ['services/cli/firn.cjs', 'shared/config/config.ts']) expect([path, inside(path)]).toEqual([path, true]);
  });
});
