/**
 * What an append costs more when it carries a producer, or JSON: each kind in one run against plain binary appends.
 */
import { count } from '../lib/table.js';
import { settleDisk } from './disk.js';
import { median, WARM_UP, WARM_UP_SECONDS, type Options, type Row } from './results.js';
import { withServers, type Server } from './servers.js';
import { appendLoad, ensureWrk, type AppendLoad, type LoadResult } from './wrk.js';

const CONNECTIONS = 64;
/** Many more than connections, for the producers. */
const STREAMS = 1_000;
const BYTES = 256;

type Kind = 'binary' | 'producer' | 'json' | 'ndjson batch of 10';

const BINARY = { headers: { 'content-type': 'application/octet-stream' }, body: 'x'.repeat(BYTES) };
const JSON_TYPE = { 'content-type': 'application/json' };
const LOADS: Readonly<Record<Kind, Pick<AppendLoad, 'headers' | 'body'>>> = {
  'binary': BINARY,
  'producer': { headers: { ...BINARY.headers, 'producer-id': 'p', 'producer-epoch': '0', 'producer-seq': '{turn}' }, body: BINARY.body },
  'json': { headers: JSON_TYPE, body: JSON.stringify({ text: 'x'.repeat(BYTES - 11) }) },
  'ndjson batch of 10': { headers: JSON_TYPE, body: JSON.stringify(Array.from({ length: 10 }, () => ({ text: 'x'.repeat(15) }))) },
};
/** What an append with a producer, and one of JSON, keeps of the rate of a plain one; a batch of ten is ten messages, and only shown. */
const RATE_MIN = 0.85;
const BOUNDED: ReadonlySet<Kind> = new Set(['producer', 'json']);

async function runOne(server: Server, kind: Kind, round: number, seconds: number): Promise<LoadResult> {
  const prefix = `v${kind.slice(0, 2)}${round + 1}-`;
  const load = LOADS[kind];
  await server.create(prefix, STREAMS, load.headers['content-type'] ?? '');
  await settleDisk();
  return appendLoad({ url: server.url, paths: Array.from({ length: STREAMS }, (_, stream) => server.path(`${prefix}${stream}`)), connections: CONNECTIONS, seconds, ...load });
}

export async function variants(options: Options): Promise<Row[]> {
  const noWrk = ensureWrk();
  if (noWrk !== null) throw new Error(noWrk);
  return withServers(['firn'], {}, async ([server]) => {
    if (server === undefined) throw new Error('no server');
    const kinds = Object.keys(LOADS) as Kind[];
    const runs = new Map<Kind, LoadResult[]>(kinds.map((kind) => [kind, []]));
    for (const kind of kinds) await runOne(server, kind, WARM_UP, WARM_UP_SECONDS);
    for (let round = 0; round < options.rounds; round += 1) for (const kind of kinds) runs.get(kind)?.push(await runOne(server, kind, round, options.seconds));
    const rate = (kind: Kind): number => median((runs.get(kind) ?? []).map((run) => run.rate));
    const bad = (kind: Kind): number => (runs.get(kind) ?? []).reduce((sum, run) => sum + run.refused + run.errors, 0);
    return kinds.slice(1).map((kind) => ({
      work: `append ${kind} / plain binary, 64 conn`, firn: `${count(rate(kind))}/s`, other: `${count(rate('binary'))}/s`, ratio: rate(kind) / rate('binary'),
      bound: BOUNDED.has(kind) ? { kind: 'min', value: RATE_MIN } : null,
      ...(bad(kind) + bad('binary') > 0 ? { fault: `${bad(kind) + bad('binary')} appends were refused` } : {}),
    }));
  });
}
