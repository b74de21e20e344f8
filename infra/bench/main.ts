/**
 * `npm run bench [-- NAME…] [--rounds N] [--seconds N]`: Firn beside its rivals on this machine, in one run.
 *
 * Prints each figure, the ratio and the floor it has to keep; ends non-zero when one is missed.
 */
import { Command } from 'commander';
import { closeClient } from '../demo/client.js';
import { withScope } from '../lib/scope.js';
import { appends } from './appends.js';
import { catchUp } from './catch-up.js';
import { cold } from './cold.js';
import { memory } from './memory.js';
import { restore } from './restore.js';
import { passes, resultTable, type Options, type Row } from './results.js';
import { sealing } from './sealing.js';
import { sse } from './sse.js';
import { STARTED } from './started.js';
import { subscriptions } from './subscriptions.js';
import { variants } from './variants.js';

const WORKS: Readonly<Record<string, (options: Options) => Promise<Row[]>>> = { appends, 'catch-up': catchUp, cold, sealing, sse, subscriptions, memory, restore, variants };

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? '';

const program = new Command('bench')
  .argument('[works...]', `which: ${Object.keys(WORKS).join(', ')}; none: all`)
  .option('--rounds <count>', 'rounds of each, interleaved; medians are shown', '3')
  .option('--seconds <count>', 'length of one run', '5')
  .action(async (names: string[], options: { rounds: string; seconds: string }) => {
    const chosen = names.length === 0 ? Object.keys(WORKS) : names;
    const rows: Row[] = [];
    for (const name of chosen) {
      const work = WORKS[name];
      if (work === undefined) throw new Error(`there is no work "${name}": ${Object.keys(WORKS).join(', ')}`);
      try {
        rows.push(...await work({ rounds: Number(options.rounds), seconds: Number(options.seconds) }));
      } catch (error) {
        // The other works still tell something.
        rows.push({ work: name, firn: '', other: '', ratio: null, bound: null, fault: reason(error) });
      }
    }
    process.stdout.write(`\n${resultTable(rows)}\n`);
    if (!rows.every(passes)) process.exitCode = 1;
  });

try {
  await withScope(() => program.parseAsync().then(() => undefined), STARTED);
} catch (error) {
  process.stderr.write(`bench: ${reason(error)}\n`);
  process.exitCode = 1;
} finally {
  await closeClient();
}
