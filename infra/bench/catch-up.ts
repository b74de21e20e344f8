/**
 * Hot catch-up: 64 MiB that were written in 1 KiB appends, read from the start as fast as it goes.
 */
import { call, header, open } from '../demo/client.js';
import { median, type Options, type Row } from './results.js';
import { peerMissing, withServers, type Server, type ServerName } from './servers.js';
import { rawRequest, socketLoad } from './sockets.js';

const APPEND_BYTES = 1_024;
/** A rival keeps at most 64 MiB of a group in memory: four streams of 16 MiB stay below. */
const STREAMS = 4;
const STREAM_BYTES = 16 * 1_048_576;
const WRITERS_PER_STREAM = 16;
const FLOOR = 0.6;

async function fill(server: Server): Promise<void> {
  await server.create('fill-', STREAMS, 'application/octet-stream');
  const body = Buffer.alloc(APPEND_BYTES, 'y');
  const requests = Array.from({ length: STREAMS }, (_, stream) => rawRequest('POST', server.path(`fill-${stream}`), { 'content-type': 'application/octet-stream' }, body));
  const tail = async (stream: number): Promise<number> => Number(header(await call(`${server.url}${server.path(`fill-${stream}`)}`, { method: 'HEAD', expect: [200] }), 'stream-next-offset'));
  for (let stream = 0; stream < STREAMS; stream += 1) {
    while ((await tail(stream)) < STREAM_BYTES) {
      const result = await socketLoad({ url: server.url, connections: WRITERS_PER_STREAM, seconds: 0.5, request: () => requests[stream] as Buffer });
      if (result.bad > 0) throw new Error(`${server.name} refused ${result.bad} appends`);
    }
  }
}

/** Reads all streams once; answers MB/s. */
async function readAll(server: Server): Promise<number> {
  const started = performance.now();
  let bytes = 0;
  for (let stream = 0; stream < STREAMS; stream += 1) {
    for (let offset = '-1'; ; ) {
      const answer = await open(`${server.url}${server.path(`fill-${stream}`)}?offset=${offset}`, { expect: [200] });
      for await (const piece of answer.body as AsyncIterable<Buffer>) bytes += piece.length;
      if (answer.headers['stream-up-to-date'] === 'true') break;
      offset = header(answer as unknown as { headers: Record<string, unknown> }, 'stream-next-offset');
    }
  }
  if (bytes < STREAMS * STREAM_BYTES) throw new Error(`${server.name} gave ${bytes} bytes`);
  return bytes / 1e3 / (performance.now() - started);
}

export async function catchUp(options: Options): Promise<Row[]> {
  const missing = peerMissing();
  if (missing !== null) process.stderr.write(`bench: ${missing}\n`);
  const names: ServerName[] = missing === null ? ['firn', 'ursula'] : ['firn'];
  // Nothing is sealed meanwhile: this is the hot tier alone.
  return withServers(names, { FIRN_SEAL_AGE_MS: '3600000', FIRN_SEAL_BYTES: '1073741824' }, async (servers) => {
    for (const server of servers) {
      process.stderr.write(`bench: catch-up, filling ${server.name}\n`);
      await fill(server);
    }
    const rates = new Map<ServerName, number[]>(names.map((name) => [name, []]));
    for (let round = 0; round < options.rounds + 2; round += 1) for (const server of servers) rates.get(server.name)?.push(await readAll(server));
    const firn = median(rates.get('firn') ?? []);
    const rival = rates.get('ursula');
    return [{
      work: 'hot catch-up, 64 MiB in 1 KiB appends / ursula', firn: `${firn.toFixed(0)} MB/s`, other: rival === undefined ? '' : `${median(rival).toFixed(0)} MB/s`,
      ratio: rival === undefined ? null : firn / median(rival), bound: rival === undefined ? null : { kind: 'min', value: FLOOR },
    }];
  });
}
