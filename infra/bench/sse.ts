/**
 * One writer at 50 events a second, 1,000 SSE readers: how late the events arrive, and whether each reader gets each.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { call } from '../demo/client.js';
import { median, type Options, type Row } from './results.js';
import { peerMissing, withServers, type Server, type ServerName } from './servers.js';

const READERS = 1_000;
const EVENTS_PER_SECOND = 50;
/** Time for the last events to arrive, ms. */
const LAST_EVENTS_MS = 5_000;
const CONNECT_MS = 20_000;

interface Run {
  readonly received: number;
  readonly expected: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

async function runOne(server: Server, round: number, seconds: number): Promise<Run> {
  const stream = `sse${round}-0`;
  await server.create(`sse${round}-`, 1, 'text/plain');
  const events = seconds * EVENTS_PER_SECOND;
  const program = fileURLToPath(new URL('sse-readers.js', import.meta.url));
  const wait = CONNECT_MS + seconds * 1_000 + LAST_EVENTS_MS;
  const child = spawn(process.execPath, [program, server.url, `${server.path(stream)}?offset=now&live=sse`, String(READERS), String(events), String(wait)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  if ((await lines.next()).value !== 'ready') throw new Error(`the readers of ${server.name} did not all connect`);
  const started = performance.now();
  for (let number = 0; number < events; number += 1) {
    const due = started + (number * 1_000) / EVENTS_PER_SECOND;
    const early = due - performance.now();
    if (early > 0) await sleep(early);
    const body = `~${number}:${process.hrtime.bigint()}~${'z'.repeat(200)}\n`;
    await call(`${server.url}${server.path(stream)}`, { method: 'POST', headers: { 'content-type': 'text/plain' }, body, expect: [200, 204] });
  }
  const last = (await lines.next()).value;
  if (typeof last !== 'string') throw new Error(`the readers of ${server.name} ended without figures`);
  return JSON.parse(last) as Run;
}

const figure = (runs: readonly Run[]): string => `p50 ${median(runs.map((run) => run.p50Ms)).toFixed(0)} p99 ${median(runs.map((run) => run.p99Ms)).toFixed(0)} ms`;
const lost = (runs: readonly Run[]): number => runs.reduce((sum, run) => sum + run.expected - run.received, 0);

export async function sse(options: Options): Promise<Row[]> {
  const missing = peerMissing();
  if (missing !== null) process.stderr.write(`bench: ${missing}\n`);
  const names: ServerName[] = missing === null ? ['firn', 'ursula'] : ['firn'];
  return withServers(names, {}, async (servers) => {
    const runs = new Map<ServerName, Run[]>(names.map((name) => [name, []]));
    for (let round = 0; round < options.rounds; round += 1) {
      for (const server of servers) {
        process.stderr.write(`bench: 1,000 SSE readers, round ${round + 1}, ${server.name}\n`);
        runs.get(server.name)?.push(await runOne(server, round, options.seconds));
      }
    }
    const firn = runs.get('firn') ?? [];
    const rival = runs.get('ursula');
    const p99 = (list: readonly Run[]): number => median(list.map((run) => run.p99Ms));
    return [{
      work: '50 events/s, 1,000 SSE readers / ursula', firn: figure(firn), other: rival === undefined ? '' : `${figure(rival)}, ${lost(rival)} lost`,
      ratio: rival === undefined ? null : p99(firn) / p99(rival), bound: rival === undefined ? null : { kind: 'max', value: 1 },
      ...(lost(firn) > 0 ? { fault: `${lost(firn)} events did not arrive` } : {}),
    }];
  });
}
