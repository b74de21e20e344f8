/**
 * What differs from store to store: encryption, addressing, credentials that rotate, clocks that disagree, objects that are shown late.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import dns from 'node:dns';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { HeadObjectCommand } from '@aws-sdk/client-s3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cephKey } from '../../infra/services/ceph.js';
import { clientOf } from '../../infra/services/s3-server.js';
import { firn, settingsFor } from '../support/cli.js';
import { errorBody, FaultProxy } from '../support/fault-proxy.js';
import { FirnNode, type Env } from '../support/node.js';
import { PROJECT } from '../support/paths.js';
import { BUCKET, s3Settings, storeOn, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';

const server = await useS3();
const BODY = randomBytes(3_000_000);

const ends: (() => unknown)[] = [];
let proxy: FaultProxy;
beforeEach(async () => {
  proxy = await FaultProxy.before(server.endpoint);
  ends.push(() => proxy.close());
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

let node: FirnNode;
let settings: Env;
async function start(more: Env): Promise<void> {
  settings = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', FIRN_LOG: 'warn', ...s3Settings(server, proxy.endpoint), ...more };
  node = new FirnNode(settings);
  ends.push(() => node.dispose());
  await node.start();
}

async function metric(name: string): Promise<number> {
  const { text } = await node.admin.send('GET', '/__firn/metrics');
  return text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`)).reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

/** Appends, seals, and reads back from the store alone. */
async function roundTrip(name: string, body: Buffer): Promise<void> {
  const stream = new Stream(node.http, `/stores/${name}`);
  expect((await stream.create({ type: OCTETS, body })).status).toBe(201);
  await node.seal();
  expect((await stream.all()).equals(body)).toBe(true);
}

describe('encryption at rest', () => {
  it('that the server has is asked for, and objects, parts and ranges come back as they were', { timeout: 60_000 }, async () => {
    const { encryption } = server.traits;
    const { sse, keyId } = encryption ?? { sse: null, keyId: null };
    const prefix = `stores/${randomUUID()}`;
    const store = await storeOn({ endpoint: proxy.endpoint, region: server.region }, { prefix, sse, sseKmsKeyId: keyId });
    const large = randomBytes(20_000_000);
    expect(await store.putOnce('a/b', BODY)).toBe('created');
    expect(await store.putOnce('a/b', BODY)).toBe('exists-ours');
    await store.putUnique('a/c', (async function* () { yield large; })(), large.length);
    expect((await store.get('a/b')).equals(BODY)).toBe(true);
    expect((await store.get('a/c', { from: 16_777_000, length: 1_000 })).equals(large.subarray(16_777_000, 16_778_000))).toBe(true);
    const client = clientOf(server);
    for (const key of ['a/b', 'a/c']) {
      const head = await client.send(new HeadObjectCommand({ Bucket: BUCKET, Key: `${prefix}/${key}` }));
      if (sse !== null) expect([head.ServerSideEncryption, (head.SSEKMSKeyId ?? '').includes(keyId ?? '')]).toEqual([sse, true]);
    }
    client.destroy();
    await store.close();
  });
});

describe('addressing', () => {
  it('by virtual hosts puts the bucket into the name, path style into the path', { timeout: 60_000 }, async () => {
    const domain = server.traits.domain ?? 'localhost';
    const lookup = dns.lookup;
    // Nothing resolves the domain: every name below it is this machine.
    dns.lookup = ((name: string, options: object, done: (...result: unknown[]) => void) => (name.endsWith(domain) ? lookup('127.0.0.1', options as dns.LookupOptions, done as never) : lookup(name, options as dns.LookupOptions, done as never))) as typeof dns.lookup;
    ends.push(() => (dns.lookup = lookup));
    const port = new URL(proxy.endpoint).port;
    for (const forcePathStyle of server.traits.domain === null ? [true] : [false, true]) {
      const before = proxy.seen.length;
      const store = await storeOn({ endpoint: `http://${domain}:${port}`, region: server.region }, { forcePathStyle });
      expect(await store.putOnce('a/b', BODY)).toBe('created');
      await store.putUnique('a/c', (async function* () { yield Buffer.alloc(17_000_000, 1); })(), 17_000_000);
      expect((await store.get('a/b', { from: 10, length: 10 })).equals(BODY.subarray(10, 20))).toBe(true);
      const listed: string[] = [];
      for await (const { key } of store.list('a/')) listed.push(key);
      expect(listed).toEqual(['a/b', 'a/c']);
      await store.close();
      for (const { path, headers } of proxy.seen.slice(before)) {
        expect(headers.host).toBe(forcePathStyle ? `${domain}:${port}` : `${BUCKET}.${domain}:${port}`);
        expect(path.startsWith(`/${BUCKET}`)).toBe(forcePathStyle);
      }
    }
  });
});

describe('credentials that rotate while a node runs', () => {
  interface Key {
    readonly accessKey: string;
    readonly secretKey: string;
  }

  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'firn-credentials-'));
    ends.push(() => rmSync(dir, { recursive: true }));
  });

  /** Where nothing but the source under test gives credentials. */
  const BARE: Env = { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', AWS_SESSION_TOKEN: '', AWS_EC2_METADATA_DISABLED: 'true', AWS_CONFIG_FILE: '/none', AWS_SHARED_CREDENTIALS_FILE: '/none' };
  const LIFE_MS = 4_000;
  const document = ({ accessKey, secretKey }: Key): object => ({ AccessKeyId: accessKey, SecretAccessKey: secretKey, Expiration: new Date(Date.now() + LIFE_MS).toISOString() });

  /** Each source: the settings of a node that uses it, and how it changes its key. */
  const SOURCES: Readonly<Record<string, (first: Key) => Promise<{ readonly settings: Env; readonly change: (next: Key) => void }>>> = {
    'an endpoint of the container': async (first) => {
      let key = first;
      const endpoint = createServer((_, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...document(key), Token: '' })));
      await new Promise<void>((resolve) => endpoint.listen(0, '127.0.0.1', resolve));
      ends.push(() => endpoint.close());
      return { settings: { AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/keys` }, change: (next) => (key = next) };
    },
    'a process': async (first) => {
      const [script, config, keys] = [join(dir, 'keys.sh'), join(dir, 'config'), join(dir, 'keys.json')];
      const write = (key: Key): void => writeFileSync(keys, JSON.stringify({ Version: 1, ...document(key), Expiration: 'LATER' }));
      write(first);
      writeFileSync(script, `#!/bin/sh\nsed "s/LATER/$(date -u -d '+${LIFE_MS / 1_000} seconds' +%Y-%m-%dT%H:%M:%SZ)/" ${keys}\n`);
      chmodSync(script, 0o755);
      writeFileSync(config, `[default]\ncredential_process = ${script}\n`);
      return { settings: { AWS_CONFIG_FILE: config }, change: write };
    },
    'a file that somebody rewrites, and that names no end': async (first) => {
      const file = join(dir, 'credentials');
      const write = ({ accessKey, secretKey }: Key): void => writeFileSync(file, `[default]\naws_access_key_id = ${accessKey}\naws_secret_access_key = ${secretKey}\n`);
      write(first);
      return { settings: { AWS_SHARED_CREDENTIALS_FILE: file }, change: write };
    },
  };

  /** A key of the server: a new one where its keys may be changed. */
  async function newKey(): Promise<Key> {
    const { cephConf } = server.traits;
    if (cephConf === null) return server;
    const key = { accessKey: randomBytes(8).toString('hex'), secretKey: randomBytes(16).toString('hex') };
    await cephKey(cephConf, 'create', key);
    return key;
  }

  async function withdraw(key: Key): Promise<void> {
    if (server.traits.cephConf !== null) await cephKey(server.traits.cephConf, 'rm', key);
  }

  for (const [name, source] of Object.entries(SOURCES)) {
    it(`by ${name}: it seals and reads on when the first ones are taken no longer`, { timeout: 120_000 }, async () => {
      const first = await newKey();
      const { settings: from, change } = await source(first);
      await start({ ...BARE, ...from });
      await roundTrip('before', BODY.subarray(0, 500_000));
      const second = await newKey();
      change(second);
      await withdraw(first);
      await new Promise((resolve) => setTimeout(resolve, LIFE_MS + 1_000));
      const before = proxy.seen.length;
      await roundTrip('after', BODY.subarray(500_000, 1_000_000));
      expect((await new Stream(node.http, '/stores/before').all()).equals(BODY.subarray(0, 500_000))).toBe(true);
      expect(proxy.seen.slice(before).some(({ headers }) => headers.authorization?.includes(`Credential=${second.accessKey}/`) === true)).toBe(true);
      expect(node.output).not.toContain(second.secretKey);
      await withdraw(second);
      if (server.traits.cephConf !== null) {
        // Without any that is taken, nothing is sealed, and the reason is named.
        const stream = new Stream(node.http, '/stores/refused');
        expect((await stream.create({ type: OCTETS, body: 'kept' })).status).toBe(201);
        const asked = node.admin.send('POST', '/__firn/seal?timeout_ms=4000');
        expect((await asked).status).toBe(504);
        expect((await node.admin.send('GET', '/__firn/healthz')).text).toMatch(/InvalidAccessKeyId/);
        expect((await stream.all()).toString()).toBe('kept');
      }
    });
  }
});

describe('a clock that is wrong by 20 minutes', () => {
  it.each([20, -20])('%i: requests are signed by the time of the store after the first refusal', { timeout: 60_000 }, async (minutes) => {
    await start({ NODE_OPTIONS: `--import=${pathToFileURL(join(PROJECT, 'test/support/skewed-clock.mjs')).href}`, FIRN_TEST_SKEW_MS: String(minutes * 60_000) });
    await roundTrip('skewed', BODY);
    expect(await metric('firn_store_retries_total')).toBeGreaterThan(0);
    expect(await metric('firn_store_retries_total')).toBeLessThan(20);
    const signed = proxy.seen.map(({ headers }) => Date.parse(String(headers['x-amz-date']).replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z')));
    expect(Math.abs((signed[0] as number) - Date.now())).toBeGreaterThan(900_000);
    expect(Math.abs((signed.at(-1) as number) - Date.now())).toBeLessThan(300_000);
  });
});

describe('a store that shows an object late', () => {
  it('R022 answers 404 to the first reads of what it has taken: seals and offloads go through, and nothing is called damaged', { timeout: 120_000 }, async () => {
    const HIDDEN_MS = 1_500;
    const written = new Map<string, number>();
    let hidden = 0;
    proxy.faultOf = ({ method, path }) => {
      const [key = '', query] = path.split('?');
      if ((method === 'PUT' || method === 'POST') && !written.has(key)) written.set(key, Date.now());
      if (method !== 'GET' || query?.includes('list-type') === true || Date.now() - (written.get(key) ?? 0) > HIDDEN_MS) return null;
      hidden += 1;
      return { kind: 'odd', status: 404, body: errorBody('NoSuchKey') };
    };
    await start({});
    await roundTrip('late', BODY);
    const stream = new Stream(node.http, '/stores/late');
    const snapshot = randomBytes(20_000_000);
    expect((await stream.publish(String(BODY.length), snapshot)).status).toBe(204);
    await node.seal();
    expect((await stream.sub('GET', `snapshot/${BODY.length}`)).body.equals(snapshot)).toBe(true);
    // A checkpoint reads records that were written long before, as a rule; one that comes too soon is made again.
    await expect.poll(async () => (await node.admin.send('POST', '/__firn/checkpoint')).status, { timeout: 30_000 }).toBe(200);
    expect([await metric('firn_damage_total'), node.output.includes('"damage"')]).toEqual([0, false]);
    const segments = [...written].filter(([key]) => key.includes('/segments/'));
    expect([segments.length > 0, hidden > segments.length]).toEqual([true, true]);
    // Each was written once: the wait is for the object, and no second copy is made of it.
    expect(new Set(segments.map(([key]) => key.replace(/-\d+-\d+$/, ''))).size).toBe(segments.length);
    await new Promise((resolve) => setTimeout(resolve, HIDDEN_MS));
    const verified = await firn(['verify', '--deep'], settingsFor(node, settings));
    expect([verified.code, verified.code === 0 ? '' : verified.stdout + verified.stderr]).toEqual([0, '']);
  });

  it('I9 that never shows one fails the seal in bounded time, keeps the hot copy, and tries again under another name', { timeout: 120_000 }, async () => {
    await start({});
    const stream = new Stream(node.http, '/stores/never');
    proxy.faultOf = ({ method, path }) => (method === 'GET' && path.includes('/segments/') ? { kind: 'odd', status: 404, body: errorBody('NoSuchKey') } : null);
    expect((await stream.create({ type: OCTETS, body: BODY })).status).toBe(201);
    expect((await node.admin.send('POST', '/__firn/seal?timeout_ms=20000')).status).toBe(504);
    expect((await stream.all()).equals(BODY)).toBe(true);
    const written = proxy.seen.filter(({ method, path }) => method === 'PUT' && path.includes('/segments/')).length;
    expect(written).toBeGreaterThanOrEqual(1);
    expect(written).toBeLessThan(6);
    proxy.faultOf = () => null;
    await node.seal();
    expect((await stream.all()).equals(BODY)).toBe(true);
    expect(await metric('firn_damage_total')).toBe(0);
  });
});
