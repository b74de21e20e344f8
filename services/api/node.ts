/**
 * A node: the engine with its two listeners.
 *
 * Owns: start and stop of the whole. Promises: the listeners open only when the engine is ready; at the end live reads get their control event,
 * requests are drained, what is in flight becomes durable, and only then the stores close (R083).
 */
import type { Config } from '../../shared/config/index.js';
import { createMetrics, type Logger } from '../../shared/observability/index.js';
import { FirnError } from '../../shared/protocol/errors.js';
import { createAdminApp } from './admin/app.js';
import { WorkRoutes } from './admin/work-routes.js';
import { StartRefused } from './cold/start-refused.js';
import { NodeBackend } from './admin/backend.js';
import { openEngine, type Engine, type EngineDeps } from './engine.js';
import { createClientApp } from './http/app.js';
import { listen, type Listener } from './http/server.js';
import { Deliveries } from './subscriptions/deliveries.js';
import { Subscriptions } from './subscriptions/subscriptions.js';

/** Wall clock of the process, ms: the one place that reads it. */
export const processClock = (): number => Date.now();

/** Longest wait for requests to finish at the end, ms. */
const DRAIN_MS = 10_000;

export interface NodeAddress {
  readonly address: string;
  readonly port: number;
}

export interface Node {
  readonly engine: Engine;
  readonly clientAddress: NodeAddress;
  readonly adminAddress: NodeAddress;
  close(): Promise<void>;
}

export interface NodeDeps {
  readonly logger: Logger;
  readonly now?: () => number;
  readonly random?: () => number;
}

/** Rejects when the settings ask for what this version lacks, when directory and object store disagree, or when an address is taken. */
export async function startNode(config: Config, deps: NodeDeps): Promise<Node> {
  const { logger, now = processClock, random = Math.random } = deps;
  refuseMissingParts(config);
  const metrics = createMetrics();
  const deliveries = new Deliveries({ webhooks: { allow: config.webhookAllow, domains: config.webhookDomains } });
  const engine = await openEngine(config, { logger, metrics, now, runner: await runnerOf(config, deps), deliveries: { side: deliveries, targets: deliveries.targets } });
  if (engine.cold.runner !== null) deliveries.use(engine.cold.runner);
  const subscriptions = new Subscriptions({ core: engine.core, log: engine.log, cold: config.cold === 'none' ? null : engine.cold, publicUrl: config.publicUrl, deliveries, logger, metrics, now, random });
  const listeners: Listener[] = [];
  try {
    await subscriptions.start();
    metrics.bind({
      partitions: () => Array.from({ length: engine.partitions }, (_, partition) => ({
        partition,
        unsealedBytes: engine.core.unsealedBytes(partition),
        unsealedAgeMs: Math.max(0, now() - (engine.cold.unsealedSinceMs(partition) ?? now())),
        garbageBytes: engine.cold.garbage(partition).bytes,
        unknownObjects: engine.cold.garbage(partition).unknown,
      })),
      diskFreeBytes: () => engine.pressure.freeBytes,
      hotBytes: () => engine.cold.hotBytes,
      unsealedBytesMax: () => (config.cold === 'none' ? null : config.hotBytesMax),
      refusals: () => refusalCodes(engine),
      diskCacheBytes: () => engine.frameDisk?.bytes ?? null,
      poisoned: () => engine.core.healing,
      subscriptions: () => subscriptions.counts,
    });
    const app = createClientApp({ log: engine.log, subscriptions, config, logger, metrics, now, random });
    metrics.bind({ bodiesInFlightBytes: () => app.bodies.heldBytes });
    const work = new WorkRoutes(() => engine.cold.work, metrics.workerStore);
    const admin = createAdminApp({ backend: new NodeBackend({ engine, metrics, subscribers: (key) => app.live.readersOf(key), rotateWebhookKey: () => subscriptions.rotateSigningKey() }), token: config.adminToken, logger, work });
    listeners.push(await listen({ host: config.adminHost, port: config.adminPort, handler: admin.callback(), logger, endLongAnswers: () => work.end() }).catch((error: unknown) => {
      throw listenRefused(error, config.adminHost, config.adminPort, 'FIRN_ADMIN_PORT');
    }));
    listeners.push(await listen({ host: config.host, port: config.port, handler: app.handler, logger, endLongAnswers: () => app.endLongAnswers(), close: () => app.close() }).catch((error: unknown) => {
      throw listenRefused(error, config.host, config.port, 'FIRN_PORT');
    }));
  } catch (error) {
    await closeAll(listeners, subscriptions, engine);
    throw error;
  }
  const [adminListener, clientListener] = listeners as [Listener, Listener];
  return {
    engine,
    clientAddress: { address: clientListener.host, port: clientListener.port },
    adminAddress: { address: adminListener.host, port: adminListener.port },
    close: () => closeAll([clientListener, adminListener], subscriptions, engine),
  };
}

/** Codes under which the node, or one of its partitions, refuses writes now. */
function refusalCodes({ cold, core, partitions, pressure }: Engine): string[] {
  const errors = [pressure.refusal, ...Array.from({ length: partitions }, (_, partition) => cold.refusal(partition))];
  return [...(core.healing ? ['OUTCOME_UNKNOWN'] : []), ...errors.flatMap((error) => (error instanceof FirnError ? [error.code] : []))];
}

/** How jobs run: under BullMQ when the settings name a Redis, else in this process. */
async function runnerOf(config: Config, { logger, now = processClock }: NodeDeps): Promise<EngineDeps['runner']> {
  const { redisUrl: url, jobs: role } = config;
  if (url === null || role === 'embedded') return undefined;
  const { QueueRunner } = await import('../../shared/queue/queue-runner.js');
  return (handlers, storeId) => new QueueRunner({ url, role, storeId, handlers, logger, now });
}

/** Both listeners drain at the same time: their waits do not add up to more than a supervisor allows. */
async function closeAll(listeners: readonly Listener[], subscriptions: Subscriptions, engine: Engine): Promise<void> {
  await Promise.all([subscriptions.stop(), ...listeners.map((listener) => listener.shutdown(DRAIN_MS))]);
  await engine.close();
}

/** What a setting asks for and this version does not have fails before anything is opened. */
function refuseMissingParts(config: Config): void {
  if (config.auth !== null) throw new StartRefused('FIRN_AUTH is set: this version has no authentication; put a proxy in front of it');
}

/** An address that is taken, in words of the settings. */
function listenRefused(error: unknown, host: string, port: number, names: string): unknown {
  if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') return error;
  return new StartRefused(`${host} port ${port} is in use by another process: choose another one with ${names}`);
}
