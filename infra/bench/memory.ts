/**
 * Resident memory with 100,000 streams, and what a long read adds to it.
 */
import { call, header, open } from '../demo/client.js';
import { each } from '../lib/pool.js';
import { bytes } from '../lib/table.js';
import { residentBytes } from '../lib/firn-process.js';
import type { Row } from './results.js';
import { withServers, type Server } from './servers.js';

const STREAMS = 100_000;
const LONG_READ_BYTES = 256 * 1_048_576;
const APPEND_BYTES = 1_048_576;
/** Most resident bytes after all streams, and most that a read may add. */
const RESIDENT_MAX = 400e6;
const READ_ADDS_MAX = 64e6;
const SAMPLE_MS = 20;

async function populate(server: Server): Promise<void> {
  const type = { 'content-type': 'text/plain' };
  await each(Array.from({ length: STREAMS }, (_, n) => n), 64, async (n) => {
    const url = `${server.url}${server.path(`m${n}`)}`;
    await call(url, { method: 'PUT', headers: type, expect: [201] });
    await call(url, { method: 'POST', headers: type, body: `line ${n}\n`, expect: [200, 204] });
  });
}

/** Reads the whole stream page by page; answers the highest resident memory meanwhile. */
async function longRead(server: Server, stream: string): Promise<number> {
  let most = residentBytes(server.pid);
  const sampler = setInterval(() => {
    most = Math.max(most, residentBytes(server.pid));
  }, SAMPLE_MS);
  let total = 0;
  for (let offset = '-1'; ; ) {
    const answer = await open(`${server.url}${server.path(stream)}?offset=${offset}`, { expect: [200] });
    for await (const piece of answer.body as AsyncIterable<Buffer>) total += piece.length;
    if (answer.headers['stream-up-to-date'] === 'true') break;
    offset = header(answer as unknown as { headers: Record<string, unknown> }, 'stream-next-offset');
  }
  clearInterval(sampler);
  if (total !== LONG_READ_BYTES) throw new Error(`${total} bytes were read`);
  return most;
}

export async function memory(): Promise<Row[]> {
  return withServers(['firn'], {}, async ([server]) => {
    if (server === undefined) throw new Error('no server');
    process.stderr.write('bench: 100,000 streams\n');
    await populate(server);
    const resident = residentBytes(server.pid);
    process.stderr.write('bench: a long read\n');
    await server.create('long-', 1, 'application/octet-stream');
    const body = Buffer.alloc(APPEND_BYTES, 'w');
    for (let written = 0; written < LONG_READ_BYTES; written += APPEND_BYTES) {
      await call(`${server.url}${server.path('long-0')}`, { method: 'POST', headers: { 'content-type': 'application/octet-stream' }, body, expect: [200, 204] });
    }
    // Once to warm up what any read warms up, once to measure.
    await longRead(server, 'long-0');
    const before = residentBytes(server.pid);
    const added = Math.max(0, (await longRead(server, 'long-0')) - before);
    return [
      { work: 'resident after 100,000 streams, one append each', firn: bytes(resident), other: '400 MB', ratio: resident / RESIDENT_MAX, bound: { kind: 'max', value: 1 } },
      { work: 'added by reading 256 MiB', firn: bytes(added), other: '64 MB', ratio: added / READ_ADDS_MAX, bound: { kind: 'max', value: 1 } },
    ];
  });
}
