/**
 * A worker: runs the jobs of one node in a process of its own.
 *
 * Owns: the start, which waits for whatever is not there yet, and the stop. Promises: it works for a node only with the very store of that node; Redis, node and store may
 * come in any order, and go and come back; a stop lets running jobs finish or give up within its grace, and what was given up is tried again by whoever is there.
 */
import type { Logger } from '../../shared/observability/index.js';
import type { JobKind } from '../../shared/queue/index.js';
import { QueueRunner } from '../../shared/queue/queue-runner.js';
import { STORE_KEY } from '../../shared/storage/keys.js';
import type { StoreTally } from '../../shared/storage/measured-store.js';
import { ObjectMissing, type ObjectStore } from '../../shared/storage/object-store.js';
import { parseStoreDocument } from '../../shared/storage/store-json.js';
import { withSignal } from '../../shared/time/joined-signal.js';
import { pause } from '../../shared/time/pause.js';
import { jobHandlers } from './handlers/index.js';
import { askNode, HttpPort, newAgent, WorkRefused } from './http-port.js';
import { WORK_VERSION } from './messages.js';
import type { NodePort } from './node-port.js';
import { WebhookTargets, type WebhookLists } from './webhooks/targets.js';
import { TrafficReports } from './traffic-reports.js';

/** Wait before what is away is asked again, ms: first and longest. */
const AGAIN_MS = 250;
const AGAIN_MS_MAX = 5_000;
/** Longest wait for one look at the store, ms. */
const LOOK_MS_MAX = 15_000;

export interface WorkerOptions {
  /** Origin of the node's admin listener, and its token. */
  readonly nodeUrl: string;
  readonly token: string | null;
  readonly redisUrl: string;
  /** The object store of the node, as this process reaches it. Closed with the worker. */
  readonly objects: ObjectStore;
  /** What `objects` was asked, to be told to the node. */
  readonly traffic: StoreTally;
  /** Where webhooks may go from here. */
  readonly webhooks: WebhookLists;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly concurrency?: Partial<Readonly<Record<JobKind, number>>>;
  /** For tests: see `QueueWorkersOptions`. */
  readonly lockMs?: number;
  /** For tests: what handlers reach the node by. */
  readonly wrap?: (port: NodePort) => NodePort;
}

export interface RunningWorker {
  readonly storeId: string;
  /** Resolves when the node lets this worker work no more: wrong token by now, or another store. */
  readonly refused: Promise<WorkRefused>;
  close(graceMs: number): Promise<void>;
}

/** Waits until node, store and Redis are there, and works from then on. Rejects with `WorkRefused` when they do not belong together, with the signal's reason when that fires. */
export async function startWorker(options: WorkerOptions, stop: AbortSignal): Promise<RunningWorker> {
  const { objects, traffic, webhooks, logger, now, redisUrl, concurrency, lockMs, nodeUrl: url, token, wrap = (port: NodePort): NodePort => port } = options;
  const storeId = await agree(options, stop);
  let refuse: (error: WorkRefused) => void = () => undefined;
  const refused = new Promise<WorkRefused>((resolve) => {
    refuse = resolve;
  });
  const port = new HttpPort({ url, token, objects, onRefused: refuse }, storeId);
  const runner = new QueueRunner({ url: redisUrl, role: 'worker', storeId: Promise.resolve(storeId), handlers: jobHandlers(wrap(port), now, new WebhookTargets(webhooks)), logger, now, concurrency, lockMs });
  const reports = new TrafficReports(traffic, (told) => port.traffic(told));
  const close = async (graceMs: number): Promise<void> => {
    await runner.stop(graceMs);
    await reports.end();
    await port.close();
    await objects.close();
  };
  try {
    await retried(logger, 'Redis', stop, () => (runner.away === null ? Promise.resolve() : Promise.reject(new Error(runner.away))));
  } catch (error) {
    await close(0);
    throw error;
  }
  return { storeId, refused, close };
}

/** Whether a worker with these settings could work now: nothing is waited for. Throws what is wrong. */
export async function checkWorker(options: WorkerOptions, stop: AbortSignal): Promise<string> {
  const storeId = await agreeNow(options, stop);
  const runner = new QueueRunner({ url: options.redisUrl, role: 'queue', storeId: Promise.resolve(storeId), handlers: jobHandlers(new HttpPort({ ...options, url: options.nodeUrl }, storeId), options.now, new WebhookTargets(options.webhooks)), logger: options.logger, now: options.now });
  try {
    for (let tries = 0; runner.away !== null; tries++) {
      if (tries >= 20) throw new Error(runner.away);
      await pause(AGAIN_MS, stop);
    }
    const [wrong] = runner.reasons();
    if (wrong !== undefined) throw new Error(wrong);
    return storeId;
  } finally {
    await runner.stop(0);
    await options.objects.close();
  }
}

/** The id of the store that node and worker share. */
function agree(options: WorkerOptions, stop: AbortSignal): Promise<string> {
  return retried(options.logger, `the node at ${options.nodeUrl} and its store`, stop, () => agreeNow(options, stop));
}

async function agreeNow({ nodeUrl: url, token, objects }: WorkerOptions, stop: AbortSignal): Promise<string> {
  const agent = newAgent();
  try {
    const { storeId, version } = await askNode({ url, token }, agent, stop).catch((error: unknown) => {
      stop.throwIfAborted();
      throw error instanceof WorkRefused ? error : new Error(`the node at ${url}: ${error instanceof Error ? error.message : String(error)}`);
    });
    if (version !== WORK_VERSION) throw new WorkRefused(`the node at ${url} speaks version ${version} to its workers, this one version ${WORK_VERSION}: run both from the same release`);
    const own = await withSignal([stop], LOOK_MS_MAX, (signal) => storeIdOf(objects, signal));
    if (own !== storeId) throw new WorkRefused(`the node at ${url} belongs to store ${storeId}, but ${objects.describe} holds ${own === null ? 'no store' : `store ${own}`}: name the bucket and the prefix of the node`);
    return storeId;
  } finally {
    await agent.destroy();
  }
}

/** null: there is no store. */
async function storeIdOf(objects: ObjectStore, signal: AbortSignal): Promise<string | null> {
  try {
    return parseStoreDocument(await objects.get(STORE_KEY, undefined, signal)).storeId;
  } catch (error) {
    if (error instanceof ObjectMissing) return null;
    throw error;
  }
}

/** Does something until it succeeds, and says once in a while what it waits for. Rejects with `WorkRefused`, and with the signal's reason. */
async function retried<T>(logger: Logger, what: string, stop: AbortSignal, work: () => Promise<T>): Promise<T> {
  let ms = AGAIN_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      stop.throwIfAborted();
      if (error instanceof WorkRefused) throw error;
      if (ms > AGAIN_MS) logger.warn({ event: 'waiting', why: error instanceof Error ? error.message : String(error) }, `waiting for ${what}`);
      await pause(ms, stop);
      ms = Math.min(ms * 2, AGAIN_MS_MAX);
    }
  }
}
