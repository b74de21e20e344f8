/**
 * Appends while sealing never stops, beside appends while nothing is sealed; and whether sealing keeps up.
 *
 * The same node software, machine, load and S3 server on both sides, in turns; only the thresholds of sealing differ. The bodies are random bytes, none of which comes twice in what is compressed
 * together, so that what is appended has to be uploaded in full.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { FRAME_TARGET_BYTES_MAX } from '../../shared/storage/frame.js';
import { call } from '../demo/client.js';
import { each } from '../lib/pool.js';
import type { FirnProcess } from '../lib/firn-process.js';
import { bytes, count } from '../lib/table.js';
import { metricsOf, withColdNode, withS3 } from './cold-node.js';
import { median, WARM_UP, WARM_UP_SECONDS, type Options, type Row } from './results.js';
import { rawRequest, socketLoad, type SocketResult } from './sockets.js';

const CONNECTIONS = 64;
const STREAMS = 64;
const TYPE = { 'content-type': 'application/octet-stream' };
/** Lengths of one append: many small ones, and long ones that bring more bytes than small ones ever do. */
const BODY_BYTES = [256, 16_384] as const;
/** A seal is due at this many bytes: a few times in each run. */
export const SEAL_BYTES = 2_097_152;
const SAMPLE_MS = 250;
/** Longest wait for the last seals of a run, ms. */
const DRAIN_MS_MAX = 60_000;
/** p99 with sealing against p99 without. */
const P99_MAX = 2;
/** What is sealed against what is appended, from the first append until a run ends: the rest is the seal that is under way. */
const SEALED_MIN = 0.5;

export interface Run {
  readonly result: SocketResult;
  /** Most bytes that waited for their seal at a time. */
  readonly peak: number;
  /** Share of the appended bytes that was sealed when the load ended. */
  readonly sealed: number;
  /** From the end of the load until all but a seal's worth is sealed, ms. */
  readonly drainMs: number;
}

/** Bytes that wait for their seal. */
async function unsealed(node: FirnProcess): Promise<number> {
  return (await metricsOf(node)).sum('firn_unsealed_bytes');
}

async function create(node: FirnProcess, prefix: string): Promise<void> {
  await each(Array.from({ length: STREAMS }, (_, n) => n), STREAMS, async (n) => void (await call(`${node.url}/bench/${prefix}${n}`, { method: 'PUT', headers: TYPE, expect: [201] })));
}

/** Appends to one stream, as many as do not fit into one frame. */
function requestsTo(path: string, bodyBytes: number): Buffer[] {
  return Array.from({ length: FRAME_TARGET_BYTES_MAX / bodyBytes + 1 }, () => rawRequest('POST', path, TYPE, randomBytes(bodyBytes)));
}

export async function runOne(node: FirnProcess, bodyBytes: number, round: number, seconds: number): Promise<Run> {
  const prefix = `b${bodyBytes}r${round + 1}-`;
  await create(node, prefix);
  const requests = Array.from({ length: STREAMS }, (_, n) => requestsTo(`/bench/${prefix}${n}`, bodyBytes));
  const request = (connection: number, turn: number): Buffer => {
    const own = requests[connection] as Buffer[];
    return own[turn % own.length] as Buffer;
  };
  const before = await unsealed(node);
  let peak = before;
  let over = false;
  const watch = (async () => {
    while (!over) {
      peak = Math.max(peak, await unsealed(node));
      await sleep(SAMPLE_MS);
    }
  })();
  const result = await socketLoad({ url: node.url, connections: CONNECTIONS, seconds, request });
  const after = await unsealed(node);
  over = true;
  await watch;
  const appended = result.rate * seconds * bodyBytes;
  return { result, peak: Math.max(peak, after), sealed: 1 - (after - before) / appended, drainMs: 0 };
}

/** Waits until what is left lies below the threshold. */
export async function drained(node: FirnProcess): Promise<number> {
  const started = performance.now();
  while ((await unsealed(node)) >= SEAL_BYTES) {
    if (performance.now() - started > DRAIN_MS_MAX) throw new Error('sealing does not catch up');
    await sleep(SAMPLE_MS);
  }
  return performance.now() - started;
}

function rowsOf(bodyBytes: number, sealing: readonly Run[], resting: readonly Run[]): Row[] {
  const p99 = (runs: readonly Run[]): number => median(runs.map((run) => run.result.p99Ms));
  const figure = (runs: readonly Run[]): string => `${count(median(runs.map((run) => run.result.rate)))}/s p99 ${p99(runs).toFixed(1)} ms`;
  const bad = [...sealing, ...resting].reduce((sum, run) => sum + run.result.bad, 0);
  const work = `append ${bytes(bodyBytes)}, ${CONNECTIONS} conn, ${STREAMS} streams`;
  return [
    { work: `${work}: sealing / not, p99`, firn: figure(sealing), other: figure(resting), ratio: p99(sealing) / p99(resting), bound: { kind: 'max', value: P99_MAX }, ...(bad > 0 ? { fault: `${bad} appends were refused` } : {}) },
    {
      work: `${work}: sealed / appended`, firn: `peak ${bytes(Math.max(...sealing.map((run) => run.peak)))}, rest in ${median(sealing.map((run) => run.drainMs)).toFixed(0)} ms`, other: '',
      ratio: median(sealing.map((run) => run.sealed)), bound: { kind: 'min', value: SEALED_MIN },
    },
  ];
}

export async function sealing(options: Options): Promise<Row[]> {
  return withS3((s3) => withColdNode(s3, { FIRN_SEAL_BYTES: String(SEAL_BYTES), FIRN_SEAL_AGE_MS: '1000' }, (busy) =>
    withColdNode(s3, { FIRN_SEAL_BYTES: '8589934592', FIRN_SEAL_AGE_MS: '86400000' }, async (idle) => {
      const rows: Row[] = [];
      for (const bodyBytes of BODY_BYTES) {
        const runs = { busy: [] as Run[], idle: [] as Run[] };
        for (let round = WARM_UP; round < options.rounds; round += 1) {
          process.stderr.write(`bench: sealing, appends of ${bytes(bodyBytes)}, round ${round + 1}\n`);
          const seconds = round === WARM_UP ? WARM_UP_SECONDS : options.seconds;
          const without = await runOne(idle, bodyBytes, round, seconds);
          const during = await runOne(busy, bodyBytes, round, seconds);
          const drainMs = await drained(busy);
          if (round === WARM_UP) continue;
          runs.idle.push(without);
          runs.busy.push({ ...during, drainMs });
        }
        rows.push(...rowsOf(bodyBytes, runs.busy, runs.idle));
      }
      return rows;
    })));
}
