/** `firn restore`: fills a data directory that has no `hot/` from the object store, while no node runs on it. */
import { Command } from 'commander';
import { createLogger } from '../../../shared/observability/index.js';
import type { Context } from '../context.js';
import { CommandFailed } from '../failures.js';
import { restoreDirectory } from '../node-parts.js';
import { progressOrLines } from '../progress.js';
import { settingsOf, withSettings } from '../settings.js';

export function restoreCommand(context: Context): Command {
  const command = new Command('restore')
    .description('fill a data directory that has no hot/ from the object store (node stopped)')
    .option('--new-incarnations', 'give every stream a new incarnation (always so with FIRN_COLD=fs)', false);
  return withSettings(command, 'node').action(async (options: { newIncarnations: boolean }) => {
    const config = settingsOf(command, context, 'node');
    const logger = createLogger(config.log, context.stderr);
    const bar = progressOrLines(context, 'restore', logger);
    try {
      const report = await restoreDirectory(config, { logger, newIncarnations: options.newIncarnations, onProgress: ({ streams, streamsAbout }) => bar.set(streams, Math.max(streams, streamsAbout)) });
      context.stdout.write(`${JSON.stringify(report)}\n`);
    } catch (error) {
      throw new CommandFailed(`the restore failed: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    } finally {
      bar.stop();
    }
  });
}
