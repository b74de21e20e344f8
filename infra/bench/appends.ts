/**
 * 256-byte synced appends: Firn beside a bare HTTP server and beside the rivals, under the same load.
 */
import { count } from '../lib/table.js';
import { settleDisk } from './disk.js';
import { median, resultTable, WARM_UP, WARM_UP_SECONDS, type Options, type Row } from './results.js';
import { peerMissing, withServers, type PeerName, type Server, type ServerName } from './servers.js';
import { appendLoad, ensureWrk, type LoadResult } from './wrk.js';

const BYTES = 256;
const SHAPES = [{ connections: 64, streams: 1 }, { connections: 64, streams: 500 }, { connections: 500, streams: 1 }, { connections: 500, streams: 500 }] as const;
type Shape = (typeof SHAPES)[number];

/** Least ratio to the bare server at these connections, and to each rival. */
const BARE_MIN: Readonly<Record<Shape['connections'], number>> = { 64: 0.5, 500: 0.6 };
const RIVAL_MIN: Readonly<Record<PeerName, number>> = { ursula: 1.2, reference: 8, s2: 1.2 };
/** More bad answers than this share make a run worthless. */
const BAD_SHARE_MAX = 0.01;

interface Run {
  readonly result: LoadResult;
  readonly bad: boolean;
}

async function runOne(server: Server, shape: Shape, round: number, seconds: number): Promise<Run> {
  const prefix = `c${shape.connections}s${shape.streams}r${round + 1}-`;
  await server.create(prefix, shape.streams, 'application/octet-stream');
  const paths = Array.from({ length: shape.streams }, (_, stream) => server.path(`${prefix}${stream}`));
  const load = { url: server.url, paths, connections: shape.connections, seconds, ...server.append(BYTES) };
  await settleDisk();
  const result = await appendLoad(load);
  return { result, bad: (result.refused + result.errors) / seconds > BAD_SHARE_MAX * result.rate };
}

function rowOf(shape: Shape, firn: readonly Run[], name: ServerName, runs: readonly Run[]): Row {
  const figure = (list: readonly Run[]): string => `${count(median(list.map((run) => run.result.rate)))}/s p99 ${median(list.map((run) => run.result.p99Ms)).toFixed(0)} ms`;
  const work = `append ${shape.connections} conn, ${shape.streams} stream${shape.streams === 1 ? '' : 's'} / ${name}`;
  const value = name === 'bare' ? BARE_MIN[shape.connections] : RIVAL_MIN[name as PeerName];
  const bad = firn.filter((run) => run.bad).length;
  const lame = runs.filter((run) => run.bad).length;
  return {
    work, firn: figure(firn), other: lame === 0 ? figure(runs) : `${figure(runs)} (failing)`,
    ratio: median(firn.map((run) => run.result.rate)) / median(runs.map((run) => run.result.rate)), bound: { kind: 'min', value },
    ...(bad > 0 ? { fault: `${bad} of ${firn.length} runs had refused or lost appends` } : {}),
  };
}

async function shapeRows(shape: Shape, names: readonly ServerName[], options: Options): Promise<Row[]> {
  return withServers(names, {}, async (servers) => {
    const runs = new Map<ServerName, Run[]>(names.map((name) => [name, []]));
    for (const server of servers) await runOne(server, shape, WARM_UP, WARM_UP_SECONDS);
    for (let round = 0; round < options.rounds; round += 1) {
      for (const server of servers) {
        process.stderr.write(`bench: append ${shape.connections} connections, ${shape.streams} streams, round ${round + 1}, ${server.name}\n`);
        runs.get(server.name)?.push(await runOne(server, shape, round, options.seconds));
      }
    }
    const firn = runs.get('firn') ?? [];
    return names.filter((name) => name !== 'firn').map((name) => rowOf(shape, firn, name, runs.get(name) ?? []));
  });
}

export async function appends(options: Options): Promise<Row[]> {
  const noWrk = ensureWrk();
  if (noWrk !== null) throw new Error(noWrk);
  const missing = peerMissing();
  if (missing !== null) process.stderr.write(`bench: ${missing}\n`);
  const names: ServerName[] = missing === null ? ['bare', 'firn', 'ursula', 'reference', 's2'] : ['bare', 'firn'];
  const rows: Row[] = [];
  for (const shape of SHAPES) {
    const found = await shapeRows(shape, names, options);
    process.stderr.write(`${resultTable(found)}\n`);
    rows.push(...found);
  }
  return rows;
}
