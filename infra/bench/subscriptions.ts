/**
 * Subscriptions: how soon a webhook hears of an append while thousands of streams match, and what they cost streams that nobody subscribed to.
 */
import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { call } from '../demo/client.js';
import { count, quantile } from '../lib/table.js';
import { settleDisk } from './disk.js';
import { median, WARM_UP, WARM_UP_SECONDS, type Options, type Row } from './results.js';
import { withServers, type Server } from './servers.js';
import { appendLoad, ensureWrk } from './wrk.js';

const STREAMS = 10_000;
const APPENDS_A_SECOND = 2_000;
/** Appends are sent in groups, so often. */
const TICK_MS = 5;
const WAKE_MS_MAX = 50;
const UNSUBSCRIBED_MIN = 0.97;
/** How long after the last append a wake-up may still come, ms. */
const SETTLE_MS = 5_000;

interface Delivery {
  readonly streams: readonly { readonly path: string; readonly tail_offset: string }[];
}

/** A webhook that says it is done at once, and notes when it heard of which position. */
class Receiver {
  readonly #server: HttpServer;
  /** Appends that it has not heard of: per stream the end of each and when it was answered. */
  readonly #open = new Map<string, { readonly end: string; readonly atMs: number }[]>();
  readonly waits: number[] = [];
  deliveries = 0;

  constructor() {
    this.#server = createServer((req, res) => void this.#take(req, res));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook`;
  }

  appended(path: string, end: string, atMs: number): void {
    const known = this.#open.get(path);
    if (known === undefined) this.#open.set(path, [{ end, atMs }]);
    else known.push({ end, atMs });
  }

  get unheard(): number {
    let sum = 0;
    for (const list of this.#open.values()) sum += list.length;
    return sum;
  }

  async #take(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const now = performance.now();
    const pieces: Buffer[] = [];
    for await (const piece of req) pieces.push(piece as Buffer);
    res.writeHead(200, { 'content-type': 'application/json' }).end('{"done":true}');
    this.deliveries += 1;
    for (const { path, tail_offset: tail } of (JSON.parse(Buffer.concat(pieces).toString()) as Delivery).streams) {
      const known = this.#open.get(path);
      if (known === undefined) continue;
      for (const { end, atMs } of known) if (end <= tail) this.waits.push(Math.max(0, now - atMs));
      const left = known.filter(({ end }) => end > tail);
      if (left.length === 0) this.#open.delete(path);
      else this.#open.set(path, left);
    }
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}

async function subscribe(server: Server, id: string, pattern: string, url: string): Promise<void> {
  await call(`${server.url}/v1/stream/__ds/subscriptions/${id}`, {
    method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ type: 'webhook', pattern, webhook: { url } }), expect: [200, 201],
  });
}

/** Appends at a steady rate, over all streams in turn, whatever the answers take. */
async function paced(server: Server, receiver: Receiver, seconds: number): Promise<void> {
  const started = performance.now();
  const running = new Set<Promise<void>>();
  for (let sent = 0; performance.now() - started < seconds * 1_000; ) {
    const due = Math.floor(((performance.now() - started) * APPENDS_A_SECOND) / 1_000);
    for (; sent < due; sent += 1) {
      const path = `bench/hook-${(sent * 7_919) % STREAMS}`;
      const one: Promise<void> = call(`${server.url}/v1/stream/${path}`, { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'an event of some length', expect: [204] })
        .then(({ headers }) => receiver.appended(path, String(headers['stream-next-offset']), performance.now()))
        .finally(() => running.delete(one));
      running.add(one);
    }
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
  await Promise.all(running);
}

async function wakeUps(options: Options): Promise<Row> {
  const receiver = new Receiver();
  return withServers(['firn'], {}, async ([server]): Promise<Row> => {
    if (server === undefined) throw new Error('no server');
    await subscribe(server, 'hook', 'bench/*', await receiver.listen());
    await server.create('hook-', STREAMS, 'text/plain');
    await paced(server, receiver, WARM_UP_SECONDS);
    receiver.waits.length = 0;
    const before = receiver.deliveries;
    process.stderr.write(`bench: wake-ups of ${count(STREAMS)} streams, ${count(APPENDS_A_SECOND)} appends a second\n`);
    await paced(server, receiver, options.seconds);
    for (let waited = 0; receiver.unheard > 0 && waited < SETTLE_MS; waited += 100) await new Promise((resolve) => setTimeout(resolve, 100));
    const unheard = receiver.unheard;
    const p50 = quantile(receiver.waits, 0.5);
    return {
      work: `wake-up of a webhook, ${count(STREAMS)} streams, ${count(APPENDS_A_SECOND)} appends/s`,
      firn: `p50 ${p50.toFixed(1)} ms p99 ${quantile(receiver.waits, 0.99).toFixed(0)} ms`, other: `${count(receiver.deliveries - before)} deliveries, ${WAKE_MS_MAX} ms`,
      ratio: p50 / WAKE_MS_MAX, bound: { kind: 'max', value: 1 }, ...(unheard > 0 ? { fault: `${unheard} appends were never heard of` } : {}),
    };
  }).finally(() => receiver.close());
}

/** The same load on two nodes: one has a subscription, on other streams. */
async function unsubscribed(options: Options): Promise<Row> {
  const noWrk = ensureWrk();
  if (noWrk !== null) throw new Error(noWrk);
  return withServers(['firn', 'firn'], {}, async ([without, having]) => {
    if (without === undefined || having === undefined) throw new Error('no servers');
    await subscribe(having, 'elsewhere', 'elsewhere/**', 'http://127.0.0.1:9/hook');
    const rates = new Map<Server, number[]>([[without, []], [having, []]]);
    for (let round = WARM_UP; round < options.rounds; round += 1) {
      for (const [server, list] of rates) {
        const prefix = `u${round + 1}-`;
        await server.create(prefix, 500, 'application/octet-stream');
        await settleDisk();
        const { rate } = await appendLoad({ url: server.url, paths: Array.from({ length: 500 }, (_, stream) => server.path(`${prefix}${stream}`)), connections: 64, seconds: round === WARM_UP ? WARM_UP_SECONDS : options.seconds, ...server.append(256) });
        if (round !== WARM_UP) list.push(rate);
      }
    }
    const [plain, subscribed] = [median(rates.get(without)!), median(rates.get(having)!)];
    return {
      work: 'append to streams without a subscription / no subscription at all', firn: `${count(subscribed)}/s`, other: `${count(plain)}/s`, ratio: subscribed / plain, bound: { kind: 'min', value: UNSUBSCRIBED_MIN },
    };
  });
}

export async function subscriptions(options: Options): Promise<Row[]> {
  return [await wakeUps(options), await unsubscribed(options)];
}
