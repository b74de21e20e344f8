/** `firn snapshot put|get`: publishes and fetches snapshots. */
import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Command } from 'commander';
import type { Config } from '../../../shared/config/index.js';
import type { Context } from '../context.js';
import { CommandFailed } from '../failures.js';
import { bucketedPath, callClient, headerOf } from '../node-client.js';
import { pump } from '../output.js';
import { progressBar } from '../progress.js';
import { settingsOf, withSettings } from '../settings.js';

function counting(onBytes: (total: number) => void): Transform {
  let total = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      total += chunk.length;
      onBytes(total);
      done(null, chunk);
    },
  });
}

async function put(context: Context, config: Config, key: string, offset: string, file: string, contentType: string): Promise<void> {
  const { size } = await stat(file);
  const bar = progressBar(context, 'upload', size);
  const source = createReadStream(file);
  const body = source.pipe(counting((total) => bar.set(total)));
  source.on('error', (error) => body.destroy(error));
  try {
    const answer = await callClient(config, `${bucketedPath(key)}/snapshot/${encodeURIComponent(offset)}`, { method: 'PUT', headers: { 'content-type': contentType, 'content-length': String(size) }, body });
    await answer.body.dump();
    context.stdout.write(`${JSON.stringify({ offset: headerOf(answer, 'stream-snapshot-offset'), digest: headerOf(answer, 'stream-snapshot-digest') })}\n`);
  } finally {
    bar.stop();
  }
}

async function get(context: Context, config: Config, key: string, offset: string | undefined, file: string | undefined): Promise<void> {
  const path = bucketedPath(key);
  let at = offset;
  if (at === undefined) {
    const head = await callClient(config, path, { method: 'HEAD' });
    await head.body.dump();
    const visible = head.headers['stream-snapshot-offset'];
    if (typeof visible !== 'string' || visible === '-1') throw new CommandFailed(`${key} has no snapshot`);
    at = visible;
  }
  const answer = await callClient(config, `${path}/snapshot/${encodeURIComponent(at)}`);
  if (file === undefined) {
    await pump(answer.body, context.stdout);
    return;
  }
  const bar = progressBar(context, 'download', Number(answer.headers['content-length'] ?? 0));
  try {
    await pipeline(answer.body, counting((total) => bar.set(total)), createWriteStream(file));
  } finally {
    bar.stop();
  }
}

export function snapshotCommand(context: Context): Command {
  const group = new Command('snapshot').description('publish or fetch a snapshot');
  const putting = new Command('put')
    .description('publish a file as the snapshot at an offset')
    .argument('<key>', 'stream, such as demo/hello').argument('<offset>', 'offset that the snapshot covers').argument('<file>', 'its bytes')
    .option('--content-type <type>', 'content type of the snapshot', 'application/octet-stream');
  withSettings(putting, 'client').action((key: string, offset: string, file: string, options: { contentType: string }) =>
    put(context, settingsOf(putting, context, 'client'), key, offset, file, options.contentType));
  const getting = new Command('get')
    .description('fetch the visible snapshot, or the one at an offset')
    .argument('<key>', 'stream, such as demo/hello').argument('[offset]', 'left out: the visible one')
    .option('--out <file>', 'write to a file instead of standard output');
  withSettings(getting, 'client').action((key: string, offset: string | undefined, options: { out?: string }) =>
    get(context, settingsOf(getting, context, 'client'), key, offset, options.out));
  return group.addCommand(putting).addCommand(getting);
}
