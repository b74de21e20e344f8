/**
 * What a command touches of its process, in one place.
 *
 * Owns: the only use of `process` in the command line. A test passes a context of its own.
 */
import type { Readable, Writable } from 'node:stream';

export interface Context {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable;
  /** `isTTY`: progress bars are shown. */
  readonly stderr: Writable & { readonly isTTY?: boolean };
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls back for each SIGTERM and SIGINT. Returns the function that takes the listener away. */
  onSignal(listener: (signal: string) => void): () => void;
  /** Calls back when something was thrown that nobody caught. */
  onFatal(listener: (error: unknown) => void): void;
  /** Ends the process once its output is written. */
  exit(code: number): void;
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

export function processContext(): Context {
  return {
    env: process.env,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    now: () => Date.now(),
    onSignal: (listener) => {
      for (const signal of SIGNALS) process.on(signal, listener);
      return () => {
        for (const signal of SIGNALS) process.off(signal, listener);
      };
    },
    onFatal: (listener) => {
      process.on('uncaughtException', listener);
      process.on('unhandledRejection', listener);
    },
    exit: (code) => {
      process.exitCode = code;
      // A pipe may still hold output: an empty write calls back behind it.
      process.stdout.write('', () => process.exit(code));
    },
  };
}
