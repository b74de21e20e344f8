/** `firn append`: one append, from the command line or standard input. */
import { Command } from 'commander';
import type { Context } from '../context.js';
import { CommandFailed } from '../failures.js';
import { callClient, headerOf, streamPath } from '../node-client.js';
import { settingsOf, withSettings } from '../settings.js';

interface Options {
  readonly contentType: string;
  readonly create: boolean;
  readonly close: boolean;
}

async function bodyOf(context: Context, data: string | undefined, bytesMax: number): Promise<Buffer> {
  if (data !== undefined) return Buffer.from(data);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of context.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > bytesMax) throw new CommandFailed(`standard input holds more than one append may (${bytesMax} bytes)`);
  }
  return Buffer.concat(chunks);
}

export function appendCommand(context: Context): Command {
  const command = new Command('append')
    .description('append to a stream; prints the next offset')
    .argument('<key>', 'stream, such as demo/hello')
    .argument('[data]', 'what to append, as it is (no line end is added); left out: standard input')
    .option('--content-type <type>', 'content type of the stream, which has to match', 'text/plain')
    .option('--create', 'create the stream when it is not there', false)
    .option('--close', 'close the stream with this append', false);
  return withSettings(command, 'client').action(async (key: string, data: string | undefined, options: Options) => {
    const config = settingsOf(command, context, 'client');
    const path = streamPath(key);
    const body = await bodyOf(context, data, config.requestBytesMax);
    const headers = { 'content-type': options.contentType };
    if (options.create) await (await callClient(config, path, { method: 'PUT', headers })).body.dump();
    const answer = await callClient(config, path, { method: 'POST', headers: options.close ? { ...headers, 'stream-closed': 'true' } : headers, body });
    await answer.body.dump();
    context.stdout.write(`${headerOf(answer, 'stream-next-offset')}\n`);
  });
}
