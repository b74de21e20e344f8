/**
 * A data directory from the bucket alone: how many streams a second come back, and how much memory that takes, from the log and from a checkpoint.
 *
 * The same store is restored twice over: a quarter of the streams first, then all of them, so that what the number of streams adds to the memory is seen. A million streams take ten times as long, and as much more
 * memory as the bound for one stream says.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { call } from '../demo/client.js';
import { FirnProcess, measuredCommand, type Measured, type Settings } from '../lib/firn-process.js';
import { each } from '../lib/pool.js';
import { bytes, count, duration } from '../lib/table.js';
import { storeSettings, type S3Server } from '../services/s3-server.js';
import { BUCKET, SEALED_WHEN_ASKED, withS3 } from './cold-node.js';
import type { Row } from './results.js';
import { ending } from './started.js';

const STREAMS = 100_000;
const SOME = STREAMS / 4;
const BODY = Buffer.alloc(256, 'a line of a log ');
/** Streams a second: 100,000 streams within a minute. */
const RATE_MIN = STREAMS / 60;
/**
 * What a stream may add to the memory of a restore, bytes. A checkpoint flows through: what is added is buffers that are not full yet (400,000 streams took 65 MiB more than 100,000). What is in the log alone is held, packed, at some 250
 * bytes; the rest is what V8 has not collected yet of one log record unpacked. A checkpoint is due before that is more than `CHECKPOINT_CHANGES`.
 */
const STREAM_BYTES_MAX = { checkpoint: 1_024, log: 2_048 } as const;

type From = keyof typeof STREAM_BYTES_MAX;

class Store {
  #at: string | null = null;

  constructor(private readonly folder: string, private readonly settings: Settings) {}

  /** Runs a node on the newest directory. */
  async node(work: (node: FirnProcess) => Promise<void>): Promise<void> {
    this.#at ??= await mkdtemp(join(this.folder, 'node-'));
    const node = await FirnProcess.on(this.#at, this.settings);
    await ending(() => node.kill(), async () => {
      await node.start();
      await work(node);
      await node.stop();
    });
  }

  /** Loses the directory and makes a new one. */
  async restored(streams: number): Promise<Measured> {
    if (this.#at !== null) await rm(this.#at, { recursive: true });
    this.#at = await mkdtemp(join(this.folder, 'restored-'));
    const run = await measuredCommand(['restore'], { FIRN_LOG: 'warn', ...this.settings, FIRN_DATA_DIR: this.#at });
    const { partitions, lossCount } = JSON.parse(run.stdout) as { readonly partitions: readonly { readonly streams: number }[]; readonly lossCount: number };
    const there = partitions.reduce((sum, partition) => sum + partition.streams, 0);
    if (there !== streams || lossCount !== 0) throw new Error(`${there} of ${streams} streams were restored, ${lossCount} losses`);
    return run;
  }
}

async function create(node: FirnProcess, from: number, to: number): Promise<void> {
  await each(Array.from({ length: to - from }, (_, n) => from + n), 64, async (n) => void (await call(`${node.url}/bench/r${n}`, { method: 'PUT', headers: { 'content-type': 'text/plain' }, body: BODY, expect: [201] })));
  await call(`${node.adminUrl}/__firn/seal`, { method: 'POST', expect: [200] });
}

async function measure(s3: S3Server, from: From): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'firn-bench-'));
  const store = new Store(folder, { ...SEALED_WHEN_ASKED, ...storeSettings(s3, BUCKET, `restore/${folder.slice(-6)}`) });
  return ending(() => rm(folder, { recursive: true, force: true }), async () => {
    const runs: Measured[] = [];
    for (const [begin, end] of [[0, SOME], [SOME, STREAMS]] as const) {
      process.stderr.write(`bench: restore of ${count(end)} streams, ${from}\n`);
      await store.node(async (node) => {
        await create(node, begin, end);
        if (from === 'checkpoint') await call(`${node.adminUrl}/__firn/checkpoint`, { method: 'POST', expect: [200] });
      });
      runs.push(await store.restored(end));
    }
    return rowsOf(from, runs as [Measured, Measured]);
  });
}

function rowsOf(from: From, [some, all]: readonly [Measured, Measured]): Row[] {
  const rate = STREAMS / (all.ms / 1_000);
  const adds = (all.peakBytes - some.peakBytes) / (STREAMS - SOME);
  const work = `restore, ${count(STREAMS)} streams, ${from === 'log' ? 'log alone' : 'checkpoint'}`;
  return [
    { work: `${work}: streams/s against ${count(RATE_MIN)}`, firn: `${count(rate)} streams/s, ${duration(all.ms)}`, other: '', ratio: rate / RATE_MIN, bound: { kind: 'min', value: 1 } },
    { work: `${work}: memory a stream against ${count(STREAM_BYTES_MAX[from])} B`, firn: `peak ${bytes(all.peakBytes)}`, other: `${count(SOME)} streams: ${bytes(some.peakBytes)}`, ratio: adds / STREAM_BYTES_MAX[from], bound: { kind: 'max', value: 1 } },
  ];
}

export async function restore(): Promise<Row[]> {
  return withS3(async (s3) => [...(await measure(s3, 'checkpoint')), ...(await measure(s3, 'log'))]);
}
