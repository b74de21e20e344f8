/**
 * The command line `firn`.
 *
 * Owns: the list of commands and what their failures look like. Promises: exit code 0 when all went well, 2 for wrong settings or arguments, 1 otherwise,
 * with one sentence on standard error; a reader
 * of the output that leaves ends a command quietly, but no node.
 */
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../../shared/config/index.js';
import { appendCommand } from './commands/append.js';
import { bootstrapCommand } from './commands/bootstrap.js';
import { checkpointCommand } from './commands/checkpoint.js';
import { collectCommand } from './commands/collect.js';
import { restoreCommand } from './commands/restore.js';
import { serveCommand } from './commands/serve.js';
import { snapshotCommand } from './commands/snapshot.js';
import { streamsCommand } from './commands/streams.js';
import { tailCommand } from './commands/tail.js';
import { verifyCommand } from './commands/verify.js';
import { workerCommand } from './commands/worker.js';
import { processContext, type Context } from './context.js';
import { CommandFailed, OutputClosed } from './failures.js';
import { isClosedPipe } from './output.js';

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

function program(context: Context): Command {
  const firn = new Command('firn')
    .description('Durable, append-only streams over plain HTTP: hot in RocksDB, cold in an object store.')
    .exitOverride()
    .showHelpAfterError('(see --help)')
    .configureOutput({ writeOut: (text) => void context.stdout.write(text), writeErr: (text) => void context.stderr.write(text) });
  const commands = [
    serveCommand, workerCommand, checkpointCommand, collectCommand, verifyCommand, restoreCommand,
    streamsCommand, tailCommand, appendCommand, bootstrapCommand, snapshotCommand,
  ];
  for (const make of commands) firn.addCommand(make(context));
  inherit(firn);
  return firn;
}

/** Commands that were made apart do not take over how their parent writes and ends. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent).exitOverride();
    inherit(command);
  }
}

function exitCodeOf(error: unknown, context: Context): number {
  if (error instanceof OutputClosed) return 0;
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE;
  if (error instanceof ConfigError) {
    for (const problem of error.problems) context.stderr.write(`firn: ${problem}\n`);
    return EXIT_USAGE;
  }
  const text = error instanceof CommandFailed ? error.message : error instanceof Error ? (error.stack ?? error.message) : String(error);
  context.stderr.write(`firn: ${text}\n`);
  return EXIT_FAILED;
}

/** Commands that go on when nobody reads what they say. */
const SERVICES = new Set(['serve', 'worker']);

/** Small writes tell only by an event that the pipe is closed; without a listener it would end the process with a stack trace. */
function endWithReader(firn: Command, context: Context): void {
  let serves = false;
  firn.hook('preAction', (_firn, action) => {
    serves = SERVICES.has(action.name());
  });
  context.stdout.on('error', (error) => {
    if (!isClosedPipe(error)) context.stderr.write(`firn: standard output: ${error.message}\n`);
    if (!serves) context.exit(isClosedPipe(error) ? 0 : EXIT_FAILED);
  });
  context.stderr.on('error', () => undefined);
}

/** Runs one command line (without program and script name) to its end and sets the exit code of the process. */
export async function main(args: readonly string[], context: Context = processContext()): Promise<void> {
  const firn = program(context);
  endWithReader(firn, context);
  try {
    await firn.parseAsync([...args], { from: 'user' });
  } catch (error) {
    context.exit(exitCodeOf(error, context));
  }
}
