/**
 * `firn serve`: runs a node until it is told to end.
 *
 * Promises: one JSON line with `"event":"listening"` and both addresses on standard output when it is ready, whatever the log level; exit code 0 on
 * SIGTERM and SIGINT after the node has closed, 1 when closing takes longer than `STOP_MS_MAX` (architecture section 3).
 */
import { Command } from 'commander';
import { httpUrl, type Config } from '../../../shared/config/index.js';
import { createLogger, type Logger } from '../../../shared/observability/index.js';
import type { Context } from '../context.js';
import { CommandFailed } from '../failures.js';
import { startNode, type Node, type NodeAddress } from '../node-parts.js';
import { settingsOf, withSettings } from '../settings.js';

/** Longest time for a node to close, ms. */
const STOP_MS_MAX = 30_000;
/** Fewest threads of libuv's pool (architecture section 5). */
const THREADS_MIN = 16;

const urlOf = ({ address, port }: NodeAddress): string => httpUrl(address, port);

function announce(context: Context, node: Node): void {
  const line = { level: 'info', time: new Date().toISOString(), event: 'listening', client: urlOf(node.clientAddress), admin: urlOf(node.adminAddress), msg: 'ready' };
  context.stdout.write(`${JSON.stringify(line)}\n`);
}

function warn(context: Context, config: Config, logger: Logger): void {
  for (const warning of config.warnings) logger.warn({ event: 'config' }, warning);
  const threads = Number(context.env['UV_THREADPOOL_SIZE'] ?? 4);
  if (threads < THREADS_MIN) logger.warn({ event: 'config', threads }, `UV_THREADPOOL_SIZE is below ${THREADS_MIN}: the disk, files and compression wait for each other`);
}

/** Closes the node; the exit code says whether it did so in time. */
async function close(node: Node, logger: Logger): Promise<number> {
  let late: NodeJS.Timeout | undefined;
  const limit = new Promise<number>((resolve) => {
    late = setTimeout(() => {
      logger.error({ event: 'stop-late' }, 'the node did not close in time');
      resolve(1);
    }, STOP_MS_MAX);
  });
  const closed = node.close().then(() => 0);
  const code = await Promise.race([closed, limit]);
  clearTimeout(late);
  return code;
}

async function started(config: Config, logger: Logger): Promise<Node> {
  try {
    return await startNode(config, logger);
  } catch (error) {
    logger.fatal({ err: error, event: 'start-failed' }, 'the node did not start');
    throw new CommandFailed(`the node did not start: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

async function serve(context: Context, config: Config): Promise<void> {
  const logger = createLogger(config.log);
  context.onFatal((error) => {
    logger.fatal({ err: error, event: 'fatal' }, 'something failed that nobody caught: the process ends');
    context.exit(1);
  });
  warn(context, config, logger);
  // From here on a signal waits for the start to be over: a node is never left half open.
  const told = new Promise<string>((resolve) => void context.onSignal(resolve));
  const node = await started(config, logger);
  announce(context, node);
  const signal = await told;
  logger.info({ event: 'stopping', signal }, 'closing');
  const code = await close(node, logger);
  logger.info({ event: 'stopped' }, 'closed');
  context.exit(code);
}

export function serveCommand(context: Context): Command {
  const command = new Command('serve').description('run a node: both surfaces, the admin listener, background jobs');
  return withSettings(command, 'node').action(() => serve(context, settingsOf(command, context, 'node')));
}
