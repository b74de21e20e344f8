/** `firn streams`: lists the streams of a node. */
import { Command } from 'commander';
import type { Context } from '../context.js';
import { callAdmin } from '../node-client.js';
import { write } from '../output.js';
import { settingsOf, withSettings } from '../settings.js';

/** Rows asked for at a time. */
const PAGE_ROWS = 1_000;

export function streamsCommand(context: Context): Command {
  const command = new Command('streams')
    .description('list streams as JSON lines: key, content type, tail, retained, cold frontier, closed, TTL')
    .option('--prefix <text>', 'only keys that begin with it', '')
    .option('--limit <count>', 'at most this many');
  return withSettings(command, 'client').action(async (options: { prefix: string; limit?: string }) => {
    const config = settingsOf(command, context, 'client');
    let left = options.limit === undefined ? Infinity : Number(options.limit);
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
