/**
 * What an append costs more when it carries a producer, or JSON: each kind in one run against plain binary appends.
 */
import { count } from '../lib/table.js';
import { median, WARM_UP, WARM_UP_SECONDS, type Options, type Row } from './results.js';
import { withServers, type Server } from './servers.js';
import { rawRequest, socketLoad, type SocketResult } from './sockets.js';

const CONNECTIONS = 64;
const BYTES = 256;

type Kind = 'binary' | 'producer' | 'json' | 'ndjson batch of 10';

const BINARY = Buffer.alloc(BYTES, 'x');
const JSON_BODY = Buffer.from(JSON.stringify({ text: 'x'.repeat(BYTES - 11) }));
const BATCH_BODY = Buffer.from(`[${Array.from({ length: 10 }, () => JSON.stringify({ text: 'x'.repeat(15) })).join(',')}]`);

const TYPES: Readonly<Record<Kind, string>> = { binary: 'application/octet-stream', producer: 'application/octet-stream', json: 'application/json', 'ndjson batch of 10': 'application/json' };
/** What an append with a producer, and one of JSON, keeps of the rate of a plain one; a batch of ten is ten messages, and only shown. */
const RATE_MIN = 0.85;
const BOUNDED: ReadonlySet<Kind> = new Set(['producer', 'json']);
const BODIES: Readonly<Record<Kind, Buffer>> = { binary: BINARY, producer: BINARY, json: JSON_BODY, 'ndjson batch of 10': BATCH_BODY };

async function runOne(server: Server, kind: Kind, round: number, seconds: number): Promise<SocketResult> {
  const prefix = `v${kind.slice(0, 2)}${round + 1}-`;
  await server.create(prefix, CONNECTIONS, TYPES[kind]);
  const type = { 'content-type': TYPES[kind] };
  const plain = Array.from({ length: CONNECTIONS }, (_, connection) => rawRequest('POST', server.path(`${prefix}${connection}`), type, BODIES[kind]));
  const request = (connection: number, turn: number): Buffer => {
    if (kind !== 'producer') return plain[connection] as Buffer;
    const headers = { ...type, 'producer-id': `p${connection}`, 'producer-epoch': '0', 'producer-seq': String(turn) };
    return rawRequest('POST', server.path(`${prefix}${connection}`), headers, BODIES[kind]);
  };
  return socketLoad({ url: server.url, connections: CONNECTIONS, seconds, request });
}

export async function variants(options: Options): Promise<Row[]> {
  return withServers(['firn'], {}, async ([server]) => {
    if (server === undefined) throw new Error('no server');
    const kinds = Object.keys(TYPES) as Kind[];
    const runs = new Map<Kind, SocketResult[]>(kinds.map((kind) => [kind, []]));
    for (const kind of kinds) await runOne(server, kind, WARM_UP, WARM_UP_SECONDS);
    for (let round = 0; round < options.rounds; round += 1) for (const kind of kinds) runs.get(kind)?.push(await runOne(server, kind, round, options.seconds));
    const rate = (kind: Kind): number => median((runs.get(kind) ?? []).map((run) => run.rate));
    const bad = (kind: Kind): number => (runs.get(kind) ?? []).reduce((sum, run) => sum + run.bad, 0);
    return kinds.slice(1).map((kind) => ({
      work: `append ${kind} / plain binary, 64 conn`, firn: `${count(rate(kind))}/s`, other: `${count(rate('binary'))}/s`, ratio: rate(kind) / rate('binary'),
      bound: BOUNDED.has(kind) ? { kind: 'min', value: RATE_MIN } : null,
      ...(bad(kind) + bad('binary') > 0 ? { fault: `${bad(kind) + bad('binary')} appends were refused` } : {}),
    }));
  });
}
