/**
 * `firn tail`: follows a stream and writes its bytes to standard output.
 *
 * Promises: after a lost connection it goes on at the position it had written up to; bytes are neither repeated nor left out.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { Readable } from 'node:stream';
import type { Config } from '../../../shared/config/index.js';
import type { Context } from '../context.js';
import { ERRORS, type ErrorCode } from '../../../shared/protocol/errors.js';
import { CommandFailed, OutputClosed, Refused } from '../failures.js';
import { callClient, NodeAway, streamPath, type Answer } from '../node-client.js';
import { write } from '../output.js';
import { settingsOf, withSettings } from '../settings.js';

const RECONNECT_MS = 1_000;

interface Position {
  offset: string;
  closed: boolean;
}

interface Control {
  readonly streamNextOffset: string;
  readonly streamClosed?: boolean;
}

/** Status that the code of an error event stands for; 0: none that is known. */
function statusOf(data: string): number {
  try {
    const { error } = JSON.parse(data) as { error?: { code?: string } };
    return ERRORS[error?.code as ErrorCode]?.status ?? 0;
  } catch {
    return 0;
  }
}

async function follow(context: Context, answer: Answer, position: Position): Promise<void> {
  const base64 = answer.headers['stream-sse-data-encoding'] === 'base64';
  const events = Readable.toWeb(answer.body as unknown as Readable).pipeThrough(new TextDecoderStream() as never).pipeThrough(new EventSourceParserStream());
  let data: string | Buffer = '';
  for await (const event of events as unknown as AsyncIterable<{ event?: string; data: string }>) {
    if (event.event === 'data') {
      data = base64 ? Buffer.from(event.data, 'base64') : event.data;
    } else if (event.event === 'control') {
      const control = JSON.parse(event.data) as Control;
      // Only the control event says that the data before it is whole.
      await write(context.stdout, data);
      data = '';
      position.offset = control.streamNextOffset;
      position.closed = control.streamClosed === true;
    } else if (event.event === 'error') {
      throw new Refused(`the node ended the stream: ${event.data}`, statusOf(event.data));
    }
  }
}

async function tail(context: Context, config: Config, key: string, from: string, signal: AbortSignal): Promise<void> {
  const position: Position = { offset: from, closed: false };
  let began = false;
  while (!position.closed && !signal.aborted) {
    try {
      const answer = await callClient(config, `${streamPath(key)}?offset=${encodeURIComponent(position.offset)}&live=sse`, { signal });
      began = true;
      await follow(context, answer, position);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof OutputClosed) throw error;
      // A node that is away comes back, also when it says so itself; one that refuses will refuse again. An address where there never was one is wrong.
      const comesBack = (error instanceof NodeAway && began) || (error instanceof Refused && error.isTransient);
      if (error instanceof CommandFailed && !comesBack) throw error;
      context.stderr.write(`firn: ${error instanceof CommandFailed ? error.message : 'connection lost'}, trying again\n`);
      await sleep(RECONNECT_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

export function tailCommand(context: Context): Command {
  const command = new Command('tail')
    .description('follow a stream until it is closed, or Ctrl-C')
    .argument('<key>', 'stream, such as demo/hello')
    .option('--from <offset>', 'where to begin: -1 for the start, now for the end, or an offset', '-1');
  return withSettings(command, 'client').action(async (key: string, options: { from: string }) => {
    const config = settingsOf(command, context, 'client');
    const stop = new AbortController();
    const off = context.onSignal(() => stop.abort());
    try {
      await tail(context, config, key, options.from, stop.signal);
    } finally {
      off();
    }
  });
}
