/** `firn checkpoint`: the running node writes a checkpoint of every partition now. */
import { Command } from 'commander';
import type { Context } from '../context.js';
import { callAdmin, WORK_MS_MAX } from '../node-client.js';
import { withClock } from '../progress.js';
import { settingsOf, withSettings } from '../settings.js';

export function checkpointCommand(context: Context): Command {
  const command = new Command('checkpoint').description('let the running node write a checkpoint of every partition now');
  return withSettings(command, 'client').action(async () => {
    const config = settingsOf(command, context, 'client');
    const done = await withClock(context, 'checkpoint', () => callAdmin(config, `/__firn/checkpoint?timeout_ms=${WORK_MS_MAX}`, { method: 'POST' }));
    context.stdout.write(`${JSON.stringify(done)}\n`);
  });
}
