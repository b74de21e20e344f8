/**
 * Many clients at once, answers that are lost on the way, a node that is killed in between, everything sealed and evicted within milliseconds: the history of each stream is linearizable (I1, I2, R024, R066, R068).
 *
 * A run prints its seed; `FIRN_SEED` draws the same requests and faults again (not the same times), `FIRN_CLIENTS_MS` makes it longer.
 */
import { afterEach, expect, it } from 'vitest';
import { FaultProxy } from '../support/fault-proxy.js';
import type { Fault } from '../support/fault-proxy.js';
import { Http } from '../support/http.js';
import { FirnNode } from '../support/node.js';
import type { Env } from '../support/node.js';
import { seeded } from '../support/random.js';
import type { Random } from '../support/random.js';
import { JSON_TYPE, sleep, TEXT } from '../support/stream.js';
import { Client, Recorded } from './clients.js';
import { faultsOf } from './history.js';

const RUN_MS = Number(process.env['FIRN_CLIENTS_MS'] ?? 4_000);
const CLIENTS = 10;
const COLD: Env = { FIRN_HOT_KEEP_MS: '0', FIRN_SEAL_BYTES: '1', FIRN_SEAL_AGE_MS: '20', FIRN_LOG: 'warn' };

let node: FirnNode;
let proxy: FaultProxy;
let http: Http;
afterEach(async () => {
  await http.close();
  await proxy.close();
  await node.dispose();
});

/** What may happen to a request: it arrives and its answer does not, it arrives in part, the answer breaks off, all takes its time. */
function badLine(luck: Random): (request: { readonly path: string }) => Fault | null {
  return ({ path }) => {
    // These two wait for the end of the answer, which events do not have.
    if (path.includes('live=sse')) return null;
    const dice = luck.next();
    if (dice < 0.08) return { kind: 'lost-answer' };
    if (dice < 0.11) return { kind: 'reset-upload' };
    if (dice < 0.14) return { kind: 'reset-body', at: luck.next() };
    return dice < 0.2 ? { kind: 'latency', ms: luck.int(1, 40) } : null;
  };
}

for (const [title, settings, kill] of [['cold within milliseconds', COLD, false], ['killed in between', COLD, true], ['kept hot, in four partitions', { FIRN_PARTITIONS: '4', FIRN_LOG: 'warn' }, true]] as const) {
  it(`I1 I2 R024 R066 R068 clients with lost answers see one history of each stream: ${title}`, { timeout: RUN_MS + 120_000 }, async () => {
    const random = seeded(`clients, ${title}`);
    node = new FirnNode(settings);
    await node.start();
    proxy = await FaultProxy.before(node.url);
    http = new Http(proxy.endpoint);
    const streams = Array.from({ length: 5 }, (_, i) => new Recorded(`/hist-${i}/s`, i % 2 === 0 ? TEXT : JSON_TYPE));
    for (const one of streams) expect((await one.on(node.http).create({ type: one.type })).status).toBe(201);
    proxy.faultOf = badLine(random.fork());

    const deadline = Date.now() + RUN_MS;
    const clients = Array.from({ length: CLIENTS }, (_, i) => new Client(`c${i}`, http, random.fork()));
    const work = clients.map(async (client, i) => {
      const luck = random.fork();
      while (Date.now() < deadline) await client.act(luck.pick(streams));
      // Some end streams while the others still write.
      if (i < 3) await client.end(streams[i]!);
      for (let more = 0; more < 15; more += 1) await client.act(luck.pick(streams));
    });
    if (kill) {
      await sleep(RUN_MS / 2);
      await node.kill();
      await node.start();
    }
    await Promise.all(work);

    const appends = streams.flatMap(({ history }) => history).filter((op) => op.kind === 'append');
    const count = (outcome: string): number => appends.filter((op) => op.outcome === outcome).length;
    process.stdout.write(`clients, ${title}: ${count('applied')} appends applied, ${count('lost')} lost, ${count('refused')} refused, ${streams.reduce((sum, { history }) => sum + history.length, 0)} operations\n`);
    expect([count('applied') > 100, count('lost') > 5, count('refused') > 0]).toEqual([true, true, true]);
    for (let look = 0; look < 2; look += 1) {
      for (const [i, one] of streams.entries()) {
        const s = one.on(node.http);
        expect(faultsOf(one.history, { content: (await s.all()).toString(), closed: (await s.head()).closed }), one.path).toEqual([]);
        expect((await s.head()).closed).toBe(i < 3);
      }
      await node.seal();
    }
    expect(((await node.ask('POST', '/__firn/verify?deep=1')) as { findings: object[] }).findings).toEqual([]);
  });
}
