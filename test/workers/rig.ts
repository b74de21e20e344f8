/**
 * A node whose jobs run in workers elsewhere: real Redis, a real S3 server, and streams with everything that was written to them.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, expect } from 'vitest';
import { RedisServer } from '../../infra/services/redis.js';
import type { S3Server } from '../../infra/services/s3-server.js';
import { FirnNode, type Env } from '../support/node.js';
import { s3Settings, useS3 } from '../support/s3.js';
import { OCTETS, Stream } from '../support/stream.js';
import { useWorkers, workerSettings, type FirnWorker } from '../support/worker.js';

const WAIT_MS_MAX = 60_000;

export async function until(what: string, condition: () => boolean | Promise<boolean>, ms = WAIT_MS_MAX): Promise<void> {
  for (const end = Date.now() + ms; !(await condition()); await new Promise((resolve) => setTimeout(resolve, 50))) if (Date.now() > end) throw new Error(`waited in vain until ${what}`);
}

/** A stream with what was acknowledged. */
export class Written {
  content = Buffer.alloc(0);
  snapshot: { readonly offset: number; readonly body: Buffer } | null = null;

  constructor(readonly stream: Stream) {}

  async append(body: Buffer): Promise<void> {
    const began = performance.now();
    const answer = await this.stream.append(body, { type: OCTETS });
    expect([answer.status, performance.now() - began < 2_000], this.stream.path).toEqual([204, true]);
    this.content = Buffer.concat([this.content, body]);
  }

  async publish(body: Buffer): Promise<void> {
    expect((await this.stream.publish(String(this.content.length), body)).status).toBe(204);
    this.snapshot = { offset: this.content.length, body };
  }

  /** Everything acknowledged reads back. */
  async check(): Promise<void> {
    expect((await this.stream.all('0')).equals(this.content), this.stream.path).toBe(true);
    if (this.snapshot === null) return;
    const got = await this.stream.http.send('GET', `${this.stream.path}/snapshot/${String(this.snapshot.offset).padStart(20, '0')}`);
    expect([got.status, got.body.equals(this.snapshot.body)], `snapshot of ${this.stream.path}`).toEqual([200, true]);
  }
}

export interface Place {
  readonly s3: S3Server;
  readonly redis: RedisServer;
  /** Settings of a node of this file with a store of its own. */
  settings(more?: Env): Env;
  node(settings: Env): FirnNode;
  worker(node: FirnNode, settings: Env, script?: readonly string[]): FirnWorker;
  endWorkers(): Promise<void>;
}

const TOKEN = 'token-of-the-tests';

/** Redis, S3, and nodes and workers that end with the file. To be awaited at the top of a test file. */
export async function usePlace(): Promise<Place> {
  const s3 = await useS3();
  const redis = await RedisServer.start({ persistent: true });
  const workers = useWorkers();
  const nodes: FirnNode[] = [];
  afterAll(async () => {
    for (const node of nodes) await node.dispose();
    await redis.dispose();
  }, 60_000);
  return {
    s3,
    redis,
    settings: (more = {}) => ({
      ...s3Settings(s3), FIRN_REDIS_URL: redis.url, FIRN_JOBS: 'queue', FIRN_ADMIN_TOKEN: TOKEN, FIRN_SEAL_AGE_MS: '3600000', FIRN_HOT_KEEP_MS: '0', FIRN_LOG: 'warn', ...more,
    }),
    node: (settings) => {
      const node = new FirnNode(settings);
      node.token = settings['FIRN_ADMIN_TOKEN'] ?? null;
      nodes.push(node);
      return node;
    },
    worker: (node, settings, script) => workers.start(workerSettings(node, settings), script),
    endWorkers: workers.endAll,
  };
}

/** Streams with some content, one of them with a large snapshot. */
export async function write(node: FirnNode, count: number, bytesEach: number): Promise<Written[]> {
  const streams = Array.from({ length: count }, (_, n) => new Written(new Stream(node.http, `/jobs/s${n}-${randomBytes(4).toString('hex')}`)));
  for (const [n, one] of streams.entries()) {
    expect((await one.stream.create({ type: OCTETS })).status).toBe(201);
    for (let at = 0; at < bytesEach; at += 300_000) await one.append(randomBytes(Math.min(300_000, bytesEach - at)));
    if (n === 0) await one.publish(randomBytes(2_500_000));
    if (n === 1) await one.publish(Buffer.from('a small snapshot'));
  }
  return streams;
}

interface Row {
  readonly tail: string;
  readonly coldFrontier: string;
}

/** Whether everything of the node is in the cold tier, snapshots included. */
export async function isSealed(node: FirnNode, streams: readonly Written[]): Promise<boolean> {
  for (const { stream, snapshot } of streams) {
    const row = (await node.ask('GET', `/__firn/streams${stream.path}`)) as Row & { readonly snapshot: { readonly cold: string | null } | null };
    if (row.tail !== row.coldFrontier) return false;
    if (snapshot !== null && row.snapshot?.cold === null) return false;
  }
  return true;
}

/** Nothing is lost, doubled or damaged: every byte, every object, every count. */
export async function checkAll(node: FirnNode, streams: readonly Written[]): Promise<void> {
  for (const one of streams) await one.check();
  expect(await node.ask('POST', '/__firn/verify?deep=1')).toMatchObject({ findingCount: 0 });
}
