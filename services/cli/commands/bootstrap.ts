/** `firn bootstrap`: fetches the snapshot and what came after it, as a new client would. */
import { Command } from 'commander';
import type { Context } from '../context.js';
import { CommandFailed } from '../failures.js';
import { bucketedPath, callClient, headerOf } from '../node-client.js';
import { pump } from '../output.js';
import { settingsOf, withSettings } from '../settings.js';

export function bootstrapCommand(context: Context): Command {
  const command = new Command('bootstrap')
    .description('write the multipart answer of a bootstrap to standard output; where it ends goes to standard error')
    .argument('<key>', 'stream, such as demo/hello');
  return withSettings(command, 'client').action(async (key: string) => {
    const config = settingsOf(command, context, 'client');
    const answer = await callClient(config, `${bucketedPath(key)}/bootstrap`);
    const type = headerOf(answer, 'content-type');
    if (!type.startsWith('multipart/mixed')) throw new CommandFailed(`the node answered ${type}`);
    const bytes = await pump(answer.body, context.stdout);
    const line = { bytes, contentType: type, snapshotOffset: headerOf(answer, 'stream-snapshot-offset'), nextOffset: headerOf(answer, 'stream-next-offset'), upToDate: answer.headers['stream-up-to-date'] === 'true' };
    context.stderr.write(`${JSON.stringify(line)}\n`);
  });
}
