/** `firn collect`: the running node deletes now what nothing needs any more in its object store. */
import { Command } from 'commander';
import type { Context } from '../context.js';
import { callAdmin, WORK_MS_MAX } from '../node-client.js';
import { withClock } from '../progress.js';
import { settingsOf, withSettings } from '../settings.js';

export function collectCommand(context: Context): Command {
  const command = new Command('collect').description('let the running node delete what nothing in its object store needs any more, now');
  return withSettings(command, 'client').action(async () => {
    const config = settingsOf(command, context, 'client');
    const done = await withClock(context, 'collect', () => callAdmin(config, `/__firn/collect?timeout_ms=${WORK_MS_MAX}`, { method: 'POST' }));
    context.stdout.write(`${JSON.stringify(done)}\n`);
  });
}
