/**
 * The hot store under killed processes (faults R003, R091, R095, R101).
 */
import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDurableStore } from '../services/api/hot/durable-store.js';
import { PROJECT } from './support/paths.js';
import { seeded } from './support/random.js';

const CHILD = join(PROJECT, 'test', 'support', 'hot-child.mjs');
const KILLS = 30;
const MEMTABLE_BYTES = 65_536;

/** What the child writes in batch `n`. */
function valueOf(n: number): string {
  return `${n} `.padEnd(500 + (n % 3_000), '.');
}

describe('the hot store of a process that dies', () => {
  let root: string;

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'firn-kill-'));
  });

  afterAll(() => rm(root, { recursive: true, force: true }));

  /** Lets a process commit for some time, kills it, and returns the newest batch that it saw acknowledged. */
  async function writeAndKill(afterMs: number): Promise<number> {
    const child = spawn(process.execPath, [CHILD, 'write', root, String(MEMTABLE_BYTES)], { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.setEncoding('latin1').on('data', (data: string) => {
      output = (output + data).slice(-100);
    });
    const exited = new Promise<string | null>((resolve) => child.once('close', (_, signal) => resolve(signal)));
    await new Promise<void>((resolve) => child.stdout.once('data', () => resolve()));
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    child.kill('SIGKILL');
    expect(await exited).toBe('SIGKILL');
    const whole = output.slice(0, output.lastIndexOf('\n')).split('\n');
    return Number(whole.at(-1));
  }

  it('R003 keeps every acknowledged batch over 30 kills and the rolls of the log between them', async () => {
    const random = seeded('hot-crash');
    let highest = 0;
    let logs = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      const acknowledged = await writeAndKill(random.int(0, 150));
      expect(acknowledged).toBeGreaterThan(highest);
      // R095, R101: it opens at once and takes the next batch.
      const lines: string[] = [];
      const log = (fields: object): void => void lines.push(JSON.stringify(fields));
      const store = await openDurableStore({ dir: join(root, 'hot'), ackedFile: join(root, 'acked'), logger: { info: () => undefined, warn: log, error: log }, rocks: { writeBufferBytes: MEMTABLE_BYTES } });
      highest = store.nextBatch - 1;
      expect(lines).toEqual([]);
      expect(highest).toBeGreaterThanOrEqual(acknowledged);
      // One batch may have been synced and not yet been told.
      expect(highest).toBeLessThanOrEqual(acknowledged + 200);
      for (let n = Math.max(1, highest - 199); n <= highest; n++) expect((await store.get(Buffer.from(`\x7fk${n % 200}`)))?.toString()).toBe(valueOf(n));
      expect((await store.get(Buffer.from('\x7fnewest')))?.toString()).toBe(String(highest));
      highest++;
      await store.commit([{ type: 'put', key: Buffer.from(`\x7fk${highest % 200}`), value: Buffer.from(valueOf(highest)) }]);
      await store.close();
      const names = await readdir(join(root, 'hot'));
      logs = Math.max(logs, ...names.filter((name) => name.endsWith('.log')).map((name) => Number.parseInt(name, 10)));
    }
    // File numbers rise by more than three a kill when the log rolls in between.
    expect(logs).toBeGreaterThan(KILLS * 4);
  }, 180_000);

  it('R091 closing, opening again and leaving while everything runs never crashes the process', async () => {
    const random = seeded('hot-churn');
    for (let run = 0; run < 5; run++) {
      const folder = await mkdtemp(join(tmpdir(), 'firn-churn-'));
      const child = spawn(process.execPath, [CHILD, 'churn', folder, String(random.int(1, 2 ** 31))], { stdio: ['ignore', 'ignore', 'pipe'] });
      let errors = '';
      child.stderr.setEncoding('utf8').on('data', (data: string) => {
        errors += data;
      });
      const end = await new Promise<{ code: number | null; signal: string | null }>((resolve) => child.once('close', (code, signal) => resolve({ code, signal })));
      expect({ ...end, errors }).toEqual({ code: 0, signal: null, errors: '' });
      await rm(folder, { recursive: true });
    }
  }, 120_000);
});
