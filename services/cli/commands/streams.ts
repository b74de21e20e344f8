/** `firn streams`: lists the streams of a node. */
import { Command, InvalidArgumentError } from 'commander';
import type { Context } from '../context.js';
import { callAdmin } from '../node-client.js';
import { write } from '../output.js';
import { settingsOf, withSettings } from '../settings.js';

/** Rows asked for at a time. */
const PAGE_ROWS = 1_000;

function countOf(text: string): number {
  const count = /^[0-9]{1,15}$/.test(text) ? Number(text) : 0;
  if (count < 1) throw new InvalidArgumentError('a whole number from 1.');
  return count;
}

export function streamsCommand(context: Context): Command {
  const command = new Command('streams')
    .description('list streams as JSON lines: key, content type, tail, retained, cold frontier, closed, TTL')
    .option('--prefix <text>', 'only keys that begin with it', '')
    .option('--limit <count>', 'at most this many', countOf);
  return withSettings(command, 'client').action(async (options: { prefix: string; limit?: number }) => {
    const config = settingsOf(command, context, 'client');
    let left = options.limit ?? Infinity;
    let after: string | null = null;
    while (left > 0) {
      const query = new URLSearchParams({ prefix: options.prefix, limit: String(Math.min(left, PAGE_ROWS)) });
      if (after !== null) query.set('after', after);
      const page = (await callAdmin(config, `/__firn/streams?${query}`)) as { streams: { key: string }[]; next?: string | null };
      for (const row of page.streams) await write(context.stdout, `${JSON.stringify(row)}\n`);
      left -= page.streams.length;
      after = page.next ?? null;
      if (after === null || page.streams.length === 0) break;
    }
  });
}
