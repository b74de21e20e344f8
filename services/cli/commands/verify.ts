/**
 * `firn verify`: checks the stored data, by the running node, or in the data directory itself when no node holds it.
 *
 * Promises: exit code 1 when anything was found.
 */
import { Command } from 'commander';
import type { Config } from '../../../shared/config/index.js';
import { createLogger } from '../../../shared/observability/index.js';
import type { Context } from '../context.js';
import { CommandFailed } from '../failures.js';
import { callAdmin, NodeAway, WORK_MS_MAX } from '../node-client.js';
import { verifyDirectory } from '../node-parts.js';
import { progressBar, withClock } from '../progress.js';
import { settingsOf, withSettings } from '../settings.js';

/** What a check found; both ways of running it answer this. */
interface VerifyReport {
  readonly findingCount: number;
}

async function verify(context: Context, config: Config, deep: boolean): Promise<VerifyReport> {
  try {
    return await withClock(context, 'verify', () => callAdmin(config, `/__firn/verify?deep=${deep ? 1 : 0}&timeout_ms=${WORK_MS_MAX}`, { method: 'POST' }) as Promise<VerifyReport>);
  } catch (error) {
    if (!(error instanceof NodeAway)) throw error;
  }
  const bar = progressBar(context, 'verify', 1);
  try {
    return await verifyDirectory(config, { logger: createLogger(config.log, context.stderr), deep, onProgress: (streams, objects) => bar.set(streams + objects, streams + objects + 1) });
  } catch (error) {
    throw new CommandFailed(`no node answers at ${config.nodeAdminUrl}, and the directory could not be checked: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  } finally {
    bar.stop();
  }
}

export function verifyCommand(context: Context): Command {
  const command = new Command('verify')
    .description('check the stored data, by the running node or, when none runs, in the data directory itself')
    .option('--deep', 'read every byte', false);
  return withSettings(command, 'node').action(async (options: { deep: boolean }) => {
    const report = await verify(context, settingsOf(command, context, 'client'), options.deep);
    context.stdout.write(`${JSON.stringify(report)}\n`);
    if (report.findingCount > 0) throw new CommandFailed(`${report.findingCount} problems were found`);
  });
}
