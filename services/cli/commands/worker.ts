/**
 * `firn worker`: runs background jobs for a node elsewhere, taken from its queue in Redis.
 *
 * Promises: one JSON line with `"event":"working"` on standard output once node, store and Redis are there, whatever the log level; exit code 0 on SIGTERM and SIGINT
 * after running jobs have finished or given up, within `STOP_MS_MAX`; 1 when the node does not let it work. `--check` tells by its exit code whether a worker with these settings
 * could work now.
 */
import { Command, InvalidArgumentError } from 'commander';
import type { Config } from '../../../shared/config/index.js';
import { createLogger, type Logger } from '../../../shared/observability/index.js';
import type { Context } from '../context.js';
import { CommandFailed } from '../failures.js';
import { checkWorker, openWorkerObjects, startWorker, type RunningWorker, type WorkerOptions } from '../node-parts.js';
import { settingsOf, withSettings } from '../settings.js';

/** Longest time for running jobs to end, ms: below what container runtimes give by default. */
const STOP_MS_MAX = 9_000;
/** Longest time of a check, ms. */
const CHECK_MS_MAX = 15_000;
/** Most jobs of a kind at a time. Each has one body or commit under way: seals and offloads together leave a fourth of the 32 connections to the node free for signs of life. */
const CONCURRENCY_MAX = 12;

interface Options {
  readonly concurrency?: number;
  readonly check: boolean;
}

function concurrencyOf(text: string): number {
  const value = /^\d{1,2}$/.test(text) ? Number(text) : NaN;
  if (!(value >= 1 && value <= CONCURRENCY_MAX)) throw new InvalidArgumentError(`allowed is a whole number from 1 to ${CONCURRENCY_MAX}.`);
  return value;
}

/** What a worker needs, or a sentence that says what is missing. */
async function optionsOf(context: Context, config: Config, logger: Logger, { concurrency }: Options): Promise<WorkerOptions> {
  if (config.redisUrl === null) throw new CommandFailed('a worker needs FIRN_REDIS_URL: without Redis a node runs its jobs itself');
  if (config.cold !== 's3' || config.s3 === null) throw new CommandFailed(`a worker needs the bucket of its node (FIRN_S3_BUCKET): with FIRN_COLD=${config.cold} only the node itself reaches its objects, and runs its jobs`);
  return {
    nodeUrl: config.nodeAdminUrl,
    token: config.adminToken,
    redisUrl: config.redisUrl,
    ...(await openWorkerObjects(config.s3, logger)),
    webhooks: { allow: config.webhookAllow, domains: config.webhookDomains },
    logger,
    now: () => context.now(),
    concurrency: concurrency === undefined ? undefined : { seal: concurrency, offload: concurrency },
  };
}

function announce(context: Context, config: Config, worker: RunningWorker): void {
  const line = { level: 'info', time: new Date().toISOString(), event: 'working', node: config.nodeAdminUrl, store: worker.storeId, msg: 'ready' };
  context.stdout.write(`${JSON.stringify(line)}\n`);
}

async function work(context: Context, config: Config, options: Options): Promise<void> {
  const logger = createLogger(config.log);
  context.onFatal((error) => {
    logger.fatal({ err: error, event: 'fatal' }, 'something failed that nobody caught: the process ends');
    context.exit(1);
  });
  for (const warning of config.warnings) logger.warn({ event: 'config' }, warning);
  const all = await optionsOf(context, config, logger, options);
  const stop = new AbortController();
  const told = new Promise<null>((resolve) => void context.onSignal((signal) => {
    logger.info({ event: 'stopping', signal }, 'no more jobs are taken');
    stop.abort(new Error('the worker was told to stop'));
    resolve(null);
  }));
  let worker: RunningWorker;
  try {
    worker = await startWorker(all, stop.signal);
  } catch (error) {
    if (stop.signal.aborted) return context.exit(0);
    throw new CommandFailed(error instanceof Error ? error.message : String(error), { cause: error });
  }
  announce(context, config, worker);
  const refused = await Promise.race([told, worker.refused]);
  if (refused !== null) logger.fatal({ event: 'refused', why: refused.message }, 'the node does not let this worker work any more');
  await worker.close(STOP_MS_MAX);
  logger.info({ event: 'stopped' }, 'closed');
  context.exit(refused === null ? 0 : 1);
}

async function check(context: Context, config: Config, options: Options): Promise<void> {
  const all = await optionsOf(context, config, createLogger('silent'), options);
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new Error(`no answer within ${CHECK_MS_MAX} ms`)), CHECK_MS_MAX);
  try {
    const store = await checkWorker(all, late.signal);
    context.stdout.write(`${JSON.stringify({ event: 'checked', node: config.nodeAdminUrl, store })}\n`);
    context.exit(0);
  } catch (error) {
    throw new CommandFailed(`a worker cannot work now: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

export function workerCommand(context: Context): Command {
  const command = new Command('worker')
    .description('run background jobs for a node, taken from its queue in Redis')
    .option('--concurrency <n>', 'seals, and offloads, at a time; default: 2', concurrencyOf)
    .option('--check', 'only tell whether node, object store and Redis are there and belong together', false);
  return withSettings(command, 'worker').action((options: Options) => {
    const config = settingsOf(command, context, 'worker');
    return options.check ? check(context, config, options) : work(context, config, options);
  });
}
