/**
 * A node that dies at every step of seal, offload and eviction while workers elsewhere work for it, over real Redis and the real listener (I2, I3, I6).
 *
 * The node lives in this process, so that it can die at a step exactly: from then on nothing of it works, as after a crash. Its workers are told nothing.
 */
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { RedisServer } from '../../infra/services/redis.js';
import { createAdminApp } from '../../services/api/admin/app.js';
import type { AdminBackend } from '../../services/api/admin/types.js';
import { WorkRoutes } from '../../services/api/admin/work-routes.js';
import { expectOnlyAlive, SHORT_GRACE_MS } from '../../services/api/cold/collect/collect-rig.contract.js';
import { Rig } from '../../services/api/cold/cold-rig.contract.js';
import { expectStory, killAt, tellStory } from '../../services/api/cold/kill-story.contract.js';
import type { StepName, Steps } from '../../services/api/cold/steps.js';
import { listen, type Listener } from '../../services/api/http/server.js';
import { startWorker, type RunningWorker } from '../../services/worker/main.js';
import { createLogger } from '../../shared/observability/index.js';
import { QueueRunner } from '../../shared/queue/queue-runner.js';
import { FsObjectStore } from '../../shared/storage/fs-store.js';
import { StoreTally } from '../../shared/storage/measured-store.js';
import { join } from 'node:path';
import { freePort } from '../support/node.js';

const logger = createLogger(process.env['FIRN_TEST_LOG'] === undefined ? 'silent' : 'debug');
const redis = await RedisServer.start();
afterAll(() => redis.dispose(), 60_000);

/** Every step that a node comes to while workers work, and which of its occurrences kills. */
const KILLS: readonly (readonly [StepName, number])[] = [
  ['plan:opened', 1], ['plan:opened', 2], ['seal:uploaded', 1], ['seal:uploaded', 2], ['seal:checked', 1], ['seal:checked', 2], ['offload:uploaded', 1], ['offload:checked', 1],
  ['log:put', 1], ['log:put', 2], ['log:put', 3], ['apply:slice', 1], ['apply:slice', 3], ['apply:done', 1], ['apply:done', 2], ['evict:slice', 1], ['evict:slice', 3],
];

/** And while they collect for it. */
const COLLECT_KILLS: readonly (readonly [StepName, number])[] = [['collect:chosen', 1], ['collect:logged', 1], ['collect:done', 1], ['collect:done', 2]];

/** A node with its admin listener; its jobs are for workers elsewhere. */
class Node {
  private constructor(readonly rig: Rig, private readonly listener: Listener) {}

  static async start(dir: string, port: number, steps?: Steps): Promise<Node> {
    const rig = await Rig.open(dir, { hotKeepMs: 0 }, { steps, collectGraceMs: SHORT_GRACE_MS, runner: (handlers, storeId) => new QueueRunner({ url: redis.url, role: 'queue', storeId, handlers, logger, now: Date.now }) });
    const work = new WorkRoutes(() => (rig.dead ? null : rig.cold.work), rig.metrics.workerStore);
    const app = createAdminApp({ backend: {} as AdminBackend, token: null, logger, work });
    return new Node(rig, await listen({ host: '127.0.0.1', port, handler: app.callback(), logger }));
  }

  /** As a crash: connections break, nothing is said. */
  async kill(): Promise<void> {
    this.listener.server.closeAllConnections();
    await Promise.all([this.listener.shutdown(0), this.rig.kill()]);
  }

  async close(): Promise<void> {
    await this.listener.shutdown(200);
    await this.rig.close();
  }
}

let dir = '';
let node: Node | null = null;
let workers: RunningWorker[] = [];

async function startWorkers(port: number): Promise<void> {
  workers = await Promise.all([1, 2].map(async () => startWorker({
    nodeUrl: `http://127.0.0.1:${port}`, token: null, redisUrl: redis.url, objects: await FsObjectStore.open(join(dir, 'objects')), traffic: new StoreTally(), webhooks: { allow: [] }, logger, now: Date.now, lockMs: 2_000,
  }, new AbortController().signal)));
}

afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.close(2_000)));
  await node?.close();
  node = null;
  await Rig.remove(dir);
}, 60_000);

describe('a node killed at any step while workers elsewhere work for it', () => {
  it.each(KILLS)('loses nothing at %s, occurrence %i', async (name, occurrence) => {
    dir = await Rig.dir();
    const port = await freePort();
    const expected = new Map<string, string>();
    node = await Node.start(dir, port, killAt(name, occurrence));
    await startWorkers(port);
    const { rig } = node;
    const outcome = await Promise.race([tellStory(rig, expected).then(() => 'done', (error: unknown) => error), rig.died.then(() => 'died')]);
    // The kill may show as an error of a request before the death is seen.
    if (!rig.dead) throw outcome;
    await node.kill();
    // The same workers work for the next life of the node.
    node = await Node.start(dir, port);
    await expectStory(node.rig, expected);
  }, 90_000);

  it.each(COLLECT_KILLS)('loses nothing that lives at %s, occurrence %i, of a collection (I8)', async (name, occurrence) => {
    dir = await Rig.dir();
    const port = await freePort();
    const expected = new Map<string, string>();
    node = await Node.start(dir, port, killAt(name, occurrence));
    await startWorkers(port);
    await tellStory(node.rig, expected);
    // In an object of its own.
    await node.rig.create('demo/gone');
    await node.rig.append('demo/gone', 'x');
    await node.rig.seal();
    await node.rig.delete('demo/gone');
    await node.rig.seal();
    await Promise.race([node.rig.collect(60_000).catch(() => undefined), node.rig.died]);
    expect(node.rig.dead).toBe(true);
    await node.kill();
    node = await Node.start(dir, port);
    await expectStory(node.rig, expected);
    expect(await node.rig.collect(60_000)).toMatchObject({ waiting: 0, unknown: 0 });
    await expectOnlyAlive(node.rig);
  }, 120_000);
});
