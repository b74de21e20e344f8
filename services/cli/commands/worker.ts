/** `firn worker`: runs background jobs for a node elsewhere, over a queue in Redis. */
import { Command } from 'commander';
import type { Context } from '../context.js';
import { CommandFailed } from '../failures.js';
import { settingsOf, withSettings } from '../settings.js';

export function workerCommand(context: Context): Command {
  const command = new Command('worker').description('run background jobs for a node, taken from its queue in Redis');
  return withSettings(command, 'node').action(() => {
    const config = settingsOf(command, context, 'client');
    if (config.redisUrl === null) throw new CommandFailed('a worker needs FIRN_REDIS_URL: without Redis a node runs its jobs itself');
    throw new CommandFailed('this build has no queue in Redis yet: a node runs its jobs itself');
  });
}
