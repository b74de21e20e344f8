/**
 * What a worker makes of a node that answers wrongly, or not at all. The node itself: services/api/admin/work-routes.test.ts.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { createLogger } from '../../shared/observability/index.js';
import type { Incarnation, Offset, StreamKey } from '../../shared/protocol/types.js';
import { encodeBlock } from '../../shared/storage/block.js';
import { FsObjectStore } from '../../shared/storage/fs-store.js';
import { StoreTally } from '../../shared/storage/measured-store.js';
import { HttpPort } from './http-port.js';
import { startWorker } from './main.js';
import { PLAN_START, type PlanItem } from './node-port.js';
import { encodePlanStream } from './plan-stream.js';

const JOB = '0000-000001-0000000001-1';
const never = new AbortController().signal;
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Where such a node listens. */
async function nodeThat(answers: RequestListener): Promise<string> {
  const server = createServer(answers).listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function storeOf(): Promise<FsObjectStore> {
  const dir = await mkdtemp(join(tmpdir(), 'firn-port-'));
  ends.push(() => rm(dir, { recursive: true, force: true }));
  return FsObjectStore.open(dir);
}

async function portTo(url: string): Promise<HttpPort> {
  const port = new HttpPort({ url, token: null, objects: await storeOf(), awayMsMax: 0 }, 'store');
  ends.push(() => port.close());
  return port;
}

describe('a worker and a node that answers wrongly', () => {
  it('gives back the connection of a snapshot that says nothing of its length', async () => {
    let [open, answered] = [0, 0];
    const port = await portTo(await nodeThat((request, response) => {
      if (request.url?.endsWith('/alive') === true) return void response.end('{"wanted":true}');
      open++;
      answered++;
      response.once('close', () => open--);
      response.end(Buffer.alloc(20_000_000));
    }));
    // More than it has connections.
    for (let n = 0; n < 34; n++) await expect(port.snapshot(JOB, never)).rejects.toThrow('does not say what the snapshot is');
    expect(await port.alive(JOB)).toBe(true);
    await expect.poll(() => [open, answered]).toEqual([0, 34]);
  });

  it('hands on no block whose place cannot be read, and none twice', async () => {
    const place = { kind: 'block', stream: 0, key: 'demo/a' as StreamKey, incarnation: 7 as Incarnation } as const;
    const good = encodeBlock({ start: 0 as Offset, resumes: false, continues: false, entries: [{ bytes: 3, atMs: 1 }], payload: [Buffer.from('abc')] });
    const port = await portTo(await nodeThat((_request, response) => {
      const items = async function* (): AsyncGenerator<PlanItem> {
        yield { ...place, block: good };
        yield { ...place, block: Buffer.from('no block') };
      };
      Readable.from(encodePlanStream(items())).pipe(response);
    }));
    const got: PlanItem[] = [];
    await expect((async () => {
      for await (const item of port.planItems(JOB, PLAN_START, never)) got.push(item);
    })()).rejects.toThrow();
    expect(got).toEqual([{ ...place, block: good }]);
  });
});

describe('a worker and a node that takes connections and does not answer', () => {
  it('ends at once when it is told to', async () => {
    let asked: () => void = () => undefined;
    const reached = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const nodeUrl = await nodeThat(() => asked());
    const stop = new AbortController();
    const starting = startWorker({ nodeUrl, token: null, redisUrl: 'redis://127.0.0.1:1', objects: await storeOf(), traffic: new StoreTally(), webhooks: { allow: [] }, logger: createLogger('silent'), now: Date.now }, stop.signal);
    await reached;
    const toldMs = performance.now();
    stop.abort(new Error('told to stop'));
    await expect(starting).rejects.toThrow('told to stop');
    expect(performance.now() - toldMs).toBeLessThan(2_000);
  });
});
