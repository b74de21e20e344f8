/**
 * Notices which batches have left the write-ahead log, so that the check at the next open is short.
 *
 * Owns: the inference. RocksDB deletes a log file only after everything in it was written to checksummed tables. So: note the newest log file and the newest batch; once that file
 * is gone, all batches up to the noted one need no proof by markers any more.
 */
import { readdir } from 'node:fs/promises';
import type { Verified } from './marker-chain.js';

/** Commits between two looks at the directory. */
const LOOK_EVERY_COMMITS = 4_096;

interface Mark extends Verified {
  /** Number of the newest log file when batch `n` was durable. */
  readonly log: number;
}

export class FlushWatch {
  private mark: Mark | null = null;
  private found: Verified | null = null;
  private looking: Promise<void> | null = null;

  constructor(private readonly dir: string, private readonly everyCommits = LOOK_EVERY_COMMITS) {}

  /** After batch `n` became durable. Reads the directory now and then, in the background. */
  noteCommit(n: number, crc: number): void {
    if (n % this.everyCommits !== 0 || this.looking !== null) return;
    this.looking = this.look(n, crc).finally(() => {
      this.looking = null;
    });
  }

  /** A batch up to which everything lies in tables, once each; null: nothing new. */
  take(): Verified | null {
    const { found } = this;
    this.found = null;
    return found;
  }

  /** Waits for a look that runs. */
  settled(): Promise<void> {
    return this.looking ?? Promise.resolve();
  }

  private async look(n: number, crc: number): Promise<void> {
    // Unreadable for whatever reason: the next check is longer, nothing else.
    const names = await readdir(this.dir).catch((): string[] => []);
    const logs = names.filter((name) => /^\d+\.log$/.test(name)).map((name) => Number.parseInt(name, 10));
    if (logs.length === 0) return;
    if (this.mark !== null && Math.min(...logs) <= this.mark.log) return;
    if (this.mark !== null) this.found = { n: this.mark.n, crc: this.mark.crc };
    this.mark = { n, crc, log: Math.max(...logs) };
  }
}
