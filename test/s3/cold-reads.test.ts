/**
 * Cold reads from an S3 server: a second GET where the first is late, frames on disk, and what readers that leave cost (faults R033, R081, R115).
 */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HEDGE_SAMPLES_MIN, HEDGE_SHARE, SOCKETS_MAX } from '../../shared/storage/s3-store/limits.js';
import type { S3ObjectStore } from '../../shared/storage/s3-store/index.js';
import { FaultProxy } from '../support/fault-proxy.js';
import { FirnNode, type Env } from '../support/node.js';
import { s3Settings, storeOn, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';

const server = await useS3();
const GONE = new Error('gone');

let proxy: FaultProxy;
beforeEach(async () => {
  proxy = await FaultProxy.before(server.endpoint);
});
afterEach(() => proxy.close());

async function until(check: () => boolean, ms = 10_000): Promise<void> {
  for (const end = Date.now() + ms; !check() && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(check()).toBe(true);
}

/** Descriptors of a process, sockets alone or all. */
function descriptors(pid: number, sockets = false): number {
  const dir = `/proc/${pid}/fd`;
  return readdirSync(dir).filter((fd) => {
    try {
      return readlinkSync(join(dir, fd)).startsWith('socket:') || !sockets;
    } catch {
      return false;
    }
  }).length;
}

describe('an S3 store', () => {
  let store: S3ObjectStore;
  let hedges: number;
  const body = randomBytes(2_000_000);
  beforeEach(async () => {
    hedges = 0;
    store = await storeOn({ endpoint: proxy.endpoint, region: server.region }, {}, { onHedge: () => (hedges += 1) });
    await store.putOnce('a/b', body);
  });
  afterEach(() => store.close());

  async function reads(count: number, together: number, bytes = 1_000): Promise<number[]> {
    const waits: number[] = [];
    const one = async (n: number): Promise<void> => {
      const from = (n * 7_919) % (body.length - bytes);
      const began = performance.now();
      expect((await store.get('a/b', { from, length: bytes })).equals(body.subarray(from, from + bytes))).toBe(true);
      waits.push(performance.now() - began);
    };
    for (let n = 0; n < count; n += together) await Promise.all(Array.from({ length: together }, (_, k) => one(n + k)));
    return waits;
  }

  it('makes a second GET for one that is late, takes what comes first, and leaves no connection behind', { timeout: 60_000 }, async () => {
    await reads(2 * HEDGE_SAMPLES_MIN, 8);
    expect(hedges).toBe(0);
    let late = 0;
    // One GET in 40 hangs for far longer than the others need; its twin does not.
    proxy.faultOf = ({ method }) => (method === 'GET' && ++late % 40 === 0 ? { kind: 'latency', ms: 5_000 } : null);
    const waits = await reads(320, 8);
    expect(hedges).toBeGreaterThanOrEqual(5);
    expect(waits.filter((ms) => ms > 4_000)).toEqual([]);
    await until(() => proxy.connections <= 16);
    await store.close();
    await until(() => proxy.connections === 0);
  });

  it('asks a store that is slow as a whole no more than a twentieth more often (I11)', { timeout: 60_000 }, async () => {
    await reads(2 * HEDGE_SAMPLES_MIN, 8);
    proxy.faultOf = () => ({ kind: 'latency', ms: 200 });
    // A busy machine may have made one of those reads late.
    const before = { seen: proxy.seen.length, hedges };
    await reads(400, 20);
    const seen = proxy.seen.length - before.seen;
    expect(seen).toBeGreaterThanOrEqual(400);
    // One that was given up at once may not have come so far.
    expect(seen).toBeLessThanOrEqual(400 + hedges - before.hedges);
    // What the reads before it earned is spent, too.
    expect(hedges).toBeLessThanOrEqual((400 + 2 * HEDGE_SAMPLES_MIN) * HEDGE_SHARE + 1);
  });

  it('I11 10,000 reads that are given up, at any moment and with second GETs among them, leave no socket, timer or place behind', { timeout: 90_000 }, async () => {
    const own = await storeOn(server, {}, { onHedge: () => (hedges += 1) });
    await own.putOnce('a/b', body);
    for (let n = 0; n < 2 * HEDGE_SAMPLES_MIN; n++) await own.get('a/b', { from: n, length: 10 });
    const [sockets, active] = [descriptors(process.pid, true), process.getActiveResourcesInfo().length];
    const one = async (n: number): Promise<void> => {
      const abort = new AbortController();
      if (n % 3 === 0) setTimeout(() => abort.abort(GONE), n % 17);
      const seen = async (): Promise<void> => {
        for await (const piece of own.stream('a/b', { from: n, length: 300_000 }, abort.signal)) {
          if (n % 3 === 1) return;
          if (piece.length > 0 && n % 3 === 2) abort.abort(GONE);
        }
      };
      await seen().catch((error: unknown) => expect(error).toBe(GONE));
    };
    const TOGETHER = 50;
    for (let n = 0; n < 10_000; n += TOGETHER) await Promise.all(Array.from({ length: TOGETHER }, (_, k) => one(n + k)));
    await until(() => descriptors(process.pid, true) <= sockets + SOCKETS_MAX);
    // Every place is free again: as many readers as there are places read at once.
    await Promise.all(Array.from({ length: SOCKETS_MAX }, () => own.get('a/b', { from: 5, length: 5 })));
    await own.close();
    await until(() => descriptors(process.pid, true) <= sockets && process.getActiveResourcesInfo().length <= active);
  });
});

describe('a node', () => {
  let node: FirnNode;
  afterEach(() => node.dispose());

  async function start(settings: Env = {}): Promise<void> {
    node = new FirnNode({ FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_AGE_MS: '3600000', FIRN_LOG: 'warn', ...s3Settings(server, proxy.endpoint), ...settings });
    await node.start();
  }

  async function metric(name: string): Promise<number> {
    const { text } = await node.admin.send('GET', '/__firn/metrics');
    return Number(text.split('\n').find((line) => line.startsWith(`${name} `))?.split(' ')[1] ?? NaN);
  }

  /** A stream whose bytes are cold. */
  async function cold(bytes: number): Promise<{ readonly stream: Stream; readonly body: Buffer }> {
    const body = randomBytes(bytes);
    const stream = new Stream(node.http, '/reads/cold');
    expect((await stream.create({ type: OCTETS })).status).toBe(201);
    for (let at = 0; at < bytes; at += 1_000_000) expect((await stream.append(body.subarray(at, at + 1_000_000))).status).toBe(204);
    await node.seal();
    return { stream, body };
  }

  const segmentGets = (): number => proxy.seen.filter(({ method, path }) => method === 'GET' && path.includes('/segments/')).length;

  it('R081 clients that leave in the middle of a cold read, 1,000 of them, cost it no descriptor', { timeout: 120_000 }, async () => {
    await start();
    const { stream, body } = await cold(48_000_000);
    const leave = (n: number): Promise<void> => new Promise((resolve) => {
      const one = request(`${node.url}/reads/cold?offset=${(n * 1_000_003) % 40_000_000}&max_bytes=8000000`, { agent: false }, (answer) => {
        answer.on('error', () => undefined);
        answer.once('data', () => one.destroy());
      });
      one.on('error', () => undefined);
      one.once('close', resolve);
      if (n % 2 === 0) setTimeout(() => one.destroy(), n % 13);
      one.end();
    });
    await leave(1);
    await until(() => proxy.connections < 20);
    const before = descriptors(node.pid);
    for (let n = 0; n < 1_000; n += 20) await Promise.all(Array.from({ length: 20 }, (_, k) => leave(n + k)));
    // Connections to the store are kept for the next reader, and a RocksDB file may have been opened.
    await until(() => descriptors(node.pid) <= before + SOCKETS_MAX && descriptors(node.pid, true) <= SOCKETS_MAX + 20);
    expect((await stream.all('0', { max_bytes: 8_000_000 })).equals(body)).toBe(true);
    expect((await node.stop()).code).toBe(0);
  });

  it('keeps cold frames on disk: over a restart and with the store away they are read from there, and a flipped byte is fetched anew', { timeout: 120_000 }, async () => {
    await start({ FIRN_CACHE_BYTES_MAX: '100000000' });
    const { stream, body } = await cold(6_000_000);
    const folder = join(node.dataDir, 'cache');
    await node.restart();
    expect((await stream.all('0', { max_bytes: 1_000_000 })).equals(body)).toBe(true);
    await until(() => readdirSync(folder).reduce((sum, name) => sum + readFileSync(join(folder, name)).length, 0) >= body.length);
    expect(await metric('firn_disk_cache_bytes')).toBeGreaterThanOrEqual(body.length);
    await node.restart();
    const before = segmentGets();
    await proxy.down();
    expect((await stream.all('0', { max_bytes: 1_000_000 })).equals(body)).toBe(true);
    await proxy.up();
    expect([segmentGets(), await metric('firn_disk_cache_total{result="hit"}') > 20]).toEqual([before, true]);
    await node.kill();
    const [first] = readdirSync(folder) as [string];
    const bytes = readFileSync(join(folder, first));
    bytes[1_000] = (bytes[1_000] as number) ^ 1;
    writeFileSync(join(folder, first), bytes);
    await node.start();
    expect((await stream.all('0', { max_bytes: 1_000_000 })).equals(body)).toBe(true);
    expect([await metric('firn_disk_cache_total{result="damaged"}'), await metric('firn_damage_total{where="object"}')]).toEqual([1, 0]);
    expect(segmentGets()).toBeGreaterThan(before);
    rmSync(folder, { recursive: true });
    await node.restart();
    expect((await stream.all('0', { max_bytes: 1_000_000 })).equals(body)).toBe(true);
  });
});
